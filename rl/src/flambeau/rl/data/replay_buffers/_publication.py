"""Rows of a ring that several processes write and read: reserved under a lock, copied outside of it, then published.

Each row has a version: even while it can be read, odd while its writer copies. A reader copies rows and looks at their
versions before and after: those that were odd, or changed, it reads again. The owner of an odd row is a lease of its
process (see `_process_lock`); a row whose owner has died is never read again, until somebody writes it anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.rl.data.replay_buffers._counters import Counters
from flambeau.rl.data.replay_buffers._process_lock import ProcessLock

__all__ = ["Publication"]

Rows = NDArray[np.int64]

_WAIT_S = 50e-6
_LEASES = 0  # which counter numbers the writers
_OUT_OF_ORDER = 1  # which counts writes that do not follow the ring
_ALLOCATED = 2  # whether the storage has its memory
_WEIGHING = 3  # whether somebody is changing priorities


class Publication:
    """Versions and owners of a ring's rows, and the lock between its writers.

    Args:
        rows: how many rows the ring has.
    """

    def __init__(self, rows: int) -> None:
        self.lock = ProcessLock()
        self.counts = Counters(4)
        self.versions = Counters(rows)
        self.owners = Counters(rows, -1)
        for each in (self.counts, self.versions, self.owners):
            each.share()
        self._lease = (-1, -1)

    def lease(self) -> int:
        """The number of this process among the writers."""
        process, number = self._lease
        if process != os.getpid():
            with self.lock:
                number = int(self.counts[_LEASES])
                self.counts[_LEASES] = number + 1
                self.lock.take_lease(number)
            self._lease = (os.getpid(), number)
        return number

    @property
    def allocated(self) -> bool:
        """Whether some process has given the storage its memory."""
        return bool(self.counts[_ALLOCATED])

    def set_allocated(self) -> None:
        """Tell the other processes that the storage has its memory."""
        self.counts[_ALLOCATED] = 1

    @property
    def out_of_order(self) -> int:
        """How often rows were written that do not follow the ring."""
        return int(self.counts[_OUT_OF_ORDER])

    def note_out_of_order(self) -> None:
        """Count a write that does not follow the ring."""
        with self.lock:
            self.counts[_OUT_OF_ORDER] += 1

    @contextmanager
    def weighing(self, mend: Callable[[], object]) -> Iterator[None]:
        """Read or change priorities, one process at a time.

        Args:
            mend: called first if a process was killed while it changed them.
        """
        with self.lock:
            if self.counts[_WEIGHING]:
                mend()
            self.counts[_WEIGHING] = 1
            yield
            self.counts[_WEIGHING] = 0

    def begin(self, rows: Rows | slice) -> bool:
        """Mark rows as being written, under the lock; false where a living writer still has some of them."""
        odd = self.versions[rows] & 1
        if odd.any():
            if any(self.lock.is_alive(int(owner)) for owner in np.unique(self.owners[rows][odd == 1])):
                return False
            self.versions.add(rows, odd)  # rows of the dead are written anew
        self.owners[rows] = self.lease()
        self.versions.add(rows)
        _fence()
        return True

    def end(self, rows: Rows | slice) -> None:
        """Publish rows that were begun."""
        _fence()
        self.versions.add(rows)

    def abandon(self, rows: Rows | slice) -> None:
        """Give up rows that were begun and cannot be written: nobody reads them until they are written anew."""
        self.owners[rows] = -1

    def settled(self, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """The versions of rows, after waiting for living writers, and which rows can be read at all."""
        versions = self.versions[rows]
        while True:
            odd = (versions & 1) == 1
            if not odd.any():
                _fence()
                return versions, ~odd
            owners = np.unique(self.owners[rows][odd])
            if not any(self.lock.is_alive(int(owner)) for owner in owners):
                versions = self.versions[rows]
                _fence()
                return versions, (versions & 1) == 0
            time.sleep(_WAIT_S)
            versions = self.versions[rows]

    def unchanged(self, rows: Rows, versions: Rows) -> bool:
        """Whether rows that were read since `settled` gave these versions are what they were then."""
        _fence()
        return bool(np.array_equal(self.versions[rows], versions))

    def broken(self, length: int) -> Rows:
        """The rows below a length that writers left half written when they died."""
        odd = np.flatnonzero(self.versions[:length] & 1)
        if not len(odd):
            return odd
        _, readable = self.settled(odd)
        return odd[~readable]

    def __getstate__(self) -> dict[str, Any]:
        return {"lock": self.lock, "counts": self.counts, "versions": self.versions, "owners": self.owners}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lease = (-1, -1)


_barrier = threading.Lock()


def _fence() -> None:
    """Rows and their versions are seen by other processors in the order in which they were written and read.

    Processors of some kinds reorder memory accesses, and Python has no barrier of its own; no access passes the release
    of a lock and an acquisition that follows it.
    """
    with _barrier:
        pass
    with _barrier:
        pass
