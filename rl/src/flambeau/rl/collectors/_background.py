"""Collecting in the background: a thread that does what a loop over batches would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.rl.collectors._base import BaseCollector

_END = object()


class InBackground(BaseCollector):
    """A collector that fills its replay buffer in a thread, while others learn from it."""

    replay_buffer: Any

    def __init__(self, **hooks: Any) -> None:
        super().__init__(**hooks)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._running = threading.Event()
        self._running.set()
        # Held while one batch is collected: whoever else holds it finds the collector between two.
        self._between = threading.RLock()

    def start(self) -> None:
        """Collect in a thread into the replay buffer, until `total_frames` or `async_shutdown`.

        Raises:
            RuntimeError: there is no replay buffer, or the thread runs already.
        """
        if self.replay_buffer is None:
            raise RuntimeError(
                "A collector needs a replay buffer to collect in the background: give it replay_buffer=."
            )
        if self.is_running():
            raise RuntimeError("The collector runs in the background already.")
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="flambeau-collector", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            iterator = self.iterator()
            while not self._stop.is_set():
                self._running.wait()
                if self._stop.is_set():
                    return
                with self._between:
                    if next(iterator, _END) is _END:
                        return
        except BaseException as error:  # it is raised where somebody looks: in `pause` or `async_shutdown`
            self._failure = error

    def is_running(self) -> bool:
        """Whether it collects in the background."""
        return self._thread is not None and self._thread.is_alive()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """A context in which nothing is collected in the background; the batch that is being collected ends first.

        Raises:
            RuntimeError: collecting failed; the cause is chained.
        """
        self._running.clear()
        try:
            with self._between:
                self._raise_failure()
                yield
        finally:
            self._running.set()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, after the batch it is at, and shut down.

        Args:
            timeout: seconds to wait for it; default: as long as it takes.
            close_env: close the environment.

        Raises:
            TimeoutError: it took longer.
            RuntimeError: collecting failed; the cause is chained.
        """
        self.shutdown(timeout, close_env)

    def _stop_thread(self, timeout: float | None) -> None:
        """End the thread.

        Raises:
            TimeoutError: the batch that it is at takes longer.
        """
        thread, self._thread = self._thread, None
        self._stop.set()
        self._running.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            if thread.is_alive():
                self._thread = thread
                raise TimeoutError(f"The batch that is being collected took longer than {timeout} s; wait longer.")

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise RuntimeError(f"Collecting in the background failed: {type(failure).__name__}: {failure}") from failure
