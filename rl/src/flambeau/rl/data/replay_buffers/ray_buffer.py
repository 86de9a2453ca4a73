"""A replay buffer in an actor of Ray, to which all machines write, and from which all sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl._comm.ray_runtime import _RayActorLiveness, _RayRuntimeLease
from flambeau.rl._remote import as_remote, imported_ray
from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer

__all__ = ["RayReplayBuffer", "as_remote"]


def __getattr__(name: str) -> Any:
    if name == "ray":  # upstream: the module, where it is installed
        return imported_ray()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Served:
    """What runs in the actor: a buffer, whose attributes are asked for by name.

    Args:
        kind: class of the buffer.
        args: its arguments.
        kwargs: its arguments by name.
    """

    def __init__(self, kind: type[ReplayBuffer], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._buffer = kind(*args, **kwargs)
        self._service: Any = None

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What a method returns; of the buffer itself, nothing."""
        found = getattr(self._buffer, name)(*args, **kwargs)
        return None if found is self._buffer else found

    def read(self, name: str) -> Any:
        """What an attribute is."""
        return getattr(self._buffer, name)

    def write(self, name: str, value: Any) -> None:
        """Set an attribute."""
        setattr(self._buffer, name, value)

    def channel(self, name: str, spec: Any, options: dict[str, Any]) -> Any:
        """A client of a channel over torch.distributed: "extend", "sample", "priority" or "control".

        Args:
            name: the channel; it has the layout of the first who asks for it.
            spec: what the first one sends; of "sample", the number of items.
            options: of the service.
        """
        if self._service is None:
            from flambeau.rl._comm.replay_service import _DistributedReplayService

            self._service = _DistributedReplayService(self._buffer, **options).start()
        service = self._service
        if name not in service._servers:
            if name == "extend":
                service.bind_extend(spec, TensorDict({"index": torch.zeros(len(spec), dtype=torch.int64)}))
            elif name == "sample":
                service.bind_sample(self._buffer.sample(spec))
            else:
                service.bind_priority(spec)
        return service._client(name)


