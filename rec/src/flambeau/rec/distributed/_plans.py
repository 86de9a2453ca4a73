"""How parameters are spread over processes, written down."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec, ShardingSpec

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode
from flambeau.rec.types import DataType

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CacheParams",
    "CacheStatistics",
    "ComputeDevice",
    "ComputeKernel",
    "EmbeddingModuleShardingPlan",
    "KeyValueParams",
    "ModuleShardingPlan",
    "ObjectPoolShardingPlan",
    "ObjectPoolShardingType",
    "ParameterSharding",
    "ParameterStorage",
    "PipelineType",
    "ShardingBucketMetadata",
    "ShardingPlan",
    "ShardingStrategy",
    "ShardingType",
]


@unique
class ShardingType(Enum):
    """Ways to spread an embedding table over processes."""

    # every process has all of it
    DATA_PARALLEL = "data_parallel"
    # one process has all of it
    TABLE_WISE = "table_wise"
    # some columns on each process
    COLUMN_WISE = "column_wise"
    # some rows on each process
    ROW_WISE = "row_wise"
    # some rows on each process of one host
    TABLE_ROW_WISE = "table_row_wise"
    # some columns on each process of one host
    TABLE_COLUMN_WISE = "table_column_wise"
    # some columns on each host, some of their rows on each of its processes
    GRID_SHARD = "grid_shard"


class PipelineType(Enum):
    """What a training pipeline overlaps, which decides how many batches are in memory at a time."""

    NONE = "none"
    TRAIN_BASE = "train_base"
    TRAIN_SPARSE_DIST = "train_sparse_dist"
    TRAIN_PREFETCH_SPARSE_DIST = "train_prefetch_sparse_dist"


class ParameterStorage(Enum):
    """Kinds of memory that parameters lie in: an accelerator's, and the host's."""

    HBM = "hbm"
    DDR = "ddr"


@unique
class ComputeKernel(Enum):
    """How modules without kernels of their own compute."""

    DEFAULT = "default"


class ComputeDevice(Enum):
    """Kinds of device."""

    CUDA = "cuda"
    CPU = "cpu"
    MTIA = "mtia"


class ShardingStrategy(Enum):
    """What groups of processes with the same shards do: hold all of them, by module, or share memory by swapping."""

    DEFAULT = "default"
    PER_MODULE = "per_module"
    FULLY_SHARDED = "fully_sharded"


class CacheStatistics(abc.ABC):
    """What is known of how often ids of a table come up, which says how useful a cache for it is."""

    @property
    @abc.abstractmethod
    def expected_lookups(self) -> float:
        """Distinct ids of one global batch."""

    @abc.abstractmethod
    def expected_miss_rate(self, clf: float) -> float:
        """Share of look-ups that are not in the cache, 0 to 1.

        Args:
            clf: the share of the table's rows that the cache has room for, 0 to 1.
        """

    @property
    @abc.abstractmethod
    def cacheability(self) -> float:
        """How badly a cache works for the table, 0 (well) to 1: the area below the curve of miss rates."""


@dataclass
class CacheParams:
    """A cache on the device for a table on the host; None for whatever the kernel does by itself.

    Args:
        algorithm: which rows make room for others.
        load_factor: rows of the cache, as a share of those of the table.
        reserved_memory: bytes of the device that the cache leaves alone.
        precision: element type of the cache.
        prefetch_pipeline: whether a batch is fetched while another one is computed.
        stats: how often ids come up.
        multipass_prefetch_config: fetch in several passes, which takes less memory.
    """

    algorithm: Any | None = None
    load_factor: float | None = None
    reserved_memory: float | None = None
    precision: DataType | None = None
    prefetch_pipeline: bool | None = None
    stats: CacheStatistics | None = None
    multipass_prefetch_config: Any | None = None

    def __hash__(self) -> int:
        return hash((self.algorithm, self.load_factor, self.reserved_memory, self.precision, self.prefetch_pipeline))


@dataclass
class KeyValueParams:
    """How a table in a key-value store is kept; None for whatever the store does by itself.

    The names are upstream's: directory, write buffer and shards of the store, sizes of its caches, whether it writes in
    the background, how it is filled, and the addresses of a remote one.
    """

    ssd_storage_directory: str | None = None
    ssd_rocksdb_write_buffer_size: int | None = None
    ssd_rocksdb_shards: int | None = None
    gather_ssd_cache_stats: bool | None = None
    stats_reporter_config: Any | None = None
    use_passed_in_path: bool = True
    l2_cache_size: int | None = None
    max_l1_cache_size: int | None = None
    enable_async_update: bool | None = None
    bulk_init_chunk_size: int | None = None
    lazy_bulk_init_enabled: bool | None = None
    enable_raw_embedding_streaming: bool | None = None
    res_store_shards: int | None = None
    kvzch_tbe_config: Any | None = None
    load_ckpt_without_opt: bool = False
    ps_hosts: tuple[tuple[str, int], ...] | None = None
    ps_client_thread_num: int | None = None
    ps_max_key_per_request: int | None = None
    ps_max_local_index_length: int | None = None

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


@dataclass
class ParameterSharding:
    """Where a parameter goes.

    Args:
        sharding_type: a value of `ShardingType`.
        compute_kernel: a value of `EmbeddingComputeKernel`.
        ranks: the processes that hold a part of it.
        sharding_spec: which rows and columns each of them holds.
        cache_params: of a table on the host with a cache on the device.
        enforce_hbm: whether the cache must be in the device's memory.
        stochastic_rounding: whether tables of 16 bits are rounded by chance.
        bounds_check_mode: what becomes of ids outside of the table.
        output_dtype: element type of what is looked up.
        key_value_params: of a table in a key-value store.
    """

    sharding_type: str
    compute_kernel: str
    ranks: list[int] | None = None
    sharding_spec: ShardingSpec | None = None
    cache_params: CacheParams | None = None
    enforce_hbm: bool | None = None
    stochastic_rounding: bool | None = None
    bounds_check_mode: BoundsCheckMode | None = None
    output_dtype: DataType | None = None
    key_value_params: KeyValueParams | None = None


@dataclass
class ShardingBucketMetadata:
    """Buckets of rows of a table whose rows are spread by buckets.

    Args:
        num_buckets_per_shard: how many each shard has.
        bucket_offsets_per_shard: the first of each shard.
        bucket_size: rows of each.
    """

    num_buckets_per_shard: list[int]
    bucket_offsets_per_shard: list[int]
    bucket_size: int


class ModuleShardingPlan:
    """How a module is spread over processes."""


class EmbeddingModuleShardingPlan(ModuleShardingPlan, dict[str, ParameterSharding]):
    """Of each table of a module of embeddings, by name, where it goes."""

    def __str__(self) -> str:
        rows: list[list[Any]] = []
        shards: list[list[Any]] = []
        for name, sharding in self.items():
            rows.append([name, sharding.sharding_type, sharding.compute_kernel, sharding.ranks])
            if isinstance(sharding.sharding_spec, EnumerableShardingSpec):
                for shard in sharding.sharding_spec.shards:
                    shards.append([name, shard.shard_offsets, shard.shard_sizes, shard.placement])
        return (
            "\n\n"
            + tabulated(rows, ["param", "sharding type", "compute kernel", "ranks"])
            + "\n\n"
            + tabulated(shards, ["param", "shard offsets", "shard sizes", "placement"])
        )


class ObjectPoolShardingType(Enum):
    """Ways to spread a pool of objects over processes."""

    ROW_WISE = "row_wise"
    # every host has all of it, some rows on each of its processes
    REPLICATED_ROW_WISE = "replicated_row_wise"


@dataclass
class ObjectPoolShardingPlan(ModuleShardingPlan):
    """How a pool of objects is spread over processes.

    Args:
        sharding_type: which way.
        inference: whether one process serves all devices.
        memory_capacity_per_rank: rows that each process has room for, where they differ.
    """

    sharding_type: ObjectPoolShardingType
    inference: bool = False
    memory_capacity_per_rank: list[int] | None = None


@dataclass
class ShardingPlan:
    """How the modules of a model are spread over processes.

    Args:
        plan: for each module that is, by its path in the model.
    """

    plan: dict[str, ModuleShardingPlan]

    def get_plan_for_module(self, module_path: str) -> ModuleShardingPlan | None:
        """The plan of the module at a path, or None."""
        return self.plan.get(module_path)

    def __str__(self) -> str:
        return "\n\n".join(f"module: {path}{plan}" for path, plan in self.plan.items())


def tabulated(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """A table of text, its headers underlined; nothing of no rows."""
    if not rows:
        # Upstream: an empty table leaves its lines empty.
        return "\n"
    lines = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    ruled = [list(headers), ["-" * width for width in widths], *lines]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in ruled)
