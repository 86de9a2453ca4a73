"""Sums over replicas of tables by way of the other processes of a host.

Upstream, processes of a host that would wait help those that add up, by an extension of the collectives' library. What
they add up is the same as a sum over the replicas of each shard, which is computed here by the groups of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import ReduceOp

from flambeau.rec.distributed._failures import waited_for
from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.errors import OptionError

__all__ = [
    "ShardedRelayState",
    "allreduce_tensors_with_sharded_relay",
    "cleanup_sharded_relay",
    "setup_sharded_relay",
]


@dataclass
class ShardedRelayState:
    """The groups of a host whose processes have the same shards.

    Args:
        fused: what adds up: the process group of those that have the same shards as this one.
        intra_node_pytorch_pg: the processes of this host.
        local_rank: of this one among them.
        sparse_group_size: processes that share one copy of the tables.
        my_sparse_group: the copy of this one.
        num_sparse_groups: copies on this host.
        local_size: processes of this host.
        precomputed_active_ranks: of each place in a copy, the ranks on this host that have it.
    """

    fused: Any
    intra_node_pytorch_pg: dist.ProcessGroup | None
    local_rank: int
    sparse_group_size: int
    my_sparse_group: int
    num_sparse_groups: int
    local_size: int
    precomputed_active_ranks: list[list[int]]
    _rcclx_comm: Any = None
    _active_flat_cache: dict[torch.dtype, Tensor] = field(default_factory=dict)
    _helper_flat_cache: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict)
    _flat_metadata_cache: dict[str, list[int]] = field(default_factory=dict)


def setup_sharded_relay(
    global_rank: int, world_size: int, use_inter_host_allreduce: bool, sharding_group_size: int = 2
) -> ShardedRelayState | None:
    """The groups of this host; all processes call this.

    Args:
        global_rank: of this process.
        world_size: processes.
        use_inter_host_allreduce: whether replicas are on other hosts, where nothing is to be relayed.
        sharding_group_size: processes that share one copy of the tables.

    Returns:
        None where a host has no two copies.

    Raises:
        OptionError: copies that do not fit on hosts.
    """
    local_size = get_local_size(world_size)
    if use_inter_host_allreduce or local_size <= sharding_group_size:
        return None
    if sharding_group_size < 1 or local_size % sharding_group_size or world_size % local_size:
        raise OptionError(
            f"sharding_group_size is {sharding_group_size}, expected a divisor of the {local_size} processes of each "
            f"host, of {world_size} in all."
        )
    copies = local_size // sharding_group_size
    local_rank = global_rank % local_size
    active = [[copy * sharding_group_size + place for copy in range(copies)] for place in range(sharding_group_size)]
    intra, fused = None, None
    for begin in range(0, world_size, local_size):
        ranks = list(range(begin, begin + local_size))
        group = dist.new_group(ranks)
        intra = group if global_rank in ranks else intra
        for of_place in active:
            members = [begin + rank for rank in of_place]
            group = dist.new_group(members)
            fused = group if global_rank in members else fused
    return ShardedRelayState(
        fused, intra, local_rank, sharding_group_size, local_rank // sharding_group_size, copies, local_size, active
    )


@torch.no_grad()
def allreduce_tensors_with_sharded_relay(
    state: ShardedRelayState,
    tensors_dict: dict[torch.dtype, list[Tensor]],
    annotation: str,
    op: Any = ReduceOp.AVG,
) -> None:
    """Make tensors equal on all copies of a host, in place.

    Args:
        state: the groups.
        tensors_dict: tensors by dtype, of the same shapes on all copies.
        annotation: what is added up, for profiles and messages.
        op: AVG, for their mean, or SUM.

    Raises:
        OptionError: another operation, or groups that were cleaned up.
        LostProcessError: another process did not take part.
    """
    if op not in (ReduceOp.AVG, ReduceOp.SUM):
        raise OptionError(f"op is {op}, expected ReduceOp.AVG or ReduceOp.SUM.")
    if state.fused is None:
        raise OptionError("these groups were cleaned up; set them up again.")
    with torch.profiler.record_function(annotation):
        for dtype, tensors in tensors_dict.items():
            if not tensors:
                continue
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            # gloo has no mean.
            work = dist.all_reduce(flat, ReduceOp.SUM, group=state.fused, async_op=True)
            waited_for(work.wait, state.fused, annotation)
            if op == ReduceOp.AVG:
                flat = flat / state.num_sparse_groups if dtype.is_floating_point else flat // state.num_sparse_groups
            for tensor, part in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
                tensor.copy_(part.view(tensor.shape))


def cleanup_sharded_relay(state: ShardedRelayState) -> None:
    """Give the groups up.

    Args:
        state: they.
    """
    for group in (state.fused, state.intra_node_pytorch_pg):
        if group is not None:
            dist.destroy_process_group(group)
    state.fused = state.intra_node_pytorch_pg = None
    state._active_flat_cache.clear()
    state._helper_flat_cache.clear()
    state._flat_metadata_cache.clear()
