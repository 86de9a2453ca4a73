"""A loaded model as its worker runs it, whatever it was made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flambeau.serve.wire.messages import Answer, Item

__all__ = ["OutOfResources", "Running", "Streams", "opened"]


class OutOfResources(Exception):
    """Memory of the machine or of a device does not suffice."""


class Streams:
    """Where a running batch sends pieces of answers before they are whole.

    Args:
        send: called with a request's id, bytes and their media type.
        is_cancelled: whether nobody waits for a request any more.
    """

    def __init__(self, send: Callable[[str, bytes, str], None], is_cancelled: Callable[[str], bool]) -> None:
        self._send = send
        self._is_cancelled = is_cancelled

    def send(self, request: str, data: bytes, media_type: str = "application/octet-stream") -> None:
        """Send a piece; pieces of requests that nobody waits for are dropped."""
        if not self._is_cancelled(request):
            self._send(request, data, media_type)

    def is_cancelled(self, request: str) -> bool:
        """Whether nobody waits for the request any more."""
        return self._is_cancelled(request)


class Running(Protocol):
    """A loaded model."""

    @property
    def info(self) -> dict[str, Any]:
        """What the front should know: `device`, `inputs`, `outputs`, whatever describes the model; JSON values."""
        ...

    def answer(self, items: list[Item], streams: Streams) -> list[Answer]:
        """Answers to a batch, one for each item, in order.

        An exception fails the batch, which the front then runs in parts, so that only the request at fault fails.
        """
        ...

    def metrics(self) -> list[dict[str, Any]]:
        """What was measured since the last call; see `handlers.metrics`."""
        ...


def opened(spec: dict[str, Any]) -> Running:
    """Load what a front's spec describes.

    Args:
        spec: `kind` "weights" (see `services.running`) or "archive" (see `handlers.running`), and what they need.
    """
    if spec["kind"] == "weights":
        from flambeau.serve.services.running import WeightsRunning

        return WeightsRunning(spec)
    if spec["kind"] == "archive":
        from flambeau.serve.handlers.running import ArchiveRunning

        return ArchiveRunning(spec)
    raise ValueError(f"nothing loads a model of kind {spec['kind']!r}.")
