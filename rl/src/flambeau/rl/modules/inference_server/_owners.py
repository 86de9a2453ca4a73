"""Which process has which row of shared memory, and whether it still lives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

from flambeau.rl._comm.mailbox import MailboxPeerClosedError
from flambeau.rl._utils import logger
from flambeau.rl.data.replay_buffers._process_lock import ProcessLock

_FREE = 0
_PAUSE_S = 5e-4
_LOOK_S = 0.1


class Owners:
    """Processes that have rows. What a process had that ended, others can have.

    Args:
        rows: how many there are.
    """

    def __init__(self, rows: int) -> None:
        self.processes = torch.zeros(rows, dtype=torch.int64).share_memory_()
        self._lock = ProcessLock()
        self._leased = -1

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_leased": -1}

    def _me(self) -> int:
        """This process's number, after it has shown that it is alive."""
        me = os.getpid()
        if self._leased != me:
            self._lock.take_lease(me)
            self._leased = me
        return me

    def take(self, row: int) -> None:
        """This row is this process's."""
        self.processes[row] = self._me()

    def free(self, row: int) -> None:
        """Nobody has this row."""
        self.processes[row] = _FREE

    def acquire(self, alive: Callable[[], bool]) -> int:
        """A row that nobody has; waits for one.

        Raises:
            MailboxPeerClosedError: the server ended meanwhile.
        """
        me = self._me()
        looked = time.monotonic()
        while True:
            with self._lock:
                free = (self.processes == _FREE).nonzero()
                if len(free):
                    row = int(free[0])
                    self.processes[row] = me
                    return row
            if time.monotonic() - looked > _LOOK_S:
                looked = time.monotonic()
                if not alive():
                    raise MailboxPeerClosedError(
                        "the server ended while a client waited for room; start it, and ask again."
                    )
                for row in self.gone():
                    self.free(row)
            time.sleep(_PAUSE_S)

    def gone(self) -> list[int]:
        """Rows of processes that have ended; they are named in the log."""
        owners = self.processes.tolist()
        dead = {owner for owner in set(owners) if owner != _FREE and not self._lives(owner)}
        rows = [row for row, owner in enumerate(owners) if owner in dead]
        if rows:
            logger.warning("Processes %s ended without letting go of slots %s.", sorted(dead), rows)
        return rows

    def _lives(self, process: int) -> bool:
        return process == os.getpid() or self._lock.is_alive(process)
