"""Calls from many threads, answered together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

__all__ = ["RequestBatcher"]


class RequestBatcher:
    """Collect calls until there are enough of them or one has waited long enough; one of the callers then runs all.

    Args:
        run: gives the results of a list of inputs, in order.
        min_size: how many inputs make a batch.
        max_size: how many at most run together; by default all that wait.
        timeout_s: how long a call waits for others.
    """

    def __init__(
        self, run: Callable[[list[Any]], list[Any]], min_size: int, max_size: int | None, timeout_s: float
    ) -> None:
        self._run, self.min_size, self.max_size, self.timeout_s = run, min_size, max_size, timeout_s
        self._changed = threading.Condition()
        self._queue: list[tuple[Any, Future[Any]]] = []
        self._running = 0

    def __call__(self, item: Any) -> Any:
        """The result of one input.

        Raises:
            Exception: what `run` raised; all of its callers get it.
            CancelledError: `close` was called meanwhile.
        """
        future: Future[Any] = Future()
        deadline = time.monotonic() + self.timeout_s
        with self._changed:
            self._queue.append((item, future))
            self._changed.notify_all()
        while not future.done():
            batch = self._next_batch(future, deadline)
            if batch:
                self._answer(batch)
        return future.result()

    def _next_batch(self, future: Future[Any], deadline: float) -> list[tuple[Any, Future[Any]]]:
        """What this thread is to run; nothing where others ran its call, or may still come."""
        with self._changed:
            while not future.done():
                left = deadline - time.monotonic()
                if not self._running and (len(self._queue) >= self.min_size or left <= 0):
                    batch = self._queue[: self.max_size]
                    del self._queue[: len(batch)]
                    self._running = len(batch)
                    return batch
                self._changed.wait(None if self._running else max(left, 0.0))
        return []

    def _answer(self, batch: list[tuple[Any, Future[Any]]]) -> None:
        try:
            results = self._run([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)
        finally:
            with self._changed:
                self._running = 0
                self._changed.notify_all()

    def close(self, flush: bool = False) -> None:
        """Answer the calls that wait, or cancel them.

        Args:
            flush: run them.
        """
        with self._changed:
            waiting, self._queue = self._queue, []
            if not flush:
                for _, future in waiting:
                    future.set_exception(CancelledError("batching was closed"))
            self._changed.notify_all()
        if flush and waiting:
            self._answer(waiting)

    def state(self) -> dict[str, Any]:
        """How many calls wait and run, and the limits."""
        with self._changed:
            return {
                "queue_size": len(self._queue), "pending_futures": len(self._queue), "running": self._running,
                "min_batch_size": self.min_size, "max_batch_size": self.max_size,
            }  # fmt: skip
