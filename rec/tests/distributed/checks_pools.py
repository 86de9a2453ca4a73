"""Checks of pools over processes that are a host each, and over those of one host, against pools of one process."""

from __future__ import annotations

import pytest
import torch
from checks_training import CPU, env
from processes import World

from flambeau.rec.distributed.keyed_jagged_tensor_pool import KeyedJaggedTensorPoolSharder
from flambeau.rec.distributed.tensor_pool import TensorPoolSharder
from flambeau.rec.distributed.types import ObjectPoolShardingPlan, ObjectPoolShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.keyed_jagged_tensor_pool import KeyedJaggedTensorPool
from flambeau.rec.modules.tensor_pool import TensorPool
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

PLANS = [ObjectPoolShardingPlan(kind) for kind in ObjectPoolShardingType]
SIZES = (1, 2, 7, 64)


def ids_of(rank: int, step: int, rows: int, count: int) -> torch.Tensor:
    return torch.randint(0, rows, (count,), generator=torch.Generator().manual_seed(31 * step + rank))


def bags_of(rank: int, step: int, count: int, weighted: bool) -> KeyedJaggedTensor:
    drawn = torch.Generator().manual_seed(500 + 31 * step + rank)
    lengths = torch.cat([torch.randint(0, limit + 1, (count,), generator=drawn) for limit in (2, 3)])
    values = torch.randint(0, 99, (int(lengths.sum()),), generator=drawn)
    weights = torch.rand(len(values), generator=drawn) if weighted else None
    return KeyedJaggedTensor(["a", "b"], values, weights, lengths=lengths)


def check_rows_that_any_process_writes_are_read_by_all(world: World):
    for plan in PLANS:
        for rows in SIZES:
            whole = TensorPool(pool_size=rows, dim=3, dtype=torch.float32)
            sharded = TensorPoolSharder().shard(whole, plan, env(), CPU)
            for step, count in enumerate((0, 5, 33)):
                for rank in range(world.size):
                    whole.update(ids_of(rank, step, rows, count), torch.full((count, 3), 10.0 * step + rank))
                mine = ids_of(world.rank, step, rows, count)
                sharded.update(mine, torch.full((count, 3), 10.0 * step + world.rank))
                asked = ids_of(world.rank, 100 + step, rows, 4 + world.rank)
                torch.testing.assert_close(sharded.lookup(asked).wait(), whole.lookup(asked), rtol=0, atol=0)
                torch.testing.assert_close(sharded(asked) + 0, whole(asked), rtol=0, atol=0)


def check_bags_that_any_process_writes_are_read_by_all(world: World):
    for plan in PLANS:
        for rows in SIZES:
            for weighted in (False, True):
                whole = KeyedJaggedTensorPool(rows, {"a": 2, "b": 3}, is_weighted=weighted)
                sharded = KeyedJaggedTensorPoolSharder().shard(whole, plan, env(), CPU)
                for step, count in enumerate((0, 5, 33)):
                    for rank in range(world.size):
                        whole.update(ids_of(rank, step, rows, count), bags_of(rank, step, count, weighted))
                    mine = ids_of(world.rank, step, rows, count)
                    sharded.update(mine, bags_of(world.rank, step, count, weighted))
                    asked = ids_of(world.rank, 100 + step, rows, 4 + world.rank)
                    found, wanted = sharded.lookup(asked).wait(), whole.lookup(asked)
                    assert found.keys() == wanted.keys() and found.stride() == wanted.stride()
                    assert torch.equal(found.lengths(), wanted.lengths())
                    assert torch.equal(found.values(), wanted.values())
                    if weighted:
                        assert torch.equal(found.weights(), wanted.weights())


def check_a_pool_that_is_sharded_keeps_what_it_had(world: World):
    values = torch.arange(14.0).view(7, 2)
    pool = TensorPool(pool_size=7, dim=2, dtype=torch.float32, loaded_values=values)
    for plan in PLANS:
        sharded = TensorPoolSharder().shard(pool, plan, env(), CPU)
        torch.testing.assert_close(sharded(torch.arange(7)) + 0, values)
        # Neither of them writes into the other.
        sharded.update(torch.tensor([0]), torch.zeros(1, 2))
        torch.testing.assert_close(pool.pool, values)


def check_states_are_loaded_from_those_of_one_process_and_of_all(world: World):
    whole = KeyedJaggedTensorPool(7, {"a": 2, "b": 3})
    whole.update(torch.arange(7), bags_of(0, 0, 7, False))
    for plan in PLANS:
        made = [
            KeyedJaggedTensorPoolSharder().shard(KeyedJaggedTensorPool(7, {"a": 2, "b": 3}), plan, env(), CPU)
            for _ in range(2)
        ]
        assert list(made[0].state_dict()) == list(whole.state_dict())
        made[0].load_state_dict(whole.state_dict())
        made[1].load_state_dict(made[0].state_dict())
        for one in made:
            assert torch.equal(one.lookup(torch.arange(7)).wait().values(), whole.lookup(torch.arange(7)).values())
        with pytest.raises(RuntimeError, match="key_lengths has"):
            made[0].load_state_dict({**whole.state_dict(), "key_lengths": torch.zeros(1, 1)})
        with pytest.raises(RuntimeError, match="Missing key"):
            made[0].load_state_dict({"values": whole.state_dict()["values"]})


def check_what_a_pool_refuses_names_the_process_and_what_was_expected(world: World):
    rows = TensorPoolSharder().shard(TensorPool(7, 2, torch.float32), PLANS[0], env(), CPU)
    who = f"of process {world.rank}"
    with pytest.raises(IndexError, match=f"ids {who} are 7 to 7, expected 0 to 6"):
        rows.lookup(torch.tensor([7]))
    with pytest.raises(IndexError, match=f"ids {who} are -1 to 3"):
        rows.update(torch.tensor([3, -1]), torch.zeros(2, 2))
    with pytest.raises(OptionError, match=f"values {who} has shape"):
        rows.update(torch.tensor([3]), torch.zeros(2, 2))
    with pytest.raises(OptionError, match="expected \\(n,\\) of integers"):
        rows.lookup(torch.tensor([0.5]))
    bags = KeyedJaggedTensorPoolSharder().shard(KeyedJaggedTensorPool(7, {"a": 2, "b": 3}), PLANS[0], env(), CPU)
    with pytest.raises(OptionError, match="the longest bags"):
        long = KeyedJaggedTensor(["a", "b"], torch.arange(3), lengths=torch.tensor([3, 0]))
        bags.update(torch.tensor([0]), long)
    with pytest.raises(IndexError, match=f"ids {who}"):
        bags.lookup(torch.tensor([9]))