class _Calls:
    """Calls methods of the buffer in an actor."""

    _actor: Any

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        ray = imported_ray()
        if self._actor is None:
            raise RuntimeError("the replay buffer's actor was shut down.")
        return ray.get(self._actor.call.remote(name, *args, **kwargs))

    def _read(self, name: str) -> Any:
        ray = imported_ray()
        if self._actor is None:
            raise RuntimeError("the replay buffer's actor was shut down.")
        return ray.get(self._actor.read.remote(name))

    @property
    def batch_size(self) -> int | None:
        """How many items a batch has, None where `sample` must be told."""
        found: int | None = self._read("batch_size")
        return found

    @property
    def write_count(self) -> int:
        """How many items were written so far."""
        return int(self._read("write_count"))

    @property
    def dim_extend(self) -> int:
        """The dimension of data in `extend` that counts items."""
        return int(self._read("dim_extend"))

    @dim_extend.setter
    def dim_extend(self, value: int) -> None:
        imported_ray().get(self._actor.write.remote("_dim_extend", value))

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """A batch, see `ReplayBuffer.sample`."""
        return self._ask("sample", *args, **kwargs)

    def extend(self, *args: Any, **kwargs: Any) -> Any:
        """Add items, see `ReplayBuffer.extend`."""
        return self._ask("extend", *args, **kwargs)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        """Add one item, see `ReplayBuffer.add`."""
        return self._ask("add", *args, **kwargs)

    def update_priority(self, *args: Any, **kwargs: Any) -> None:
        """Weigh items anew, see `ReplayBuffer.update_priority`."""
        self._ask("update_priority", *args, **kwargs)

    def update_tensordict_priority(self, data: Any) -> None:
        """Weigh the items of a batch anew, see `TensorDictReplayBuffer.update_tensordict_priority`."""
        self._ask("update_tensordict_priority", data)

    def update_if_present(self, **kwargs: Any) -> Any:
        """Change items that are still there, see `ReplayBuffer.update_if_present`."""
        return self._ask("update_if_present", **kwargs)

    def stats(self) -> dict[str, int | float | bool]:
        """How many items there are, were written and fit, and how many batches wait."""
        found: dict[str, int | float | bool] = self._ask("stats")
        return found

    def next(self) -> Any:
        """The next batch of an iteration, see `ReplayBuffer.next`."""
        return self._ask("next")

    def __len__(self) -> int:
        return int(self._ask("__len__"))

    def __getitem__(self, index: Any) -> Any:
        return self._ask("__getitem__", index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._ask("__setitem__", index, value)

    def __iter__(self) -> Iterator[Any]:
        """Batches, until the sampler ran out."""
        while (batch := self.next()) is not None:
            yield batch


class _RayReplayBufferClient(_Calls):
    """Writes to the buffer and samples, and can be sent to any process of the cluster; it cannot end the buffer.

    Args:
        actor: the actor.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor


class _LazyDistributedReplayClient(_RayReplayBufferClient):
    """The same, with data over torch.distributed, in the layout of those that are sent first.

    Args:
        actor: the actor.
        options: of the service: `backend` and `timeout`.
    """

    def __init__(self, actor: Any, options: dict[str, Any]) -> None:
        super().__init__(actor)
        self._options = options
        self._channels: dict[str, Any] = {}

    def _channel(self, name: str, spec: Any) -> Any:
        if name not in self._channels:
            self._channels[name] = imported_ray().get(self._actor.channel.remote(name, spec, self._options))
        return self._channels[name]

    def extend(self, data: Any, *, timeout: float | None = None) -> Any:
        """Add rows, always as many of the same layout; their places.

        Args:
            data: the rows.
            timeout: seconds to wait; None for no end.
        """
        return self._channel("extend", data)(data, timeout)["index"]

    def add(self, data: Any, *, timeout: float | None = None) -> Any:
        """Add one row; its place."""
        return self.extend(data.unsqueeze(0), timeout=timeout)[0]

    def sample(self, batch_size: int | None = None, *, timeout: float | None = None) -> Any:
        """A batch, always of the same size.

        Args:
            batch_size: how many items; default: as the buffer was told.
            timeout: seconds to wait; None for no end.

        Raises:
            RuntimeError: nobody said how many.
        """
        size = self.batch_size if batch_size is None else batch_size
        if size is None:
            raise RuntimeError("batch_size not specified. Give it to the buffer, or to sample.")
        return self._channel("sample", size)(TensorDict({"number": torch.tensor(size)}), timeout)

    def update_tensordict_priority(self, data: Any, *, timeout: float | None = None) -> None:
        """Weigh the items of a batch anew."""
        self._channel("priority", data)(data, timeout)


class RayReplayBuffer(_Calls, ReplayBuffer):
    """A replay buffer in an actor of Ray. It can be sent to other actors, such as those of a `RayCollector`.

    Storage, sampler and writer are best given as functions that make them, and transforms as `transform_factory`: they
    are made in the actor.

    Args:
        args: of the buffer.
        replay_buffer_cls: its class.
        ray_init_config: arguments of `ray.init`, where Ray does not run.
        remote_config: what the actor takes: `num_cpus`, `num_gpus`, `memory`, ...; default: one core and 2 GB.
        transport: what carries data: "ray", through its object store, or "distributed", over torch.distributed, which
            takes data of one layout; "auto" is "ray".
        transport_options: of "distributed": `backend` and `timeout`.
        delayed_init: kept for upstream's signature.
        kwargs: of the buffer.

    Raises:
        ImportError: Ray is not installed.
        ValueError: there is no such transport.
    """

    _is_remote = True

    def __init__(
        self,
        *args: Any,
        replay_buffer_cls: type[ReplayBuffer] = ReplayBuffer,
        ray_init_config: dict[str, Any] | None = None,
        remote_config: dict[str, Any] | None = None,
        transport: Literal["auto", "ray", "distributed"] = "auto",
        transport_options: dict[str, Any] | None = None,
        delayed_init: bool = False,
        **kwargs: Any,
    ) -> None:
        if transport not in ("auto", "ray", "distributed"):
            raise ValueError(f"transport is {transport!r}; a buffer on Ray has 'auto', 'ray' and 'distributed'.")
        self._lease: _RayRuntimeLease | None = _RayRuntimeLease.acquire(ray_init_config)
        self._kind = "ray" if transport == "auto" else transport
        self._transport_options = dict(transport_options or {})
        self._actor = as_remote(_Served, remote_config).remote(replay_buffer_cls, args, kwargs)
        try:
            self._read("batch_size")  # an actor that fails to make the buffer tells it with the first call
        except BaseException:
            self.shutdown()
            raise

    # Life

    def start(self) -> RayReplayBuffer:
        """The buffer itself, whose actor runs."""
        return self

    @property
    def is_alive(self) -> bool:
        """Whether its actor lives."""
        return self._actor is not None and _RayActorLiveness(self._actor).is_set()

    @property
    def initialized(self) -> bool:
        """Whether its parts are made."""
        return self._actor is not None

    @property
    def service_backend(self) -> str:
        """Where it is: "ray"."""
        return "ray"

    @property
    def transport_kind(self) -> str:
        """What carries data."""
        return self._kind

    def client(self) -> Any:
        """What writes and samples, and cannot end the buffer."""
        if self._actor is None:
            raise RuntimeError("the replay buffer's actor was shut down.")
        if self._kind == "distributed":
            return _LazyDistributedReplayClient(self._actor, self._transport_options)
        return _RayReplayBufferClient(self._actor)

    def clients(self, num_clients: int) -> list[Any]:
        """As many clients, one for each who asks by itself.

        Raises:
            ValueError: num_clients < 1.
        """
        if num_clients < 1:
            raise ValueError(f"num_clients is {num_clients}, expected 1 or more.")
        return [self.client() for _ in range(num_clients)]

    def shutdown(self, timeout: float | None = None) -> None:
        """End the actor; Ray as well, where the buffer started it and nobody else needs it.

        Args:
            timeout: kept for the signature that all services share.
        """
        actor, self._actor = self._actor, None
        if actor is not None:
            ray = imported_ray()
            if ray.is_initialized():
                ray.kill(actor)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def close(self) -> None:
        """End the actor, see `shutdown`."""
        self.shutdown()

    def synchronize(self) -> None:
        """Wait for what the actor has been told."""
        self._ask("synchronize")

    def __getstate__(self) -> dict[str, Any]:
        return {"_actor": self._actor, "_lease": None, "_kind": self._kind, "_transport_options": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"RayReplayBuffer(actor={self._actor})"


def _forwarded(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = self._ask(name, *args, **kwargs)
        return self if found is None and name in _GIVES_ITSELF else found

    method.__name__, method.__qualname__ = name, f"RayReplayBuffer.{name}"
    method.__doc__ = f"In the actor, see `ReplayBuffer.{name}`."
    return method


_GIVES_ITSELF = {"append_transform", "insert_transform", "set_", "set_at_", "update_", "share"}
_FORWARDED = (
    "append_transform", "can_sample", "dump", "dumps", "empty", "insert_transform", "load", "load_state_dict", "loads",
    "mark_update", "query", "read_all_in_order", "register_load_hook", "register_save_hook", "save", "set_", "set_at_",
    "set_rng", "set_sampler", "set_storage", "set_writer", "share", "state_dict", "update_", "write_all",
)  # fmt: skip
for _name in _FORWARDED:
    setattr(RayReplayBuffer, _name, _forwarded(_name))
del _name
