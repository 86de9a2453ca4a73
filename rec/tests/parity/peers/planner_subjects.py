"""Models, devices and hand-made options for planners of either library, and what came of planning as plain records."""

from __future__ import annotations

import importlib
import random
from typing import Any

import torch

Library = Any


def part(library: Library, name: str) -> Any:
    """A module of a library by its path below the root, such as "modules.embedding_configs"."""
    return importlib.import_module(f"{'flambeau.rec' if library.ours else 'torchrec'}.{name}")


def operators(library: Library, name: str) -> Any:
    """A module of the operators' Python package."""
    return importlib.import_module(f"{'flambeau.rec.' if library.ours else ''}fbgemm_gpu.{name}")


TABLES = {
    "two": [(1_000_000, 128), (5000, 64)],
    "many": [(10_000_000, 128)] * 3 + [(100_000, 64)] * 5 + [(1000, 32)] * 4,
    "small": [(1000, 16), (2000, 32), (400, 64)],
    "odd": [(17, 4), (1001, 192), (33, 260)],
    "big": [(100_000_000, 128), (1000, 16), (50_000, 64)],
    "wide": [(100_000, 256), (50_000, 512)],
    "equal": [(5000, 64), (7000, 64)],
}
TOPOLOGIES = {
    "cuda-2": {"world_size": 2, "compute_device": "cuda", "hbm_cap": 16 << 30, "ddr_cap": 64 << 30},
    "cuda-16": {"world_size": 16, "local_world_size": 8, "compute_device": "cuda"},
    "cuda-pods": {"world_size": 16, "local_world_size": 4, "pod_size": 2, "compute_device": "cuda"},
    "cpu-2": {"world_size": 2, "compute_device": "cpu"},
    "slow": {
        "world_size": 4,
        "local_world_size": 2,
        "compute_device": "cuda",
        "hbm_mem_bw": 5e8,
        "ddr_mem_bw": 3e7,
        "hbm_to_ddr_mem_bw": 1e7,
        "intra_host_bw": 1e8,
        "inter_host_bw": 1e6,
        "bwd_compute_multiplier": 3,
        "weighted_feature_bwd_compute_multiplier": 2,
    },
}


def tables_of(library: Library, tables: str, kind: str = "bag", **options: Any) -> Any:
    """A collection of tables on the meta device, with two features for every second one."""
    configs, modules = part(library, "modules.embedding_configs"), part(library, "modules.embedding_modules")
    config = configs.EmbeddingBagConfig if kind == "bag" else configs.EmbeddingConfig
    data_type = getattr(part(library, "types").DataType, options.pop("data_type", "FP32"))
    made = [
        config(
            name=f"t{i}",
            num_embeddings=rows,
            embedding_dim=columns,
            feature_names=[f"f{i}"] if i % 2 == 0 else [f"f{i}", f"g{i}"],
            data_type=data_type,
        )
        for i, (rows, columns) in enumerate(TABLES[tables])
    ]
    collection = modules.EmbeddingBagCollection if kind == "bag" else modules.EmbeddingCollection
    return collection(tables=made, device=torch.device("meta"), **options)


class Model(torch.nn.Module):
    """Tables beside something dense."""

    def __init__(self, sparse: Any, second: Any = None) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(100, 30, device="meta")
        self.norm = torch.nn.BatchNorm1d(30, device="meta")
        self.sparse = sparse
        if second is not None:
            self.inner = torch.nn.Sequential(second, torch.nn.ReLU())


def sharders_of(library: Library, **options: Any) -> list[Any]:
    """Sharders of both kinds of collections, which offer on CPUs what both libraries do."""
    bags = part(library, "distributed.embeddingbag").EmbeddingBagCollectionSharder
    sequences = part(library, "distributed.embedding").EmbeddingCollectionSharder

    class Bags(bags):  # type: ignore[misc, valid-type]
        def sharding_types(self, compute_device_type: str) -> list[str]:
            offered = super().sharding_types(compute_device_type)
            lacking = {"row_wise", "table_row_wise", "grid_shard"} if compute_device_type == "cpu" else set()
            return [kind for kind in offered if kind not in lacking]

    return [Bags(**options), sequences(**options)]


def constraints_of(library: Library, by_table: dict[str, dict[str, Any]] | None) -> dict[str, Any] | None:
    """Constraints by table; `cache` stands for parameters of a cache, `stats` among them for what is known of it."""
    if by_table is None:
        return None
    made = {}
    for name, options in by_table.items():
        options = dict(options)
        if "cache" in options:
            options["cache_params"] = cache_of(library, **options.pop("cache"))
        if "store" in options:
            options["key_value_params"] = part(library, "distributed.types").KeyValueParams(**options.pop("store"))
        made[name] = library.types.ParameterConstraints(**options)
    return made


