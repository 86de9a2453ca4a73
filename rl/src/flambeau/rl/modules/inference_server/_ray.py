"""Requests of Ray's actors."""

from __future__ import annotations

from typing import Any

from flambeau.core.errors import FlambeauError
from flambeau.rl.modules.inference_server._queue_transport import QueueBasedTransport

__all__ = ["RayTransport"]


class MissingRay(FlambeauError, ImportError):
    """Ray is not installed."""


def imported_ray() -> Any:
    """The module ray.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingRay("this runs on Ray, which is not installed. Run: pip install 'flambeau-rl[ray]'") from error
    return ray


class RayTransport(QueueBasedTransport):
    """Carries requests between Ray's actors, through its queues. Clients can be sent to any actor.

    Args:
        max_queue_size: of requests that wait, before a client waits to put one.

    Raises:
        ImportError: Ray is not installed.
    """

    kind = "ray"

    def __init__(self, *, max_queue_size: int = 1000) -> None:
        super().__init__()
        imported_ray()
        from ray.util.queue import Queue

        self._request_queue = Queue(maxsize=max_queue_size)

    def _make_response_queue(self) -> Any:
        from ray.util.queue import Queue

        return Queue()

    def close(self) -> None:
        """End the queues' actors."""
        for each in (self._request_queue, *self._response_queues.values()):
            each.shutdown(force=True)
