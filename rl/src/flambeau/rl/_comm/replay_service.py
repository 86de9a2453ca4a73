"""A replay buffer that others write to and sample from over torch.distributed, with data of one layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl._comm.distributed import TorchDistributedTransport
from flambeau.rl._comm.request_reply import ChannelServer, Message

_SIZE, _WRITTEN = 0, 1
"""What the control channel is asked for."""


class _DistributedReplayService:
    """Serves a buffer; each kind of request has a channel, whose layout is bound before it is used.

    Args:
        replay_buffer: the buffer.
        extend_spec: rows that are added at a time.
        sample_spec: a batch.
        priority_spec: what `update_tensordict_priority` takes.
        backend: "gloo" or "nccl".
        timeout: seconds to wait for the store.
    """

    def __init__(
        self,
        replay_buffer: Any,
        *,
        extend_spec: TensorDictBase | None = None,
        sample_spec: TensorDictBase | None = None,
        priority_spec: TensorDictBase | None = None,
        backend: str = "gloo",
        timeout: float = 300.0,
    ) -> None:
        self.replay_buffer = replay_buffer
        self._options: dict[str, Any] = {"backend": backend, "timeout": timeout}
        self._servers: dict[str, ChannelServer] = {}
        self._store: Any = None
        self._is_started = False
        number = TensorDict({"number": torch.zeros((), dtype=torch.int64)})
        self._bind("control", number, number, self._told)
        if extend_spec is not None:
            index = TensorDict({"index": torch.zeros(len(extend_spec), dtype=torch.int64)})
            self.bind_extend(extend_spec, index)
        if sample_spec is not None:
            self.bind_sample(sample_spec)
        if priority_spec is not None:
            self.bind_priority(priority_spec)

    # Channels

    def _bind(
        self, name: str, request: TensorDictBase, response: TensorDictBase, answer: Callable[[Any], TensorDictBase]
    ) -> None:
        if name in self._servers:
            raise RuntimeError(f"the channel of {name!r} has its layout already.")
        options = dict(self._options)
        if self._store is not None:
            options |= {"_store_info": self._store._store_info, "_store": self._store.store}
        channel = TorchDistributedTransport(request, response, channel_name=name, **options)
        self._store = self._store or channel

        def handler(messages: Sequence[Message]) -> list[TensorDictBase]:
            return [answer(message.payload) for message in messages]

        # One at a time: what one request did, the next one sees.
        server = ChannelServer(channel, handler, max_batch_size=1, name=f"flambeau-replay-{name}")
        self._servers[name] = server
        if self._is_started:
            server.start()

    def bind_extend(self, request_spec: TensorDictBase, response_spec: TensorDictBase) -> None:
        """Say what is added at a time, and what the places are like that are answered."""
        self._bind("extend", request_spec, response_spec, self._extended)

    def bind_sample(self, sample_spec: TensorDictBase) -> None:
        """Say what a batch is like."""
        number = TensorDict({"number": torch.zeros((), dtype=torch.int64)})
        self._bind("sample", number, sample_spec, lambda asked: self.replay_buffer.sample(int(asked["number"])))

    def bind_priority(self, priority_spec: TensorDictBase) -> None:
        """Say what `update_tensordict_priority` takes."""
        number = TensorDict({"number": torch.zeros((), dtype=torch.int64)})
        self._bind("priority", priority_spec, number, self._weighed)

    def _extended(self, data: TensorDictBase) -> TensorDictBase:
        return TensorDict({"index": self.replay_buffer.extend(data)})

    def _weighed(self, data: TensorDictBase) -> TensorDictBase:
        self.replay_buffer.update_tensordict_priority(data)
        return _number(0)

    def _told(self, asked: TensorDictBase) -> TensorDictBase:
        what = int(asked["number"])
        return _number(len(self.replay_buffer) if what == _SIZE else self.replay_buffer.write_count)

    # Life

    def start(self) -> _DistributedReplayService:
        """Begin to serve; the service itself."""
        self._is_started = True
        for server in self._servers.values():
            if not server.is_alive:
                server.start()
        return self

    def shutdown(self) -> None:
        """End; the buffer stays as it is."""
        self._is_started = False
        for server in self._servers.values():
            server.shutdown()
            server.channel.close()  # type: ignore[attr-defined]

    # Clients

    def _client(self, name: str) -> Any:
        if name not in self._servers:
            raise RuntimeError(f"the channel of {name!r} has no layout yet; bind it first.")
        return self._servers[name].client()

    def extend_client(self) -> Any:
        """What adds rows."""
        return self._client("extend")

    def sample_client(self) -> Any:
        """What samples."""
        return self._client("sample")

    def priority_client(self) -> Any:
        """What weighs items anew."""
        return self._client("priority")

    def control_client(self) -> Any:
        """What asks for numbers of items."""
        return self._client("control")

    def client(self) -> _DistributedReplayClient:
        """What writes and samples, and cannot end the service.

        Raises:
            RuntimeError: the layout of rows or of batches is not bound.
        """
        batch = self.replay_buffer.batch_size
        sample = self._servers.get("sample")
        if sample is None:
            raise RuntimeError("the channel of 'sample' has no layout yet; bind it first.")
        answered: Any = sample.channel
        return _DistributedReplayClient(
            self.extend_client(),
            self.sample_client(),
            self.control_client(),
            self.priority_client() if "priority" in self._servers else None,
            batch_size=batch,
            sample_batch_size=answered._answered.batch_size[0],
        )


class _DistributedReplayClient:
    """Writes to a buffer and samples from it. It can be sent to any process that reaches the service.

    Args:
        extend_client: what adds rows.
        sample_client: what samples.
        control_client: what asks for numbers of items.
        priority_client: what weighs items anew; None for nothing.
        batch_size: of the buffer.
        sample_batch_size: of the batches' layout.
    """

    def __init__(
        self,
        extend_client: Any,
        sample_client: Any,
        control_client: Any,
        priority_client: Any,
        *,
        batch_size: int | None,
        sample_batch_size: int,
    ) -> None:
        self._extend, self._sample, self._control = extend_client, sample_client, control_client
        self._priority = priority_client
        self._batch_size, self._sample_batch_size = batch_size, sample_batch_size

    @property
    def batch_size(self) -> int | None:
        """How many items a batch has."""
        return self._batch_size

    @property
    def write_count(self) -> int:
        """How many items were written so far."""
        return int(self._control(_number(_WRITTEN))["number"])

    def __len__(self) -> int:
        """How many items can be drawn."""
        return int(self._control(_number(_SIZE))["number"])

    def extend(self, data: TensorDictBase, *, timeout: float | None = None) -> Tensor:
        """Add rows, as many as the layout has; their places.

        Args:
            data: the rows.
            timeout: seconds to wait; None for no end.
        """
        index: Tensor = self._extend(data, timeout)["index"]
        return index

    def sample(self, batch_size: int | None = None, *, timeout: float | None = None) -> TensorDictBase:
        """A batch.

        Args:
            batch_size: that of the layout.
            timeout: seconds to wait; None for no end.

        Raises:
            ValueError: it is another one.
        """
        size = self._sample_batch_size if batch_size is None else batch_size
        if size != self._sample_batch_size:
            raise ValueError(f"batches of this channel have {self._sample_batch_size} items, not {size}.")
        found: TensorDictBase = self._sample(_number(size), timeout)
        return found

    def update_tensordict_priority(self, data: TensorDictBase, *, timeout: float | None = None) -> None:
        """Weigh the items of a batch anew.

        Args:
            data: the batch, with "index" and priorities.
            timeout: seconds to wait; None for no end.

        Raises:
            RuntimeError: the channel of priorities has no layout.
        """
        if self._priority is None:
            raise RuntimeError("the channel of 'priority' has no layout; bind it at the service.")
        self._priority(data, timeout)


def _number(value: int) -> TensorDict:
    return TensorDict({"number": torch.tensor(value, dtype=torch.int64)})
