"""Checks of sums over the copies of tables on one host."""

from __future__ import annotations

import pytest
import torch
from processes import World
from torch.distributed.distributed_c10d import ReduceOp

from flambeau.rec.distributed.sharded_relay_utils import (
    allreduce_tensors_with_sharded_relay,
    cleanup_sharded_relay,
    setup_sharded_relay,
)
from flambeau.rec.errors import OptionError


def check_tensors_become_equal_on_all_copies_of_a_host(world: World):
    state = setup_sharded_relay(world.rank, world.size, False, sharding_group_size=2)
    assert state is not None
    assert state.precomputed_active_ranks == [[0, 2], [1, 3]]
    assert (state.my_sparse_group, state.num_sparse_groups, state.local_size) == (world.rank // 2, 2, 4)
    place = world.rank % 2
    tensors = {
        torch.float32: [torch.full((2, 3), float(world.rank)), torch.full((4,), 10.0 * world.rank)],
        torch.float16: [torch.full((1,), float(world.rank), dtype=torch.float16)],
        torch.float64: [],
    }
    allreduce_tensors_with_sharded_relay(state, tensors, "tables")
    mean = (place + place + 2) / 2
    assert tensors[torch.float32][0].eq(mean).all() and tensors[torch.float32][1].eq(10 * mean).all()
    assert tensors[torch.float16][0].item() == mean
    allreduce_tensors_with_sharded_relay(state, {torch.float32: tensors[torch.float32]}, "tables", ReduceOp.SUM)
    assert tensors[torch.float32][0].eq(2 * mean).all()
    with pytest.raises(OptionError, match=r"ReduceOp\.SUM"):
        allreduce_tensors_with_sharded_relay(state, tensors, "tables", ReduceOp.MAX)
    cleanup_sharded_relay(state)
    with pytest.raises(OptionError, match="cleaned up"):
        allreduce_tensors_with_sharded_relay(state, tensors, "tables")


def check_nothing_is_set_up_where_a_host_has_one_copy(world: World):
    assert setup_sharded_relay(world.rank, world.size, True) is None
    assert setup_sharded_relay(world.rank, world.size, False, sharding_group_size=4) is None
    with pytest.raises(OptionError, match="expected a divisor"):
        setup_sharded_relay(world.rank, world.size, False, sharding_group_size=3)
