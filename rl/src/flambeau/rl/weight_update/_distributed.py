"""Weights for workers on other machines, over torch.distributed."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.weight_update._mp import sync_timeout_s
from flambeau.rl.weight_update._weights import weights_of
from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme

_TAG = 7
_LOOK_S = 0.02
"""How often a receiver asks the store for new weights: an answer from another machine takes longer than many steps."""


class DistributedTransport:
    """Carries weights from rank 0 to one worker: the store says that there are some, messages bring them.

    Args:
        weights_buffer: what they are like; on the CPU, or on the device that the backend takes.
        store: what both sides know the versions by.
        rank: the worker's.
        sync: wait until the worker has taken them.
        group: a process group in which the sender is 0; default: torch's default group.
    """

    def __init__(
        self,
        *,
        weights_buffer: TensorDictBase,
        store: Any = None,
        rank: int | None = None,
        sync: bool = True,
        group: Any = None,
    ) -> None:
        self.buffer: Any = weights_buffer.detach().clone()
        self.store, self.rank, self.sync, self.group = store, rank, sync, group
        self._version = 0
        self._sent: list[Any] = []
        self._looked = float("-inf")

    def _leaves(self, weights: Any) -> list[torch.Tensor]:
        return [weights.get(key).contiguous() for key in self.buffer.keys(True, True)]

    def _key(self, what: str) -> str:
        return f"weights/{what}/{self.rank}"

    # At the sender

    def send_weights_async(self, weights: Any) -> None:
        """Send weights; those that were sent before must be on their way first.

        Args:
            weights: a tensordict or a state_dict.
        """
        for work, _ in self._sent:
            work.wait()
        self._version += 1
        # Copies: the weights may change while they are on their way.
        copies = [leaf.detach().clone() for leaf in self._leaves(weights_of(weights))]
        self.store.set(self._key("version"), str(self._version))
        if self.group is None:
            self._sent = [(dist.isend(leaf, self.rank, tag=_TAG), leaf) for leaf in copies]
        else:
            self._sent = [(self.group.send([leaf], self.rank, _TAG), leaf) for leaf in copies]

    def wait_ack(self) -> None:
        """Wait until the worker has taken what was sent last."""
        deadline = time.monotonic() + sync_timeout_s()
        while int(self.store.add(self._key("taken"), 0)) < self._version:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"The worker of rank {self.rank} has not taken new weights for {sync_timeout_s():g} s; set the "
                    "environment variable TORCHRL_WEIGHT_SYNC_TIMEOUT to more seconds, or give sync=False."
                )
            time.sleep(0.002)

    def send_weights(self, weights: Any) -> None:
        """Send weights, and wait until they are taken where `sync` says so.

        Args:
            weights: a tensordict or a state_dict.
        """
        self.send_weights_async(weights)
        if self.sync:
            self.wait_ack()

    send_initial_weights = send_weights_async

    def setup_connection_and_weights_on_sender(self) -> None:
        """Nothing: the first weights are sent like all others."""

    # At the worker

    def receive_weights(
        self, timeout: float | None = None, *, weights: Any = None, model: Any = None, strategy: Any = None
    ) -> Any | None:
        """The latest weights, written into a model or into others; None where there were none in time.

        Args:
            timeout: in seconds; None for no end.
            weights: what is written into where there is no model.
            model: what is written into.
            strategy: how weights are written.
        """
        if timeout == 0 and time.monotonic() - self._looked < _LOOK_S:
            return None
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._take():
            if deadline is not None and time.monotonic() >= deadline:
                return None
            time.sleep(_LOOK_S)
        target = model if model is not None else weights
        if target is not None and strategy is not None:
            strategy.apply_weights(target, self.buffer)
        return self.buffer

    def _take(self) -> bool:
        self._looked = time.monotonic()
        if not self.store.check([self._key("version")]):
            return False
        version = int(self.store.get(self._key("version")))
        taken = version > self._version
        while self._version < version:
            for leaf in self._leaves(self.buffer):
                if self.group is None:
                    dist.recv(leaf, 0, tag=_TAG)
                else:
                    self.group.recv([leaf], 0, _TAG).wait()
            self._version += 1
            self.store.add(self._key("taken"), 1)
        return taken

    def receive_initial_weights(self) -> Any:
        """The first weights, which it waits for."""
        return self.receive_weights()

    def setup_connection_and_weights_on_receiver(
        self, *, worker_idx: int, weights: Any = None, model: Any = None, strategy: Any = None
    ) -> Any:
        """Take the first weights.

        Args:
            worker_idx: the worker's number.
            weights: what is written into where there is no model.
            model: what is written into.
            strategy: how weights are written.
        """
        return self.receive_weights(sync_timeout_s(), weights=weights, model=model, strategy=strategy)


class DistributedWeightSyncScheme(WeightSyncScheme):
    """Brings weights to workers over torch.distributed.

    Both sides need a store and a process group in which the sender is rank 0, and worker `i` rank `i + 1`: collectors
    give their own; else both are given to `init_on_sender` and `init_on_receiver` as `store` and `group`.

    Args:
        backend: of torch.distributed, by which weights travel.
        sync: wait until they are taken.
        timeout: seconds that the other side may take.
    """

    def __init__(self, backend: str = "gloo", sync: bool = True, timeout: float = 3600.0) -> None:
        super().__init__()
        self.backend, self.sync, self.timeout = backend, sync, timeout

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_transports": {}}

    def create_transport(self, **kwargs: Any) -> TransportBackend:
        """A transport to one worker.

        Args:
            kwargs: `worker_idx`, `store`, `group`, `weights_buffer`.
        """
        buffer = kwargs.get("weights_buffer")
        if buffer is None:
            buffer = weights_of(self.weights)
        rank = (kwargs.get("worker_idx") or 0) + 1
        return DistributedTransport(
            weights_buffer=buffer, store=kwargs.get("store"), rank=rank, sync=self.sync, group=kwargs.get("group")
        )

    def _wait(self, transports: list[Any]) -> None:
        if self.sync:
            super()._wait(transports)


def open_group(backend: str, host: str, port: int, rank: int, size: int, timeout: float) -> tuple[Any, Any]:
    """A store, and a process group that is nobody's default.

    Args:
        backend: "gloo" or "nccl".
        host: where rank 0 is.
        port: where its store listens; 0 lets it choose one.
        rank: of this process.
        size: number of processes.
        timeout: seconds that the others may take.

    Raises:
        ValueError: torch was built without the backend.
    """
    span = timedelta(seconds=timeout)
    kind = {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL"}.get(backend)
    if kind is None or not hasattr(dist, kind):
        raise ValueError(f"backend must be 'gloo', or 'nccl' where torch was built with it; got {backend!r}.")
    store = TCPStore(host, port, size, rank == 0, timeout=span, wait_for_workers=False)
    return store, lambda: getattr(dist, kind)(PrefixStore("group", store), rank, size, span)
