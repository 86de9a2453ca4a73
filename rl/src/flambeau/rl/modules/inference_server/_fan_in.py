"""One queue that many processes put into, each through a pipe of its own.

Writers of one `multiprocessing.Queue` share a lock, which a killed process leaves locked for all others.
"""

from __future__ import annotations

import queue
import time
from multiprocessing.connection import wait
from typing import Any

from flambeau.rl._comm.queues import PickledQueue

_LOOK_S = 0.05
"""How often the reader looks for new writers."""


class FanIn:
    """The reader's end.

    Args:
        context: of multiprocessing.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._ends: list[Any] = []
        self._next = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"_context": None, "_ends": list(self._ends), "_next": 0}

    def end(self) -> Any:
        """A queue for one writer."""
        if self._context is None:
            raise RuntimeError("clients are made in the process that made the transport, before others start.")
        made = PickledQueue(self._context)
        self._ends.append(made)
        return made

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item; writers have their turns one after another.

        Raises:
            queue.Empty: there is none, or none in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            ends = list(self._ends)
            ready = wait([each.reader for each in ends], 0.0) if ends else []
            if not ready and block:
                left = _LOOK_S if until is None else min(_LOOK_S, until - time.monotonic())
                if left <= 0:
                    raise queue.Empty
                if not ends:
                    time.sleep(min(left, 1e-3))
                else:  # not for ever: a client may be made meanwhile
                    ready = wait([each.reader for each in ends], left)
            if ready:
                found = set(map(id, ready))
                for step in range(len(ends)):
                    at = (self._next + step) % len(ends)
                    if id(ends[at].reader) in found:
                        self._next = at + 1
                        return ends[at].get()
            if not block:
                raise queue.Empty
