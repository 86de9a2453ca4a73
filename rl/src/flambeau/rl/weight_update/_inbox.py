"""Weights for objects on other machines that methods are called of: by RPC, or as Ray's actors."""

from __future__ import annotations

import threading
import time
from typing import Any

from flambeau.rl.weight_update._weights import weights_of

_LOOK_S = 1e-3


class Inbox:
    """The end of a transport that is where the model is: the latest weights wait here until they are taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._weights: Any = None

    def deliver(self, weights: Any) -> None:
        """Leave weights in the place of those that were not taken."""
        with self._changed:
            self._weights = weights
            self._changed.notify_all()

    def take(self, timeout: float | None) -> Any:
        """The latest weights; None where there are none after `timeout` seconds."""
        if timeout == 0 and self._weights is None:
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._weights is not None, timeout)
            weights, self._weights = self._weights, None
        return weights

    @property
    def is_empty(self) -> bool:
        """Whether all weights were taken."""
        return self._weights is None


class CallTransport:
    """Carries weights by a method call.

    Args:
        inbox: at the receiver.
    """

    def __init__(self, inbox: Inbox | None = None) -> None:
        self.inbox = inbox
        self._pending: Any = None

    def _call(self, weights: Any) -> Any:
        """Begin the call that delivers weights; what `_finish` waits for."""
        raise NotImplementedError(f"{type(self).__name__} is a receiver's; weights are sent from the other side.")

    def _finish(self, pending: Any) -> None:
        """Wait until weights are delivered."""

    def send_weights_async(self, weights: Any) -> None:
        """Send weights.

        Args:
            weights: a tensordict or a state_dict.
        """
        self._pending = self._call(weights_of(weights).detach().clone().cpu())

    def send_weights(self, weights: Any) -> None:
        """Send weights, and wait until they are there.

        Args:
            weights: a tensordict or a state_dict.
        """
        self.send_weights_async(weights)
        self.wait_ack()

    def wait_ack(self) -> None:
        """Wait until what was sent last is there; it is taken before the next step."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._finish(pending)

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
        found = None if self.inbox is None else self.inbox.take(timeout)
        target = model if model is not None else weights
        if found is not None and target is not None and strategy is not None:
            strategy.apply_weights(target, found)
        return found

    def setup_connection_and_weights_on_sender(self) -> None:
        """Nothing: the first weights are sent like all others."""

    def setup_connection_and_weights_on_receiver(
        self, *, worker_idx: int, weights: Any = None, model: Any = None, strategy: Any = None
    ) -> Any:
        """Take weights that came already; the model was sent with those that it begins with.

        Args:
            worker_idx: the receiver's number.
            weights: what is written into where there is no model.
            model: what is written into.
            strategy: how weights are written.
        """
        return self.receive_weights(0, weights=weights, model=model, strategy=strategy)


def waited(future: Any, timeout: float) -> bool:
    """Whether a future is done within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not future.done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
