"""The planner beside torchrec's: listing options with their costs, placing one proposal, and whole plans.

    python rec/benchmarks/planner_benchmarks.py [--only TEXT] [--runs 3] [--markdown]

Both libraries alternate in one process, on one thread; the fastest of several runs counts, in CPU time. A ratio of 2 is
twice as fast as the peer. Without torchrec, which `tools/peers.py` installs, ours is timed alone, as it is with
large models, for which the peer takes hours.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from _tables import Table, fastest, parser

OURS, PEER = "flambeau.rec", "torchrec"


def model(root: str, tables: int) -> torch.nn.Module:
    """Tables of sizes that follow a power law, on the meta device."""
    configs = importlib.import_module(f"{root}.modules.embedding_configs")
    modules = importlib.import_module(f"{root}.modules.embedding_modules")
    whole = torch.nn.Module()
    whole.sparse = modules.EmbeddingBagCollection(
        tables=[
            configs.EmbeddingBagConfig(
                name=f"t{i}",
                num_embeddings=int(5e7 / (i + 1)) + 10,
                embedding_dim=(64, 128, 256)[i % 3],
                feature_names=[f"f{i}"],
            )
            for i in range(tables)
        ],
        device=torch.device("meta"),
    )
    return whole


def parts(root: str, tables: int, devices: int) -> tuple[Any, Any, torch.nn.Module, list[Any]]:
    """The planner's package, devices, model and sharders of a library."""
    package = importlib.import_module(f"{root}.distributed.planner.planners")
    types = importlib.import_module(f"{root}.distributed.planner.types")
    sharder = importlib.import_module(f"{root}.distributed.embeddingbag").EmbeddingBagCollectionSharder()
    topology = types.Topology(devices, "cuda", local_world_size=min(8, devices))
    return package, topology, model(root, tables), [sharder]


def listing(root: str, tables: int, devices: int) -> Callable[[], Any]:
    """List all options with what they cost."""
    _, topology, whole, sharders = parts(root, tables, devices)
    enumerators = importlib.import_module(f"{root}.distributed.planner.enumerators")
    return lambda: enumerators.EmbeddingEnumerator(topology, 512).enumerate(whole, sharders)


def placing(root: str, tables: int, devices: int) -> Callable[[], Any]:
    """Place the fastest option of every table."""
    _, topology, whole, sharders = parts(root, tables, devices)
    enumerators = importlib.import_module(f"{root}.distributed.planner.enumerators")
    partitioners = importlib.import_module(f"{root}.distributed.planner.partitioners")
    proposers = importlib.import_module(f"{root}.distributed.planner.proposers")
    proposer = proposers.GreedyProposer()
    proposer.load(enumerators.EmbeddingEnumerator(topology, 512).enumerate(whole, sharders))
    proposal = proposer.propose()
    return lambda: partitioners.GreedyPerfPartitioner().partition(proposal, topology)


def planning(root: str, tables: int, devices: int, **proposers: Any) -> Callable[[], Any]:
    """Plan from the model on."""
    package, topology, whole, sharders = parts(root, tables, devices)
    stats = importlib.import_module(f"{root}.distributed.planner.stats").NoopEmbeddingStats()
    found = importlib.import_module(f"{root}.distributed.planner.proposers")

    def run() -> Any:
        chosen = [getattr(found, name)(**options) for name, options in proposers.items()] or None
        return package.EmbeddingShardingPlanner(topology, proposer=chosen, stats=stats).plan(whole, sharders)

    return run


CASES: list[tuple[str, Callable[..., Callable[[], Any]], dict[str, Any]]] = [
    ("list options: 50 tables, 16 devices", listing, {"tables": 50, "devices": 16}),
    ("list options: 50 tables, 128 devices", listing, {"tables": 50, "devices": 128}),
    ("place a proposal: 50 tables, 128 devices", placing, {"tables": 50, "devices": 128}),
    ("plan, uniform: 26 tables, 16 devices", planning, {"tables": 26, "devices": 16, "UniformProposer": {}}),
    ("plan, all proposers: 5 tables, 8 devices", planning, {"tables": 5, "devices": 8}),
    ("plan, dynamic: 5 tables, 2 devices", planning, {"tables": 5, "devices": 2, "DynamicProgrammingProposer": {}}),
]
LARGE: list[tuple[str, Callable[..., Callable[[], Any]], dict[str, Any]]] = [
    ("plan, all proposers: 200 tables, 128 devices", planning, {"tables": 200, "devices": 128}),
    ("plan, all proposers: 1,000 tables, 1,024 devices", planning, {"tables": 1000, "devices": 1024}),
]


def main() -> None:
    """Print a table of times and ratios."""
    chosen = parser(__doc__)
    chosen.add_argument("--runs", type=int, default=3)
    options = chosen.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    roots = [OURS]
    try:
        importlib.import_module("torchrec.distributed.planner")
        roots.append(PEER)
    except ImportError:
        print("torchrec is not installed: ours alone")
    table = Table("Planner", "ms", roots[1:], options.markdown)
    for name, make, given in CASES:
        if options.only in name:
            table.row(name, *fastest([make(root, **given) for root in roots], options.runs))
    for name, make, given in LARGE:
        if options.only in name:
            table.row(name, *fastest([make(OURS, **given)], 1), *(None for _ in roots[1:]))


if __name__ == "__main__":
    main()
