"""Have one process do something, and all know the result."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = [
    "create_on_rank_and_share_result",
    "init_collective_validation",
    "invoke_on_rank_and_broadcast_result",
    "is_leader",
    "run_on_leader",
    "validate_collectives_enabled",
]

T = TypeVar("T")
_VALIDATED: set[str] = set()


def is_leader(pg: dist.ProcessGroup | None, leader_rank: int = 0) -> bool:
    """Whether this process is the one of that rank; it is where there is no group.

    Args:
        pg: the group.
        leader_rank: within the group.
    """
    return pg is None or dist.get_rank(pg) == leader_rank


def invoke_on_rank_and_broadcast_result(
    pg: dist.ProcessGroup, rank: int, func: Callable[..., T], *args: Any, **kwargs: Any
) -> T:
    """Call a function on one process, and give its result to all; an error of it is raised by all.

    Args:
        pg: the processes, all of which have to call this.
        rank: of the process that calls the function, within the group.
        func: what it calls; its result must be picklable.
        args: of the function.
        kwargs: of the function.
    """
    outcome: list[Any] = [None, None]
    if dist.get_rank(pg) == rank:
        try:
            outcome[0] = func(*args, **kwargs)
        except Exception as error:  # raised below, here and by all other processes, which would wait for ever otherwise
            outcome[1] = error
    if dist.get_world_size(pg) > 1:
        dist.broadcast_object_list(outcome, dist.get_global_rank(pg, rank), group=pg)
    if outcome[1] is not None:
        raise outcome[1]
    result: T = outcome[0]
    return result


def run_on_leader(pg: dist.ProcessGroup, rank: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Make a function run on one process, and give its result to all."""

    def decorate(func: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> T:
            return invoke_on_rank_and_broadcast_result(pg, rank, func, *args, **kwargs)

        return wrapped

    return decorate


def create_on_rank_and_share_result(
    pg: dist.ProcessGroup,
    rank: int,
    creator: Callable[..., T],
    extractor: Callable[[T], list[Tensor | None]],
    constructor: Callable[[list[Tensor | None]], T],
    *args: Any,
    **kwargs: Any,
) -> T:
    """Build something on one process, and the same over shared memory on the other processes of the host.

    Args:
        pg: processes of one host, all of which have to call this.
        rank: of the one that builds it, within the group.
        creator: builds it.
        extractor: its tensors, on the CPU.
        constructor: builds it from such tensors.
        args: of `creator`.
        kwargs: of `creator`.
    """

    def shared() -> tuple[T, list[Any]]:
        made = creator(*args, **kwargs)
        tensors = extractor(made)
        for tensor in tensors:
            if tensor is not None:
                tensor.share_memory_()
        return made, [None if tensor is None else _exported(tensor) for tensor in tensors]

    made: list[T] = []

    def exported() -> list[Any]:
        thing, handles = shared()
        made.append(thing)
        return handles

    handles = invoke_on_rank_and_broadcast_result(pg, rank, exported)
    if made:
        result = made[0]
    else:
        result = constructor([None if handle is None else _imported(handle) for handle in handles])
    dist.barrier(pg)  # the memory is there until all have it
    return result


def _exported(tensor: Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    handle = storage._share_filename_cpu_()
    return (*handle, tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())


def _imported(handle: tuple[Any, ...]) -> Tensor:
    manager, name, size, dtype, offset, shape, stride = handle
    storage = torch.UntypedStorage._new_shared_filename_cpu(manager, name, size)
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)


def validate_collectives_enabled() -> bool:
    """Whether the environment's VALIDATE_COLLECTIVES asks to check that all processes call the same collectives."""
    return os.environ.get("VALIDATE_COLLECTIVES", "0") == "1"


def init_collective_validation(pg: dist.ProcessGroup) -> None:
    """Check, once for each group, that its processes are all there and of one mind about its size.

    Raises:
        RuntimeError: they are not; the message says which process differs.
    """
    if pg.group_name in _VALIDATED:
        return
    mine = (pg.group_name, dist.get_world_size(pg))
    found: list[Any] = [None] * dist.get_world_size(pg)
    dist.all_gather_object(found, mine, group=pg)
    for rank, other in enumerate(found):
        if other != mine:
            raise RuntimeError(f"process {rank} takes part as one of {other}, this one as one of {mine}.")
    _VALIDATED.add(pg.group_name)
