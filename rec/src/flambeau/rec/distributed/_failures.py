"""Collectives that fail name the processes that did not take part.

A backend says of a lost peer which address it had, or how long it waited. Here the processes that are left report to
the store that all of them met at, and see who does not. Whoever waits in vain for a process that waits for another one,
as groups of hosts do, is told by that one whom it misses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
    cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    rank, ranks = dist.get_rank(), dist.get_process_group_ranks(pg)
    try:
        missing = _missing(rank, [one for one in ranks if one != rank])
    except RuntimeError:  # the store is gone as well, which is a part of the process that all others meet at
        missing = [0]
    if missing:
        names = ", ".join(map(str, missing))
        who = f"process {names} does" if len(missing) == 1 else f"processes {names} do"
        found = f"{who} not answer any more; look for the first error in its output"
    else:
        found = "all processes still answer, so that they may disagree about what is exchanged"
    return f"{what} failed on process {rank} of {dist.get_world_size()}: {found}. The backend says: {cause}"


def _missing(rank: int, others: list[int]) -> list[int]:
    """The processes that do not report within the time of grace, or whom those miss that do."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"flambeau/failed/{rank}", "")
    deadline = time.monotonic() + GRACE_S
    missing = _without(store, "failed", others, deadline)
    if missing:
        store.set(f"flambeau/missing/{rank}", ",".join(map(str, missing)))
        return missing
    # They look for those whom they miss for as long as this one did.
    silent = _without(store, "missing", others, deadline)
    told = [store.get(f"flambeau/missing/{one}").decode() for one in others if one not in silent]
    return sorted({int(one) for of_other in told for one in of_other.split(",")} - {rank})


def _without(store: Any, kind: str, ranks: list[int], deadline: float) -> list[int]:
    """Those of some processes that have no report of a kind in the store, then."""
    while True:
        ranks = [one for one in ranks if not store.check([f"flambeau/{kind}/{one}"])]
        if not ranks or time.monotonic() >= deadline:
            return ranks
        time.sleep(0.05)
