"""One core for the operators of each worker thread.

A thread that runs torch's operators brings a team of threads of its own, as many as there are cores; with several
workers they would stand in each other's way. DataLoader's processes set their team to one for that reason. The number
is each thread's own, but setting it also sets what threads to come begin with; so the caller sets that back.
"""

from __future__ import annotations

import functools
import threading

import torch

_START_TIMEOUT_S = 60.0


class OneCoreEach:
    """Sets the workers' teams to one thread and leaves everybody else's as they are.

    Args:
        workers: threads that will call `in_worker`.
    """

    def __init__(self, workers: int) -> None:
        self._wanted = workers > 1 and torch.get_num_threads() > 1 and _settable()
        self._before = torch.get_num_threads()
        self._all_set = threading.Barrier(workers + 1)

    def in_worker(self) -> None:
        """Call it first in each worker."""
        if self._wanted:
            torch.get_num_threads()  # a thread takes the common number over once, when it is first asked for
            torch.set_num_threads(1)
            self._all_set.wait(_START_TIMEOUT_S)

    def in_caller(self) -> None:
        """Call it when the workers have been started."""
        if self._wanted:
            self._all_set.wait(_START_TIMEOUT_S)
            torch.set_num_threads(self._before)


@functools.cache
def _settable() -> bool:
    # Other backends have one team for the whole process.
    return "OpenMP" in torch.__config__.parallel_info()
