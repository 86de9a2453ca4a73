"""Collectives that fail name the processes that did not take part.

A backend says of a lost peer which address it had, or how long it waited. Here the processes that are left report to
the group's store, and see who does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch.distributed as dist

from flambeau.core.errors import FlambeauError

__all__ = ["LostProcessError", "waited_for"]

GRACE_S = 5.0
"""How long to wait for reports of other processes after a collective failed."""


class LostProcessError(FlambeauError, RuntimeError):
    """A process died or fell silent while others waited for it."""


def waited_for(wait: Callable[[], object], pg: dist.ProcessGroup, what: str) -> None:
    """Wait for a collective.

    Args:
        wait: returns when the collective is done.
        pg: who takes part.
        what: it is, for the message.

    Raises:
        LostProcessError: it failed; the message names the processes that are not there any more.
    """
    try:
        wait()
    except RuntimeError as error:
        raise LostProcessError(_told(pg, what, error)) from error


def _told(pg: dist.ProcessGroup, what: str, error: RuntimeError) -> str:
    rank, size = dist.get_rank(pg), dist.get_world_size(pg)
    cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    ranks = dist.get_process_group_ranks(pg)
    try:
        silent = [ranks[one] for one in _silent(pg, rank, size)]
    except RuntimeError:  # the store is gone as well, which is a part of the process that all others meet at
        silent = [0]
    if silent:
        names = ", ".join(map(str, silent))
        who = f"process {names} does" if len(silent) == 1 else f"processes {names} do"
        found = f"{who} not answer any more; look for the first error in its output"
    else:
        found = "all processes still answer, so that they may disagree about what is exchanged"
    return f"{what} failed on process {ranks[rank]} of {dist.get_world_size()}: {found}. The backend says: {cause}"


def _silent(pg: dist.ProcessGroup, rank: int, size: int) -> list[int]:
    """The other processes of a group that do not report within the time of grace."""
    store = dist.distributed_c10d._get_process_group_store(pg)
    store.set(f"flambeau/failed/{rank}", "1")
    waiting = [one for one in range(size) if one != rank]
    deadline = time.monotonic() + GRACE_S
    while waiting and time.monotonic() < deadline:
        waiting = [one for one in waiting if not store.check([f"flambeau/failed/{one}"])]
        if waiting:
            time.sleep(0.05)
    return waiting
