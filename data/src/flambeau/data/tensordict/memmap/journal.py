"""The journal of a save that replaces an older one: who may move files, and whether that one is still alive.

A journal is a file that appears complete and at once, and never in the place of another. Its holder has an advisory
lock on it, which the system lets go of when the holder dies: whoever gets the lock finishes the work. On file systems
without such locks everybody gets it; then several may move the same files, which does no harm unless a third save
begins meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flambeau.core.files import sync_directory
from flambeau.data.tensordict.memmap.errors import LayoutError
from flambeau.data.tensordict.memmap.files import create
from flambeau.data.tensordict.memmap.parallel import pwrite_all

JOURNAL = ".flambeau-commit"
_PATIENCE_S = 60.0


class Journal:
    """Publishing a journal, and taking one over."""

    @staticmethod
    @contextlib.contextmanager
    def publish(root: Path, text: bytes, fsync: bool, recover: Callable[[Path], Any]) -> Iterator[bytes]:
        """Make a journal appear, held by this process within the block; waits until another one is done with.

        Args:
            root: the folder.
            text: of the journal.
            fsync: flush it to the disk.
            recover: does what another journal in the folder says, if its writer died.

        Raises:
            LayoutError: another writer takes longer than a minute.
        """
        temporary = root / f"{JOURNAL}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        descriptor = create(str(temporary))
        try:
            pwrite_all(descriptor, memoryview(text), 0)
            if fsync:
                os.fsync(descriptor)
            _lock(descriptor)
            _appear(root, temporary, recover)
            if fsync:
                sync_directory(root)
            yield text
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)

    @staticmethod
    @contextlib.contextmanager
    def take_over(root: Path) -> Iterator[bytes | None]:
        """Hold the journal of a writer that died within the block, and give its text; None where there is none now.

        Raises:
            LayoutError: a writer that lives takes longer than a minute.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                descriptor = os.open(root / JOURNAL, os.O_RDONLY)
            except FileNotFoundError:
                yield None
                return
            try:
                # A lock on a journal that was removed meanwhile says nothing.
                if _lock(descriptor) and _is_at(descriptor, root / JOURNAL):
                    yield _read(descriptor)
                    return
            finally:
                os.close(descriptor)
            _wait(root, deadline)


def _appear(root: Path, temporary: Path, recover: Callable[[Path], Any]) -> None:
    """Give a journal its name, unless another has it."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            os.link(temporary, root / JOURNAL)
            return
        except FileExistsError:
            recover(root)
            _wait(root, deadline)
        except (OSError, NotImplementedError):  # no hard links here
            temporary.replace(root / JOURNAL)
            return


def _wait(root: Path, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise LayoutError(f"another process has been saving to {root} for a minute; try again when it is done.")
    time.sleep(0.002)


def _lock(descriptor: int) -> bool:
    """Whether nobody else holds the file; now this process does, until it closes the descriptor."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, os.fstat(descriptor).st_size)
