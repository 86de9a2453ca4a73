"""Queues between processes that tell at once what cannot be sent."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any


class PickledQueue:
    """A queue of multiprocessing that pickles where an item is put, and not in a thread, where an error would be lost.

    Args:
        context: of multiprocessing.
    """

    def __init__(self, context: Any) -> None:
        self._queue = context.Queue()

    @property
    def reader(self) -> Any:
        """The connection by which items come."""
        return self._queue._reader

    def put(self, item: Any) -> None:
        """Put an item; tensors go through shared memory.

        Raises:
            pickle.PicklingError, AttributeError, TypeError, RuntimeError: it cannot be sent.
        """
        self._queue.put(bytes(ForkingPickler.dumps(item)))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item.

        Raises:
            queue.Empty: there is none, or none in time.
        """
        return pickle.loads(self._queue.get(block, timeout))

    def cancel_join_thread(self) -> None:
        """Let the process end though nobody reads what was put."""
        self._queue.cancel_join_thread()