def cache_of(library: Library, stats: Any = None, **options: Any) -> Any:
    """Parameters of a cache, with a histogram of reuse."""
    if stats is not None:
        cacheability, lookups, counts, height = stats
        options["stats"] = library.shard_estimators.EmbeddingOffloadStats(
            cacheability, lookups, torch.tensor(counts, dtype=torch.float32), height
        )
    return part(library, "distributed.types").CacheParams(**options)


def enumerated(
    library: Library,
    topology: str | dict[str, Any],
    tables: str,
    kind: str = "bag",
    constraints: dict[str, dict[str, Any]] | None = None,
    estimators: Any = None,
    fused_params: dict[str, Any] | None = None,
    optimizer: Any = None,
    batch_size: int = 512,
    codecs: Any = None,
    **options: Any,
) -> tuple[list[Any], Any]:
    """Options of a model's tables, in an order of their own, and the enumerator."""
    devices = library.types.Topology(**(TOPOLOGIES[topology] if isinstance(topology, str) else topology))
    known = constraints_of(library, constraints)
    module = tables_of(library, tables, kind, **options)
    if optimizer is not None:
        for parameter in module.parameters():
            parameter._optimizer_classes = [optimizer]
    enumerator = library.enumerators.EmbeddingEnumerator(
        devices, batch_size, known, estimators and estimators(library, devices, known)
    )
    registry = codecs and codecs(library)
    listed = enumerator.enumerate(
        Model(module), sharders_of(library, fused_params=fused_params, qcomm_codecs_registry=registry)
    )
    return sorted(listed, key=order), enumerator


def order(option: Any) -> tuple[Any, ...]:
    """An order of options; the peer's depends on hashes of strings where sets are intersected."""
    kinds = [
        "data_parallel",
        "table_wise",
        "column_wise",
        "table_column_wise",
        "row_wise",
        "table_row_wise",
        "grid_shard",
    ]
    return int(option.name[1:]), option.path, kinds.index(option.sharding_type), option.compute_kernel


def described(option: Any) -> dict[str, Any]:
    """What an option says, shard by shard."""
    return {
        "name": option.fqn,
        "type": option.sharding_type,
        "kernel": option.compute_kernel,
        "by": option.partition_by,
        "pooled": option.is_pooled,
        "lengths": option.input_lengths,
        "inputs": option.num_inputs,
        "count": option.num_shards,
        "total": [option.total_perf, vars(option.total_storage)],
        "cache": option.cache_load_factor,
        "key": option.module_type_key.rpartition(".")[2],
        "shards": [
            [list(s.size), list(s.offset), vars(s.storage), vars(s.perf), s.perf.total, s.rank] for s in option.shards
        ],
    }


def chosen(options: list[Any] | None) -> list[Any] | None:
    """Which options a proposal has."""
    return options and [[o.fqn, o.sharding_type, o.compute_kernel, o.cache_load_factor] for o in options]


def planned(plan: Any) -> dict[str, Any]:
    """A plan as plain values."""

    def where(sharding: Any) -> Any:
        spec = sharding.sharding_spec
        shards = spec and [[list(s.shard_offsets), list(s.shard_sizes), str(s.placement)] for s in spec.shards]
        return [sharding.sharding_type, sharding.compute_kernel, list(sharding.ranks), shards]

    return {path: {name: where(one) for name, one in module.items()} for path, module in plan.plan.items()}


def option(library: Library, name: str, kind: str, shards: list[tuple[Any, ...]], **more: Any) -> Any:
    """An option by hand: shards of (HBM, DDR, milliseconds)."""
    types = library.types
    by = {"table_row_wise": "host", "table_column_wise": "host", "row_wise": "uniform", "grid_shard": "multi_host"}
    path = more.pop("path", "m")
    kernel = more.pop("kernel", "fused")
    return types.ShardingOption(
        name,
        torch.empty(10, 4, device="meta"),
        (path, tables_of(library, "small")),
        [1.0],
        512,
        kind,
        more.pop("by", by.get(kind, "device")),
        kernel,
        [
            types.Shard([10, 1], [0, i], types.Storage(hbm, ddr), types.Perf(time, 0.0, 0.0, 0.0))
            for i, (hbm, ddr, time) in enumerate(shards)
        ],
        **more,
    )


def some_options(library: Library, seed: int, scale: int, devices: int = 6, per_host: int = 2) -> list[Any]:
    """One option for each of some tables, by chance."""
    numbers = random.Random(seed)
    count = {
        "table_wise": 1,
        "column_wise": numbers.randint(1, 4),
        "table_row_wise": per_host,
        "table_column_wise": numbers.randint(1, 4),
        "row_wise": devices,
        "grid_shard": per_host * numbers.randint(1, devices // per_host),
    }
    options = []
    for table in range(numbers.randint(3, 14)):
        kind = numbers.choice(["table_wise", "table_wise", *count])
        size, time = numbers.randint(1, 20) * scale, numbers.choice([1.0, 2.0, 3.5, numbers.random()])
        options.append(
            option(library, f"t{table}", kind, [(size, size // 2, time)] * count[kind], path=numbers.choice("mn"))
        )
    return options
