"""Requests of Ray's actors."""

from __future__ import annotations

from typing import Any

from flambeau.rl._remote import imported_ray
from flambeau.rl.modules.inference_server._queue_transport import QueueCarryingTransport

__all__ = ["RayTransport"]


class RayTransport(QueueCarryingTransport):
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
