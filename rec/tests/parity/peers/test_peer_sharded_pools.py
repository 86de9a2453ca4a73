"""Sharded pools keep, send and look up what torchrec's do, over two processes and over the devices of one."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from pool_ranks import LIMITS, PROGRAMS, bags_for, described, results

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "sharded_pools",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
)


def at(library: Any) -> Any:
    return lambda path: importlib.import_module(f"{library.__name__}.{path}")


# ----- programs of one process ----------------------------------------------------------------------------------------

PROGRAMS_OF_ONE = [
    "ids_dist([3])(numbers(4, 0, 2, 3))",
    "ids_dist([3])(numbers(4, 0, 2, 3).int())",
    "ids_dist([3])(numbers())",
    "ids_dist([3])(numbers(0, 0, 0))",
    "ids_dist([3], [0, 1, 5])(numbers(4, 0, 2, 3, 1))",
    "ids_dist([3], [0, 0, 5])(numbers(4, 0, 2, 3, 1))",
    "ids_dist([3]).update(numbers(4, 0, 2, 3), torch.arange(8.0).view(4, 2))",
    "ids_dist([3]).update(numbers(), torch.zeros(0, 2))",
    "ids_dist([3], [0, 4, 5]).update(numbers(4, 0, 2, 3), torch.arange(8.0).view(4, 2))",
    *(f"sizes(5, 2, {capacities})" for capacities in ([1, 4], [2, 8], [4, 4], [1, 1], [5, 0], [3, 3], [7, 2])),
    *(f"sizes({rows}, {devices})" for rows, devices in ((8, 4), (0, 2), (5, 2), (7, 3), (5, 1), (5, 4), (1, 3))),
    "sizes(5, 2, [1, 2, 3])",
    "sizes(100, 3, [1, 2, 3])",
    "sizes(10, 4, [1, 0, 2, 1])",
    "sizes_of_bags(5, 2)",
    "sizes_of_bags(7, 3)",
    "R.InferRwTensorPoolOutputDist(env(), cpu)([torch.ones(1, 2), torch.zeros(2, 2)])",
    "R.InferRwTensorPoolOutputDist(env(), cpu)([torch.ones(0, 2), torch.zeros(2, 2)])",
    "R.InferRwTensorPoolOutputDist(env(), cpu).set_device('cpu')",
    "bags_out([1, 2], [1, 1], [3], [0, 1])",
    "bags_out([], [0], [3, 4], [2])",
    "bags_out([1, 2], [1, 1], [3], [0, 1], weighted=True)",
    "P.LocalShardPool(table(3, 2))(numbers(2, 0))",
    "P.LocalShardPool(table(3, 2)).state_dict()",
    "[(name, one.requires_grad) for name, one in P.LocalShardPool(table(3, 2)).named_parameters()]",
    "(lambda pool: (pool.update(numbers(2, 0), torch.ones(2, 2)), pool._shard.data))(P.LocalShardPool(table(3, 2)))",
    "(lambda pool: (pool.update(numbers(2, 2), table(2, 2)), pool._shard.data))(P.LocalShardPool(table(3, 2)))",
    "P.LocalShardPool(table(3, 2)).set_device('cpu')",
    "P.LocalShardPool(table(3, 2))(numbers(3))",
    "P.index_select_view(table(3, 2), numbers(2, 0, 1), 2)",
    "P.index_select_view(torch.arange(6.0), None, 2)",
    "P.index_select_view(table(3, 2), None, 2)",
    "P.update(torch.nn.Parameter(table(3, 2), requires_grad=False), numbers(1), torch.ones(1, 2))",
    "P.update(torch.nn.Parameter(table(3, 2), requires_grad=False), numbers(), torch.ones(0, 2))",
    "repr(S.ObjectPoolRwShardingContext())",
    "repr(S.ObjectPoolReplicatedRwShardingContext(torch.ones(1)))",
    "repr(S.TensorPoolRwShardingContext())",
    "repr(S.ObjectPoolShardingContext())",
    "repr(S.RwShardingContext())",
    "[issubclass(S.TensorPoolRwShardingContext, one) for one in (S.ObjectPoolRwShardingContext, S.RwShardingContext)]",
    "issubclass(S.ObjectPoolReplicatedRwShardingContext, S.ObjectPoolRwShardingContext)",
    "B.NUM_THREADS_BUCKETIZE",
    "P.TensorPoolSharder().module_type.__name__, K.KeyedJaggedTensorPoolSharder().module_type.__name__",
    "P.TensorPoolSharder().sharding_types('cpu'), K.KeyedJaggedTensorPoolSharder().sharding_types('cuda')",
    "P.TensorPoolSharder().compute_kernels('row_wise', 'cpu')",
    "rows_on_devices().state_dict()",
    "rows_on_devices()(numbers(4, 0, 2))",
    "rows_on_devices().lookup(numbers(4, 0, 2, 2))",
    "rows_on_devices()(numbers())",
    "rows_on_devices()(numbers(7))",
    "rows_on_devices()(numbers(-1))",
    "rows_on_devices(memory_capacity_per_rank=[1, 4]).state_dict()",
    "rows_on_devices(memory_capacity_per_rank=[1, 4])(numbers(4, 0, 2, 1))",
    "(lambda pool: (pool.update(numbers(4, 0), torch.ones(2, 2)), pool.state_dict()))(rows_on_devices())",
    "(lambda pool: (pool.update(numbers(4, 0, 4), table(3, 2)), pool(numbers(4, 0))))(rows_on_devices())",
    "(lambda pool: (pool.update(numbers(), torch.ones(0, 2)), pool.state_dict()))(rows_on_devices())",
    "(lambda pool: (pool.update(numbers(4, 1), torch.ones(2, 2)), pool(numbers(0, 1, 2, 3, 4))))"
    "(rows_on_devices(memory_capacity_per_rank=[4, 1]))",
    "(lambda pool: (str(pool.device), pool.dim, pool.dtype, pool.pool_size))(rows_on_devices())",
    "[(name, type(one).__name__) for name, one in rows_on_devices().named_modules()]",
    "[(name, tuple(one.shape), one.requires_grad) for name, one in rows_on_devices().named_parameters()]",
    "rows_on_devices(3).state_dict()",
    "rows_on_devices(3)(numbers(4, 0, 2, 1))",
    *(
        f"bags_on_devices({dtype}, {weighted})"
        for dtype in ("torch.int64", "torch.int32")
        for weighted in (False, True)
    ),
    "bags_on_devices(torch.int64, False, devices=3)",
    "bags_on_devices(torch.int64, False, asked=())",
    "bags_on_devices(torch.int64, False, asked=(2,))",
    "bags_on_devices(torch.int64, False, asked=(9,))",
    "facts_of_bags()",
]


def evaluated(library: Any, text: str) -> Any:
    modules = at(library)
    types, jagged = modules("distributed.types"), modules("sparse.jagged_tensor")
    rows = modules("distributed.sharding.rw_tensor_pool_sharding")
    of_bags = modules("distributed.sharding.rw_kjt_pool_sharding")
    ids = modules("distributed.sharding.rw_pool_sharding")
    pools, keyed = modules("distributed.tensor_pool"), modules("distributed.keyed_jagged_tensor_pool")
    cpu = torch.device("cpu")

    def env(devices: int = 2) -> Any:
        return types.ShardingEnv.from_local(devices, 0)

    def numbers(*given: int) -> Any:
        return torch.tensor(given, dtype=torch.int64)

    def ids_dist(block: list[int], starts: list[int] | None = None) -> Any:
        given = None if starts is None else [torch.tensor(starts)]
        return ids.InferRwObjectPoolInputDist(env(), cpu, torch.tensor(block), given)

    def told(sharding: Any) -> Any:
        names = ("_block_size", "_last_block_size", "local_pool_size_per_rank", "_block_size_t")
        return {name: getattr(sharding, name) for name in (*names, "_block_bucketize_row_pos")}

    def sizes(count: int, devices: int, capacities: Any = None) -> Any:
        return told(rows.InferRwTensorPoolSharding(count, env(devices), cpu, capacities))

    def sizes_of_bags(count: int, devices: int) -> Any:
        return told(of_bags.InferRwKeyedJaggedTensorPoolSharding(count, env(devices), cpu))

    def bags_out(*given: list[int], weighted: bool = False) -> Any:
        made = [
            jagged.JaggedTensor(
                torch.tensor(given[2 * one], dtype=torch.int64),
                torch.rand(len(given[2 * one])) if weighted else None,
                lengths=torch.tensor(given[2 * one + 1]),
            )
            for one in range(2)
        ]
        found = of_bags.InferRwKeyedJaggedTensorPoolOutputDist(env(), cpu)(made)
        return {"values": found.values(), "lengths": found.lengths(), "weights": found.weights_or_none()}

    def table(count: int, columns: int) -> Any:
        return torch.arange(float(count * columns)).view(count, columns)

    def plan(**options: Any) -> Any:
        return types.ObjectPoolShardingPlan(types.ObjectPoolShardingType.ROW_WISE, inference=True, **options)

    def rows_on_devices(devices: int = 2, **options: Any) -> Any:
        pool = modules("modules.tensor_pool").TensorPool(
            pool_size=5, dim=2, dtype=torch.float32, device=cpu, loaded_values=table(5, 2)
        )
        return pools.TensorPoolSharder().shard(pool, plan(**options), env(devices), cpu)

    def sharded_bags(dtype: Any, weighted: bool, devices: int = 2) -> Any:
        pool = modules("modules.keyed_jagged_tensor_pool").KeyedJaggedTensorPool(
            pool_size=5, feature_max_lengths=LIMITS, values_dtype=dtype, is_weighted=weighted, device=cpu
        )
        pool.update(torch.tensor([4, 0, 3]), bags_for(modules, 0, 0, 3, dtype, weighted))
        return keyed.KeyedJaggedTensorPoolSharder().shard(pool, plan(), env(devices), cpu)

    def bags_on_devices(dtype: Any, weighted: bool, devices: int = 2, asked: Any = (4, 0, 2, 3, 4)) -> Any:
        return described(sharded_bags(dtype, weighted, devices)(numbers(*asked)))

    def facts_of_bags() -> Any:
        pool = sharded_bags(torch.int32, False)
        names = [(name, type(one).__name__) for name, one in pool.named_modules()]
        return str(pool.device), pool.dtype, pool.pool_size, dict(pool.state_dict()), names

    names = {
        "torch": torch, "cpu": cpu, "env": env, "numbers": numbers, "ids_dist": ids_dist, "sizes": sizes,
        "sizes_of_bags": sizes_of_bags, "bags_out": bags_out, "table": table, "rows_on_devices": rows_on_devices,
        "bags_on_devices": bags_on_devices, "facts_of_bags": facts_of_bags, "R": rows, "P": pools, "K": keyed,
        "B": ids, "S": modules("distributed.tensor_sharding"), "asdict": asdict,
    }  # fmt: skip
    torch.manual_seed(0)
    return eval(text, names)


for _text in PROGRAMS_OF_ONE:
    SUITE.add(
        Cell(f"one/{_text}", "one", lambda library, given, text=_text: evaluated(library, text), lambda library: {})
    )

# ----- programs of two processes --------------------------------------------------------------------------------------


def on_two(library: Any, name: str) -> Any:
    found = results(library.__name__)[name]
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


for _name in PROGRAMS:
    SUITE.add(
        Cell(
            f"two/{_name}",
            _name.partition("/")[0],
            lambda library, given, name=_name: on_two(library, name),
            lambda library: {},
        )
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
