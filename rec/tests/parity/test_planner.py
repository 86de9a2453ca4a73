"""Options cost what was recorded, to the last bit, and plans are those that were recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flambeau.core.testing.golden import golden_values
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.planner import constants
from flambeau.rec.distributed.planner.enumerators import EmbeddingEnumerator
from flambeau.rec.distributed.planner.partitioners import MemoryBalancedPartitioner
from flambeau.rec.distributed.planner.planners import EmbeddingShardingPlanner
from flambeau.rec.distributed.planner.proposers import GridSearchProposer, UniformProposer
from flambeau.rec.distributed.planner.stats import NoopEmbeddingStats
from flambeau.rec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Topology,
)
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

GOLDEN = golden_values("rec_planner", __file__)
ON_CPU = ["data_parallel", "table_wise", "column_wise", "table_column_wise"]
"""What was recorded on CPUs; ours can split rows there as well."""


def model(tables: list[list[int]], kind: str = "ebc") -> nn.Module:
    config = EmbeddingBagConfig if kind == "ebc" else EmbeddingConfig
    configs: list[Any] = [
        config(name=f"t{i}", num_embeddings=rows, embedding_dim=columns, feature_names=[f"f{i}"])
        for i, (rows, columns) in enumerate(tables)
    ]
    collection = EmbeddingBagCollection if kind == "ebc" else EmbeddingCollection
    whole = nn.Module()
    whole.sparse = collection(tables=configs, device=torch.device("meta"))
    return whole


def sharders() -> list[Any]:
    return [EmbeddingBagCollectionSharder(), EmbeddingCollectionSharder()]


def on_cpu(topology: dict[str, Any], count: int) -> dict[str, ParameterConstraints] | None:
    if topology["compute_device"] != "cpu":
        return None
    return {f"t{i}": ParameterConstraints(sharding_types=ON_CPU) for i in range(count)}


def as_recorded(option: ShardingOption) -> dict[str, Any]:
    return {
        "name": option.name,
        "sharding_type": option.sharding_type,
        "compute_kernel": option.compute_kernel,
        "partition_by": option.partition_by,
        "num_shards": option.num_shards,
        "shards": [
            {
                "size": shard.size,
                "offset": shard.offset,
                "hbm": shard.storage.hbm,
                "ddr": shard.storage.ddr,
                "perf": {**vars(shard.perf), "total": shard.perf.total},
            }
            for shard in option.shards[:2]
            if shard.storage is not None and shard.perf is not None
        ],
    }


def key(option: dict[str, Any]) -> tuple[str, str, str]:
    return option["name"], option["sharding_type"], option["compute_kernel"]


@pytest.mark.parametrize("name", GOLDEN["constants"])
def test_a_constant_is_the_recorded_one(name):
    assert getattr(constants, name) == GOLDEN["constants"][name]


@pytest.mark.parametrize("topology", GOLDEN["topologies"])
@pytest.mark.parametrize("kind", ["ebc", "ec"])
def test_options_and_their_costs_are_the_recorded_ones(topology, kind):
    tables = [[1_000_000, 128], [5000, 64 if kind == "ebc" else 128]]
    given = GOLDEN["topologies"][topology]
    enumerator = EmbeddingEnumerator(Topology(**given), 512, on_cpu(given, 2) if kind == "ebc" else None)

    options = enumerator.enumerate(model(tables, kind), sharders())

    expected = GOLDEN["enumeration"][f"{topology}_{kind}"]
    assert sorted(map(as_recorded, options), key=key) == sorted(expected, key=key)


SPECIAL: dict[str, Any] = {
    "fixed_reservation": {"storage_reservation": FixedPercentageStorageReservation(0.1)},
    "uniform_proposer": {"proposer": UniformProposer()},
    "grid_proposer": {"proposer": GridSearchProposer()},
    "memory_balanced": {"partitioner": MemoryBalancedPartitioner()},
    "row_wise_constraint": {
        "constraints": {
            "t0": ParameterConstraints(sharding_types=["row_wise"]),
            "t1": ParameterConstraints(sharding_types=["table_row_wise"]),
            "t2": ParameterConstraints(sharding_types=["column_wise"], min_partition=16),
        }
    },
    "grid_constraint": {
        "constraints": {"t0": ParameterConstraints(sharding_types=["grid_shard"], min_partition=64)},
    },
    "data_parallel": {
        "constraints": {f"t{i}": ParameterConstraints(sharding_types=["data_parallel"]) for i in range(3)}
    },
}


@pytest.mark.parametrize("name", GOLDEN["plans"])
def test_a_plan_is_the_recorded_one(name):
    recorded = GOLDEN["plans"][name]
    options = {"constraints": on_cpu(recorded["topology"], len(recorded["tables"])), **SPECIAL.get(name, {})}
    planner = EmbeddingShardingPlanner(Topology(**recorded["topology"]), 512, stats=NoopEmbeddingStats(), **options)

    plan = planner.plan(model(recorded["tables"], "ec" if "seq" in name else "ebc"), sharders())

    found = {}
    for table, sharding in plan.plan["sparse"].items():
        shards = sharding.sharding_spec and [
            {
                "offsets": list(shard.shard_offsets),
                "sizes": list(shard.shard_sizes),
                "placement": str(shard.placement),
            }
            for shard in sharding.sharding_spec.shards
        ]
        found[table] = {
            "sharding_type": sharding.sharding_type,
            "compute_kernel": sharding.compute_kernel,
            "ranks": sharding.ranks,
            "shards": shards,
        }
    assert found == recorded["plan"]


def test_too_little_memory_is_the_recorded_error():
    planner = EmbeddingShardingPlanner(Topology(2, "cuda", hbm_cap=1 << 30, ddr_cap=1 << 20))

    with pytest.raises(PlannerError) as caught:
        planner.plan(model([[100_000_000, 128]]), sharders())

    assert GOLDEN["infeasible"] == {"type": "PlannerError", "error_type": str(caught.value.error_type)}
    assert caught.value.error_type is PlannerErrorType.INSUFFICIENT_STORAGE
