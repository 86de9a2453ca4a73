"""Requests of Monarch's actors."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections import deque
from importlib import import_module
from typing import Any

from flambeau.core.errors import FlambeauError
from flambeau.rl.modules.inference_server._queue_transport import QueueCarryingTransport

__all__ = ["MonarchTransport"]


class MissingMonarch(FlambeauError, ImportError):
    """Monarch is not installed."""


class MonarchTransport(QueueCarryingTransport):
    """Carries requests between Monarch's actors, through an actor for each queue.

    Args:
        max_queue_size: of requests that wait, before a client waits to put one.

    Raises:
        ImportError: Monarch is not installed.
    """

    kind = "monarch"

    def __init__(self, *, max_queue_size: int = 1000) -> None:
        super().__init__()
        self._actors = _imported_monarch()
        self._request_queue = self._queue(max_queue_size)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_actors": None, "_box": None}

    def _make_response_queue(self) -> Any:
        return self._queue(0)

    def _queue(self, size: int) -> _MonarchQueue:
        if self._actors is None:
            raise RuntimeError("clients are made in the process that made the transport.")
        mesh = self._actors.this_host().spawn_procs(per_host={"procs": 1})
        return _MonarchQueue(mesh.spawn("flambeau_queue", _queue_actor(self._actors), size))


def _imported_monarch() -> Any:
    try:
        actor = import_module("monarch.actor")
    except ImportError as error:
        raise MissingMonarch("this runs on Monarch, which is not installed. Run: pip install torchmonarch") from error
    return actor


def _queue_actor(actors: Any) -> Any:
    """The class of actors that hold a queue; of bytes, so that they need not know what is in it."""

    class QueueActor(actors.Actor):  # type: ignore[misc]
        """Holds a queue."""

        def __init__(self, size: int) -> None:
            self.size = size
            self.items: deque[bytes] = deque()
            self.lock = threading.Lock()

        @actors.endpoint  # type: ignore[untyped-decorator]
        async def put(self, item: bytes) -> bool:
            """Put an item; False where there is no room."""
            with self.lock:
                if self.size and len(self.items) >= self.size:
                    return False
                self.items.append(item)
                return True

        @actors.endpoint  # type: ignore[untyped-decorator]
        async def get(self) -> bytes | None:
            """The next item, if there is one."""
            with self.lock:
                return self.items.popleft() if self.items else None

    return QueueActor


class _MonarchQueue:
    """A queue in an actor.

    Args:
        actor: the actor.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def put(self, item: Any) -> None:
        """Put an item, as soon as there is room."""
        data = pickle.dumps(item)
        _until(lambda: self.actor.put.call_one(data).get() or None, None)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item; `queue.Empty` where there is none in time."""
        return pickle.loads(_until(lambda: self.actor.get.call_one().get(), timeout if block else 0.0))


def _until(ask: Any, timeout: float | None) -> Any:
    """What an actor answers, as soon as that is something."""
    until = None if timeout is None else time.monotonic() + timeout
    while (found := ask()) is None:
        if until is not None and time.monotonic() >= until:
            raise queue.Empty
        time.sleep(1e-3)
    return found
