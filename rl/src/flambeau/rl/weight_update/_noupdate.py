"""A scheme for models whose weights never change."""

from __future__ import annotations

from typing import Any, Literal

from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme


class _NoTransport:
    """Carries nothing."""

    def send_weights(self, weights: Any) -> None:
        """Do nothing."""

    def receive_weights(self, timeout: float | None = None, **_: Any) -> None:
        """None."""


class NoWeightSyncScheme(WeightSyncScheme):
    """Sends nothing: workers keep the weights that they were made with.

    Args:
        strategy: kept for the signature that all schemes share.
    """

    def __init__(self, strategy: Literal["state_dict", "tensordict"] = "tensordict") -> None:
        super().__init__(strategy)

    @property
    def is_looked_at(self) -> bool:
        """False: there never are weights."""
        return False

    def create_transport(self, **kwargs: Any) -> TransportBackend:
        """A transport that carries nothing."""
        return _NoTransport()

    def connect(self, *, worker_idx: int | None = None, weights: Any | None = None) -> None:
        """Do nothing.

        Args:
            worker_idx: is not used.
            weights: is not used.
        """
        self._synchronized_on_sender = self._initialized_on_sender
        self._synchronized_on_receiver = self._initialized_on_receiver

    def send(self, weights: Any = None, worker_ids: int | list[int] | None = None) -> None:
        """Do nothing.

        Args:
            weights: is not used.
            worker_ids: is not used.
        """

    def receive(self, timeout: float | None = None) -> None:
        """None: there never are weights.

        Args:
            timeout: is not used.
        """
        return
