"""A lock between processes that dies with its holder, and signs of life of those that hold a lease.

Both are record locks of the operating system on bytes of one file (POSIX `fcntl`): the kernel takes them back when a
process ends, however it ends. multiprocessing's locks are semaphores, which a killed process leaves locked for ever.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ProcessLock"]

_LOCK_BYTE = 0
_FIRST_LEASE = 1024


class ProcessLock:
    """A reentrant lock between processes and threads, with leases. Pickles of it are the same lock.

    Args:
        path: the file; None for one of its own, which is removed with the object that made it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        if path is None:
            descriptor, name = tempfile.mkstemp(prefix="flambeau-replay-", suffix=".lock")
            os.close(descriptor)
            path = name
            self._remove = weakref.finalize(self, _remove, name, os.getpid())
        self.path = str(path)

    def __enter__(self) -> ProcessLock:
        file = _opened(self.path)
        file.threads.acquire()
        if not file.depth:
            try:
                file.lock(_LOCK_BYTE)
            except BaseException:
                file.threads.release()
                raise
        file.depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        file = _opened(self.path)
        file.depth -= 1
        if not file.depth:
            file.unlock(_LOCK_BYTE)
        file.threads.release()

    def take_lease(self, number: int) -> None:
        """Show, until this process ends, that it is alive under a number that nobody else was given."""
        _opened(self.path).lock(_FIRST_LEASE + number)

    def is_alive(self, number: int) -> bool:
        """Whether the process that took this lease still runs."""
        return number >= 0 and _opened(self.path).is_held(_FIRST_LEASE + number)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        _opened(self.path)


class _LockFile:
    """One open file a process and path: closing any other descriptor of it would give up the process's locks."""

    def __init__(self, path: str) -> None:
        self.process = os.getpid()
        self.threads = threading.RLock()
        self.depth = 0
        self.leases: set[int] = set()
        self._descriptor = os.open(path, os.O_RDWR)

    def lock(self, byte: int) -> None:
        import fcntl

        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, byte, os.SEEK_SET)
        if byte >= _FIRST_LEASE:
            self.leases.add(byte)

    def unlock(self, byte: int) -> None:
        import fcntl

        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)

    def is_held(self, byte: int) -> bool:
        import fcntl

        if byte in self.leases:
            return True
        with self.threads:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
            except OSError:
                return True
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)
            return False


_files: dict[str, _LockFile] = {}
_files_guard = threading.Lock()


def _opened(path: str) -> _LockFile:
    file = _files.get(path)
    if file is not None and file.process == os.getpid():
        return file
    with _files_guard:
        file = _files.get(path)
        # After a fork the locks are the parent's: the child has its own entry, with none held.
        if file is None or file.process != os.getpid():
            file = _files[path] = _LockFile(path)
    return file


def _after_fork() -> None:
    global _files_guard
    _files_guard = threading.Lock()


_register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
if _register is not None:
    _register(after_in_child=_after_fork)


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        Path(path).unlink(missing_ok=True)
