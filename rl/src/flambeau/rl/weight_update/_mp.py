"""Weights for processes of this machine, each with a copy of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.weight_update._mailbox import Mailbox, Slot
from flambeau.rl.weight_update._weights import weights_of
from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme

_LOOK_S = 1e-3


def sync_timeout_s() -> float:
    """Seconds that a worker may take to accept weights: TORCHRL_WEIGHT_SYNC_TIMEOUT, default 120."""
    return float(os.environ.get("TORCHRL_WEIGHT_SYNC_TIMEOUT", "120"))


class MPTransport:
    """Carries weights to one process, in shared memory: the latest ones, whole.

    Args:
        weight_queue: where the receiver finds the memory; default: a pipe of its own.
        ack_queue: kept for upstream's signature: the memory itself says what was taken.
        timeout: seconds that the receiver may take for the first weights.
    """

    def __init__(self, weight_queue: Slot | None = None, ack_queue: Any = None, timeout: float = 60.0) -> None:
        self.slot = Slot() if weight_queue is None else weight_queue
        self.timeout = timeout
        self.alive: Callable[[], bool] | None = None
        self._sent: tuple[Mailbox, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"alive": None, "_sent": None}

    def send_weights_async(self, weights: Any, model_id: str = "policy") -> None:
        """Send weights; those before them that the receiver has not taken are gone.

        Args:
            weights: a tensordict or a state_dict.
            model_id: kept for upstream's signature.
        """
        self._sent = self.slot.post(weights_of(weights))

    def send_weights(self, weights: Any) -> None:
        """Send weights, and wait until the receiver has taken them.

        Args:
            weights: a tensordict or a state_dict.
        """
        self.send_weights_async(weights)
        self.wait_ack()

    def wait_ack(self) -> None:
        """Wait until the receiver has taken what was sent last.

        Raises:
            TimeoutError: it took longer than TORCHRL_WEIGHT_SYNC_TIMEOUT says.
        """
        if self._sent is not None:
            box, version = self._sent
            box.wait_taken(version, sync_timeout_s(), self.alive)

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
        found = self._latest(timeout)
        if found is not None and strategy is not None:
            target = model if model is not None else weights
            if target is not None:
                strategy.apply_weights(target, found)
        return found

    def _latest(self, timeout: float | None) -> TensorDictBase | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            box = self.slot.found(rest)
            if box is not None and box.is_new and (found := box.read()) is not None:
                return found
            if deadline is not None and time.monotonic() >= deadline:
                return None
            time.sleep(_LOOK_S)

    def setup_connection_and_weights_on_sender(self) -> None:
        """Nothing: the first weights bring the memory along."""

    def setup_connection_and_weights_on_receiver(
        self, *, worker_idx: int, weights: Any = None, model: Any = None, strategy: Any = None
    ) -> Any:
        """Take the first weights, if they were sent.

        Args:
            worker_idx: the receiver's number.
            weights: what is written into where there is no model.
            model: what is written into.
            strategy: how weights are written.
        """
        wait = self.timeout if isinstance(model, nn.Module) and any(True for _ in model.parameters()) else 0.0
        return self.receive_weights(wait, weights=weights, model=model, strategy=strategy)

    def close(self) -> None:
        """Close the pipe."""
        self.slot.close()


class MultiProcessWeightSyncScheme(WeightSyncScheme):
    """Brings weights to processes of this machine, each of which has a copy of its own.

    A worker takes them between two steps, all at once. Weights that were sent before others and not taken are left out.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
        sync: wait until they are taken.
    """

    def __init__(self, strategy: Any = "tensordict", sync: bool = True) -> None:
        super().__init__(strategy)
        self.sync = sync

    def create_transport(self, **kwargs: Any) -> TransportBackend:
        """A transport to one worker.

        Args:
            kwargs: arguments of `MPTransport`; others are not used.
        """
        names = ("weight_queue", "ack_queue", "timeout")
        return MPTransport(**{name: kwargs[name] for name in names if name in kwargs})

    def _wait(self, transports: list[Any]) -> None:
        if self.sync:
            super()._wait(transports)
