"""Which processes share a host, found from the environment that launchers set."""

from __future__ import annotations

import logging
import os

import torch
import torch.distributed as dist

from flambeau.rec.distributed.types import ShardingEnv2D
from flambeau.rec.errors import OptionError

__all__ = [
    "get_group_rank",
    "get_local_rank",
    "get_local_size",
    "get_node_group_size",
    "get_num_groups",
    "get_topology_domain_multiple",
    "get_topology_group_world_size",
    "intra_and_cross_node_pg",
    "intra_and_cross_node_pg_2D",
]

logger = logging.getLogger("flambeau.rec.distributed")

_INTRA_PG: dist.ProcessGroup | None = None
_CROSS_PG: dist.ProcessGroup | None = None
_INTRA_PG_2D: dist.ProcessGroup | None = None
_CROSS_PG_2D: dist.ProcessGroup | None = None
_MADE_FOR: dict[str, tuple[object, ...]] = {}


def _number(*names: str) -> int | None:
    for name in names:
        text = os.environ.get(name)
        if text is None:
            continue
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"the environment variable {name} is {text!r}; expected a whole number.") from None
    return None


def get_local_size(world_size: int | None = None) -> int:
    """Processes of a host: the environment's LOCAL_WORLD_SIZE, or else as many as there are accelerators, or 8.

    Args:
        world_size: all processes; found from the default group where not given.
    """
    if world_size is None:
        world_size = dist.get_world_size()
    local = _number("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
    if local is None:
        local = torch.cuda.device_count() or 8
        logger.warning("LOCAL_WORLD_SIZE does not say how many processes a host has; taken to be %d", local)
    # A number that does not fit is passed over, as when a part of the processes form a world.
    return local if world_size % local == 0 else world_size


def get_local_rank(world_size: int | None = None, rank: int | None = None) -> int:
    """The place of this process on its host: the environment's LOCAL_RANK, or else by its rank.

    Args:
        world_size: all processes; found from the default group where not given.
        rank: of this process; likewise.
    """
    local = _number("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")
    if local is not None:
        return local
    return (dist.get_rank() if rank is None else rank) % get_local_size(world_size)


def get_topology_domain_multiple() -> int | None:
    """Hosts that are joined as tightly as the processes of one, by the environment's TOPOLOGY_DOMAIN_MULTIPLE."""
    return _number("TOPOLOGY_DOMAIN_MULTIPLE")


def get_topology_group_world_size(world_size: int | None = None) -> int:
    """Processes of a host, or of the hosts that are joined as tightly as one."""
    return get_local_size(world_size) * (get_topology_domain_multiple() or 1)


def get_node_group_size(world_size: int | None = None) -> int:
    """The same where it divides the world, or else the processes of a host."""
    if world_size is None:
        world_size = dist.get_world_size()
    size = get_topology_group_world_size(world_size)
    return size if world_size % size == 0 else get_local_size(world_size)


def get_group_rank(world_size: int | None = None, rank: int | None = None) -> int:
    """The number of this process's host: the environment's GROUP_RANK, or else by its rank."""
    group = _number("GROUP_RANK")
    if group is not None:
        return group
    return (dist.get_rank() if rank is None else rank) // get_local_size(world_size)


def get_num_groups(world_size: int | None = None) -> int:
    """The number of hosts; one where they have more processes than the world."""
    if world_size is None:
        world_size = dist.get_world_size()
    size = get_local_size(world_size)
    return max(world_size // size, 1)


def _backend(device: torch.device | None, backend: str | None) -> str:
    if backend is not None:
        return backend
    if device is not None and device.type == "cuda":
        return "nccl"
    return str(dist.get_backend())


def _groups(rows: list[list[int]], backend: str | None) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None]:
    """Groups along the rows and along the columns of a grid of ranks, of this process."""
    mine = dist.get_rank()
    along, across = None, None
    for row in rows:
        group = dist.new_group(ranks=row, backend=backend)
        if mine in row:
            along = group
    for column in zip(*rows, strict=True):
        group = dist.new_group(ranks=list(column), backend=backend)
        if mine in column:
            across = group
    return along, across


def intra_and_cross_node_pg(
    device: torch.device | None = None, backend: str | None = None
) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None]:
    """The processes of this one's host, and those at its place on other hosts.

    All processes have to call it; groups are made once and kept.

    Args:
        device: of the process; nothing is made on the meta device.
        backend: of the groups; the default group's where not given.
    """
    if device is not None and device.type == "meta":
        return None, None
    global _INTRA_PG, _CROSS_PG
    world_size = dist.get_world_size()
    size = get_local_size(world_size)
    made_for = (dist.group.WORLD, world_size, size)
    if _MADE_FOR.get("1D") != made_for:
        rows = [list(range(begin, min(begin + size, world_size))) for begin in range(0, world_size, size)]
        _INTRA_PG, _CROSS_PG = _groups(rows, _backend(device, backend))
        _MADE_FOR["1D"] = made_for
    return _INTRA_PG, _CROSS_PG


def intra_and_cross_node_pg_2D(  # noqa: N802, RUF100 - upstream's name
    env: ShardingEnv2D, device: torch.device | None = None
) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None]:
    """The processes of this one's sharding group on its host, and those at its place on other hosts.

    Args:
        env: the sharding groups; with `node_group_size`.
        device: of the process; nothing is made on the meta device.
    """
    if device is not None and device.type == "meta":
        return None, None
    if env.node_group_size is None:
        raise OptionError("node_group_size is not given; say how many processes of a host each sharding group has.")
    global _INTRA_PG_2D, _CROSS_PG_2D
    mesh = env.device_mesh
    assert mesh is not None
    groups_of_ranks = mesh.mesh.tolist()
    # Groups of one size are of neighbours, or of every so manieth process.
    made_for = (dist.group.WORLD, groups_of_ranks, env.node_group_size)
    if _MADE_FOR.get("2D") != made_for:
        found = None, None
        for ranks in groups_of_ranks:
            size = env.node_group_size
            rows = [ranks[begin : begin + size] for begin in range(0, len(ranks), size)]
            groups = _groups(rows, _backend(device, None))
            if dist.get_rank() in ranks:
                found = groups  # type: ignore[assignment]
        _INTRA_PG_2D, _CROSS_PG_2D = found
        _MADE_FOR["2D"] = made_for
    return _INTRA_PG_2D, _CROSS_PG_2D
