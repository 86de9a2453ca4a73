"""A tour of sharding: one collection of tables, spread over two processes in each way there is.

::

    python shard_tables.py

Each way gives the same embeddings, and takes the same step of training. What differs is who holds what, and what is
sent. At the end the planner chooses by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import processes
import torch
import torch.distributed as dist

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.planner.planners import EmbeddingShardingPlanner
from flambeau.rec.distributed.planner.types import Topology
from flambeau.rec.distributed.sharding_plan import (
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    row_wise,
    table_wise,
)
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ShardingEnv

PROCESSES = 2
CPU = torch.device("cpu")
TABLES = [
    EmbeddingBagConfig(name="t_user", feature_names=["user"], num_embeddings=100, embedding_dim=8),
    EmbeddingBagConfig(name="t_item", feature_names=["item"], num_embeddings=1000, embedding_dim=8),
]
WAYS = {
    "table-wise": {"t_user": table_wise(rank=0), "t_item": table_wise(rank=1)},
    "row-wise": {"t_user": row_wise(), "t_item": row_wise()},
    "column-wise": {"t_user": column_wise(ranks=[0, 1]), "t_item": column_wise(ranks=[1, 0])},
    "data-parallel": {"t_user": data_parallel(), "t_item": data_parallel()},
    "mixed": {"t_user": data_parallel(), "t_item": row_wise()},
}


def collection() -> EmbeddingBagCollection:
    """The tables, the same on each process."""
    torch.manual_seed(0)
    return EmbeddingBagCollection(TABLES)


def batch(rank: int) -> KeyedJaggedTensor:
    """Four examples of a process."""
    draw = torch.Generator().manual_seed(rank)
    ids = torch.cat([torch.randint(100, (4,), generator=draw), torch.randint(1000, (8,), generator=draw)])
    return KeyedJaggedTensor(["user", "item"], ids, lengths=torch.tensor([1, 1, 1, 1, 2, 2, 2, 2]))


def planned() -> EmbeddingModuleShardingPlan:
    """What the planner thinks best for two processes on this machine."""
    topology = Topology(world_size=PROCESSES, compute_device="cpu", local_world_size=PROCESSES)
    planner = EmbeddingShardingPlanner(topology=topology, batch_size=4)
    model = torch.nn.Module()
    model.bags = collection()
    plan = planner.collective_plan(model, [EmbeddingBagCollectionSharder()], dist.group.WORLD)  # type: ignore[list-item]
    return plan.plan["bags"]  # type: ignore[return-value]


def tour() -> list[str]:
    """Shard in each way, and say what came of it."""
    rank = dist.get_rank()
    env = ShardingEnv.from_process_group(dist.group.WORLD)  # type: ignore[arg-type]
    expected = collection()(batch(rank)).values()
    lines = []
    for name in [*WAYS, "planned"]:
        sharder = EmbeddingBagCollectionSharder(fused_params={"learning_rate": 0.1})
        plan = planned() if name == "planned" else construct_module_sharding_plan(
            collection(), WAYS[name], sharder, local_size=PROCESSES, world_size=PROCESSES, device_type="cpu"  # type: ignore[arg-type]
        )  # fmt: skip
        sharded = sharder.shard(collection(), plan, env, CPU)
        embeddings = sharded(batch(rank)).wait().values()
        torch.testing.assert_close(embeddings, expected)
        held = {
            table: sum(shard.tensor.numel() for shard in weight.local_shards())
            if hasattr(weight, "local_shards")
            else weight.numel()
            for table, weight in (
                (key.removeprefix("embedding_bags.").removesuffix(".weight"), value)
                for key, value in sharded.state_dict().items()
            )
        }
        all_held: list[dict[str, int]] = [{} for _ in range(PROCESSES)]
        dist.all_gather_object(all_held, held)
        shown = "; ".join(
            f"process {at}: " + ", ".join(f"{table} {count}" for table, count in one.items() if count)
            for at, one in enumerate(all_held)
        )
        kinds = ", ".join(sorted({one.sharding_type for one in plan.values()}))
        lines.append(f"{name:13} ({kinds}) same embeddings; numbers held: {shown}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tour on two processes."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(arguments)
    print(*processes.run(tour, PROCESSES), sep="\n")


if __name__ == "__main__":
    main()
