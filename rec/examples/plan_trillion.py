"""Plan a model of 1.25 trillion parameters for GPUs that are not there, and print the report.

::

    python plan_trillion.py                       # 128 and 1,024 GPUs
    python plan_trillion.py --gpus 256 --hbm-gib 141 --svg loads.svg

Tables are on the meta device: nothing is allocated. Their sizes follow a power law, as ids of users and items do:
a few tables have billions of rows, most have thousands.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.planner.drawing import draw_plan
from flambeau.rec.distributed.planner.planners import EmbeddingShardingPlanner
from flambeau.rec.distributed.planner.stats import EmbeddingStats
from flambeau.rec.distributed.planner.types import ParameterConstraints, Topology
from flambeau.rec.modules.embedding_configs import DataType, EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

GPUS_OF_A_HOST = 8


def trillion_tables(count: int, parameters: int) -> list[EmbeddingBagConfig]:
    """Tables of 16-bit numbers that have about so many parameters together.

    Args:
        count: how many.
        parameters: of all.
    """
    columns = [(64, 128, 128, 256)[number % 4] for number in range(count)]
    shares = [1 / (number + 1) ** 1.1 for number in range(count)]
    whole = sum(shares)
    return [
        EmbeddingBagConfig(
            name=f"table_{number:04d}",
            num_embeddings=max(int(parameters * share / whole / width), 100),
            embedding_dim=width,
            feature_names=[f"feature_{number:04d}"],
            data_type=DataType.FP16,
        )
        for number, (share, width) in enumerate(zip(shares, columns, strict=True))
    ]


def plan(configs: Sequence[EmbeddingBagConfig], gpus: int, hbm_gib: int, debug: bool) -> EmbeddingShardingPlanner:
    """Plan the tables for some GPUs; the planner has the report and the plan afterwards.

    Args:
        configs: the tables.
        gpus: how many GPUs, 8 of a host.
        hbm_gib: memory of each.
        debug: whether the report has a line for every table.
    """
    model = nn.Module()
    model.sparse = EmbeddingBagCollection(list(configs), device=torch.device("meta"))
    model.dense = nn.Linear(4096, 4096, device="meta")
    for parameter in model.sparse.parameters():
        parameter._optimizer_classes = [torch.optim.SGD]  # type: ignore[attr-defined]
    constraints = {
        config.name: ParameterConstraints(pooling_factors=[float(1 + number % 40)])
        for number, config in enumerate(configs)
    }
    topology = Topology(
        world_size=gpus,
        compute_device="cuda",
        hbm_cap=hbm_gib << 30,
        ddr_cap=128 << 30,
        local_world_size=min(GPUS_OF_A_HOST, gpus),
    )
    planner = EmbeddingShardingPlanner(
        topology=topology, batch_size=512, constraints=constraints, stats=EmbeddingStats(), debug=debug
    )
    planner.plan(model, [EmbeddingBagCollectionSharder()])  # type: ignore[list-item]
    return planner


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan, and print the reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--parameters", type=float, default=1.25e12)
    parser.add_argument("--hbm-gib", type=int, default=40)
    parser.add_argument("--debug", action="store_true", help="a line for every table")
    parser.add_argument("--svg", type=Path, help="where to draw the loads of the last plan")
    options = parser.parse_args(arguments)
    configs = trillion_tables(options.tables, int(options.parameters))
    total = sum(config.num_embeddings * config.embedding_dim for config in configs)
    print(f"{len(configs)} tables with {total:,} parameters, {total * 2 / 2**40:.2f} TiB")
    for gpus in options.gpus:
        start = time.perf_counter()
        planner = plan(configs, gpus, options.hbm_gib, options.debug)
        print(f"\n{gpus} GPUs, planned in {time.perf_counter() - start:.1f} s\n")
        print(*planner._stats, sep="\n")
    if options.svg is not None and planner._best_plan is not None:
        options.svg.write_text(draw_plan(planner._best_plan, planner._topology), encoding="utf-8")


if __name__ == "__main__":
    main()
