"""Requests of threads of the same process."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.mailbox import MailboxPeerClosedError
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["ThreadingTransport"]


class ThreadingTransport(InferenceTransport):
    """Carries requests between threads, which get the same objects: nothing is copied."""

    kind = "thread"

    def __init__(self) -> None:
        self._waiting: deque[tuple[TensorDictBase, Future[TensorDictBase], float]] = deque()
        self._changed = threading.Condition()

    def submit(self, td: TensorDictBase, *, metadata: Mapping[str, Any] | None = None) -> Future[TensorDictBase]:
        """Ask, and do not wait.

        Raises:
            MailboxPeerClosedError: the server has ended.
        """
        future: Future[TensorDictBase] = Future()
        with self._changed:
            if self._ended:
                raise MailboxPeerClosedError("the server has ended; start it again, and ask again.")
            self._waiting.append((td, future, time.monotonic()))
            self._changed.notify()
        return future

    def drain(self, max_items: int) -> tuple[list[TensorDictBase], list[Any]]:
        """Requests that are there, at most so many, and their futures."""
        requests, futures, _ = self.drain_with_timing(max_items)
        return requests, futures

    def drain_with_timing(self, max_items: int) -> tuple[list[TensorDictBase], list[Any], list[float | None]]:
        """As `drain`, with the times at which they were sent. A request that was cancelled is left out."""
        requests: list[TensorDictBase] = []
        futures: list[Any] = []
        times: list[float | None] = []
        with self._changed:
            while self._waiting and len(requests) < max_items:
                request, future, sent = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    requests.append(request)
                    futures.append(future)
                    times.append(sent)
        return requests, futures, times

    def wait_for_work(self, timeout: float) -> None:
        """Wait until there is a request, at most `timeout` seconds."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(timeout)

    def resolve(self, callback: Any, result: TensorDictBase) -> None:
        """Answer a request."""
        callback.set_result(result)

    def resolve_exception(self, callback: Any, exc: BaseException) -> None:
        """Let a request fail."""
        callback.set_exception(exc)

    def serving_ended(self) -> None:
        """Refuse requests from now on."""
        with self._changed:
            super().serving_ended()

    def serving_began(self) -> None:
        """Take requests again."""
        with self._changed:
            super().serving_began()
