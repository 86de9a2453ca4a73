"""The one place where Polars and PyArrow are imported, and where their queries run: not in a forked process, nor
while the interpreter ends.
"""

from __future__ import annotations

import atexit
import os
import threading

from flambeau.data.frame.errors import ForkedError, missing

try:
    import polars as pl
except ImportError as error:
    raise missing("polars", "frame") from error
try:
    import pyarrow as pa
except ImportError as error:
    raise missing("pyarrow", "frame") from error

__all__ = ["check_ending", "check_process", "pa", "pl", "run"]

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True
    _queries.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_process() -> None:
    """Refuse to compute in a forked process: Polars' threads do not survive a fork, and it would wait for ever.

    Raises:
        RuntimeError: this process was forked from one that had loaded frames.
    """
    if _forked:
        raise ForkedError(
            "frames cannot compute in a forked process: the engine's threads are not there. Start processes by another "
            'method: DataLoader(..., multiprocessing_context="forkserver"), or use threads.'
        )


class _Queries:
    """The queries under way.

    A query lets go of the interpreter while it runs, and takes it again for users' functions and for its result. In a
    thread that the interpreter's end does not wait for, there may be no interpreter to take by then, and the process
    would die of a signal. So the end waits for queries, and users' functions do not go on for longer than a call.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.running = 0
        self.waiting = False  # the interpreter's end waits for the queries of other threads
        self.ended = False

    def forget(self) -> None:
        """Begin anew in a forked process: the queries under way are not there, nor is who held the lock."""
        self.changed = threading.Condition()
        self.running = 0

    def __enter__(self) -> None:
        with self.changed:
            self.check_thread()
            self.running += 1

    def __exit__(self, *error: object) -> None:
        with self.changed:
            self.running -= 1
            self.changed.notify_all()
            self.check_thread()

    def check_thread(self) -> None:
        """End a thread that is not waited for, once the interpreter ends."""
        if (self.waiting or self.ended) and threading.current_thread() is not threading.main_thread():
            raise SystemExit

    def end(self) -> None:
        """Wait for the queries under way; what runs at exit may still compute, in the main thread."""
        with self.changed:
            self.waiting = True
            self.changed.wait_for(lambda: not self.running)
            self.waiting, self.ended = False, True


_queries = _Queries()
atexit.register(_queries.end)


def check_ending() -> None:
    """Give up a query whose thread the interpreter's end does not wait for."""
    if _queries.waiting:
        raise SystemExit


def run(query: pl.LazyFrame, *, streaming: bool = False) -> pl.DataFrame:
    """The result of a query; data on disk streams through memory.

    Raises:
        RuntimeError: in a forked process, see `check_process`.
    """
    check_process()
    with _queries:
        return query.collect(engine="streaming" if streaming else "in-memory")
