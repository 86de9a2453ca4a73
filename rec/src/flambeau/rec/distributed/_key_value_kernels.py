"""Kernels whose tables are on disk, with a cache in memory, or are virtual: rows are made when their ids come up."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import ShardedTensor  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata

from flambeau.rec.distributed._virtual_tensors import counts_of_processes, create_virtual_sharded_tensors
from flambeau.rec.distributed.batched_embedding_kernel import (
    _OF_CACHES,
    ASSOC,
    BaseBatchedEmbedding,
    BaseBatchedEmbeddingBag,
    EmbeddingFusedOptimizer,
    ShardParams,
    _Batched,
    _by_row,
    _properties,
)
from flambeau.rec.distributed.embedding_kernel import get_state_dict
from flambeau.rec.distributed.embedding_types import (
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.fused_params import tbe_fused_params
from flambeau.rec.distributed.types import ShardingType
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.ssd._folders import folder_with
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import BackendType, EvictionPolicy, KVZCHParams
from flambeau.rec.fbgemm_gpu.tbe.ssd.training import SSDTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.tbe.ssd.utils.partially_materialized_tensor import PartiallyMaterializedTensor
from flambeau.rec.modules.embedding_configs import (
    CountBasedEvictionPolicy,
    CountTimestampMixedEvictionPolicy,
    FeatureL2NormBasedEvictionPolicy,
    FeatureScoreBasedEvictionPolicy,
    TimestampBasedEvictionPolicy,
    data_type_to_sparse_type,
)
from flambeau.rec.optim.fused import EmptyFusedOptimizer, FusedOptimizer, FusedOptimizerModule
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "ENABLE_RAW_EMBEDDING_STREAMING_STR",
    "RES_ENABLED_TABLES_STR",
    "RES_STORE_SHARDS_STR",
    "KeyValueEmbedding",
    "KeyValueEmbeddingBag",
    "KeyValueEmbeddingFusedOptimizer",
    "ZeroCollisionEmbeddingCache",
    "ZeroCollisionEmbeddingEnrichmentCache",
    "ZeroCollisionKeyValueEmbedding",
    "ZeroCollisionKeyValueEmbeddingBag",
    "ZeroCollisionKeyValueEmbeddingFusedOptimizer",
    "backend_of",
]

ENABLE_RAW_EMBEDDING_STREAMING_STR = "enable_raw_embedding_streaming"
RES_STORE_SHARDS_STR = "res_store_shards"
RES_ENABLED_TABLES_STR = "res_enabled_tables"

_OF_STORES = frozenset({
    "max_l1_cache_size", "kvzch_tbe_config", "load_ckpt_without_opt", RES_STORE_SHARDS_STR, RES_ENABLED_TABLES_STR,
    "res_server_port",
})  # fmt: skip

_BACKENDS = {
    EmbeddingComputeKernel.SSD_VIRTUAL_TABLE: BackendType.SSD,
    EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE: BackendType.DRAM,
    EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE: BackendType.DRAM_SSD,
}


def backend_of(kernel: EmbeddingComputeKernel) -> BackendType:
    """What the virtual tables of a kernel are kept in."""
    return _BACKENDS[kernel]


# ----- optimizers -----------------------------------------------------------------------------------------------------


class KeyValueEmbeddingFusedOptimizer(EmbeddingFusedOptimizer):
    """What the optimizer of tables on disk keeps of them, by name, and its learning rate.

    States are read when they are asked for, and written back when they were loaded into.

    Args:
        config: the tables.
        emb_module: the kernel.
        pg: who has parts of the tables.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        emb_module: SSDTableBatchedEmbeddingBags,
        pg: dist.ProcessGroup | None = None,
    ) -> None:
        self._config, self._emb_module, self._pg = config, emb_module, pg  # type: ignore[assignment]
        self._read: list[list[Any]] = []
        self._params_by_table = {table.name: nn.Parameter(torch.empty(0)) for table in config.embedding_tables}
        params = {f"{name}.weight": param for name, param in self._params_by_table.items()}
        groups = [{"params": [param], "lr": emb_module.get_learning_rate()} for param in params.values()]
        FusedOptimizer.__init__(self, params, {}, groups)

    @property
    def state(self) -> Any:
        """Of each table's parameter, what is kept of it now."""
        module: Any = self._emb_module
        parts: dict[str, ShardParams] = {}
        weights: list[Any] = module.split_embedding_weights()[0]
        self._read = module.split_optimizer_states()
        for table, weight, states in zip(self._config.embedding_tables, weights, self._read, strict=True):
            part = parts.setdefault(table.name, ShardParams([], [], [], table.global_metadata, [], []))
            part.embedding_weights.append(weight)
            part.optimizer_states.append(tuple(states))
            part.dtensor_metadata.append(table.dtensor_metadata)
            if table.local_metadata is not None:
                part.local_metadata.append(table.local_metadata)
        return {
            self._params_by_table[name]: {
                f"{name}.momentum{number}": self._whole(part, number - 1)
                for number in range(1, 1 + min(len(one or ()) for one in part.optimizer_states))
            }
            for name, part in parts.items()
        }

    @state.setter
    def state(self, value: Any) -> None:
        if value:
            raise OptionError("the state of tables on disk is theirs; load one by load_state_dict.")

    def post_load_state_dict(self) -> None:
        """Write back what was loaded into states that are in memory."""
        module: Any = self._emb_module
        tables = module.tables
        for table, states in enumerate(self._read):
            for part, values in enumerate(states, 1):
                if not isinstance(values, PartiallyMaterializedTensor):
                    tables.write_part(table, np.arange(len(values)), part, values)

    def get_sharded_optim_state(
        self, momentum_idx: int, state_key: str, shard_params: ShardParams, table_config: ShardedEmbeddingTable
    ) -> Any:
        """A state of a table as a whole of which this process has its part.

        Args:
            momentum_idx: 1 or 2.
            state_key: its name.
            shard_params: the parts here.
            table_config: the table.
        """
        return self._whole(shard_params, momentum_idx - 1)

    def get_optimizer_rowwise_shard_metadata_and_global_metadata(
        self,
        table_global_metadata: ShardedTensorMetadata,
        optimizer_state: Tensor,
        sharding_dim: int,
        is_grid_sharded: bool = False,
    ) -> tuple[dict[ShardMetadata, ShardMetadata], ShardedTensorMetadata]:
        """Where numbers of rows lie: of a table spread by columns, those of each part, one after another.

        Args:
            table_global_metadata: of the table.
            optimizer_state: the numbers here.
            sharding_dim: 0 for tables spread by rows, 1 by columns.
            is_grid_sharded: whether by both.
        """
        if sharding_dim == 0 and not is_grid_sharded:
            mapped = {
                place: ShardMetadata([place.shard_offsets[0]], [place.shard_sizes[0]], place.placement)
                for place in table_global_metadata.shards_metadata
            }
            size = torch.Size([table_global_metadata.size[0]])
            return mapped, ShardedTensorMetadata(list(mapped.values()), size, _properties(optimizer_state))
        by_place, whole = _by_row(table_global_metadata, optimizer_state)
        return {
            place: by_place[(*place.shard_offsets, *place.shard_sizes)]
            for place in table_global_metadata.shards_metadata
        }, whole

    def get_optimizer_pointwise_shard_metadata_and_global_metadata(
        self, table_global_metadata: ShardedTensorMetadata, optimizer_state: Tensor
    ) -> tuple[dict[ShardMetadata, ShardMetadata], ShardedTensorMetadata]:
        """Where numbers of elements lie: where the elements do.

        Args:
            table_global_metadata: of the table.
            optimizer_state: the numbers here.
        """
        mapped = {place: copy.deepcopy(place) for place in table_global_metadata.shards_metadata}
        properties = _properties(optimizer_state)
        return mapped, ShardedTensorMetadata(list(mapped.values()), table_global_metadata.size, properties)

    def get_optimizer_single_value_shard_metadata_and_global_metadata(
        self, table_global_metadata: ShardedTensorMetadata, optimizer_state: Tensor
    ) -> tuple[dict[ShardMetadata, ShardMetadata], ShardedTensorMetadata]:
        """Where one number for each part lies: one after another.

        Args:
            table_global_metadata: of the table.
            optimizer_state: the number here.
        """
        mapped = {
            place: ShardMetadata([at], [1], place.placement)
            for at, place in enumerate(table_global_metadata.shards_metadata)
        }
        size = torch.Size([len(mapped)])
        return mapped, ShardedTensorMetadata(list(mapped.values()), size, _properties(optimizer_state))


class ZeroCollisionKeyValueEmbeddingFusedOptimizer(KeyValueEmbeddingFusedOptimizer):
    """What the optimizer of virtual tables keeps of the ids that came up, in their order, and its learning rate.

    Args:
        config: the tables.
        emb_module: the kernel.
        sharded_embedding_weights_by_table: weights as wholes.
        table_name_to_weight_count_per_rank: rows of each process, by table.
        sharded_embedding_weight_ids: ids as wholes.
        pg: who has parts of the tables.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        emb_module: SSDTableBatchedEmbeddingBags,
        sharded_embedding_weights_by_table: list[ShardedTensor],
        table_name_to_weight_count_per_rank: dict[str, list[int]],
        sharded_embedding_weight_ids: list[ShardedTensor] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(config, emb_module, pg)
        self._counts, self._ids = table_name_to_weight_count_per_rank, sharded_embedding_weight_ids

    def set_sharded_embedding_weight_ids(self, sharded_embedding_weight_ids: list[ShardedTensor] | None) -> None:
        """Note the ids whose states are meant.

        Args:
            sharded_embedding_weight_ids: of each table; all that came up by default.
        """
        self._ids = sharded_embedding_weight_ids

    def _chosen(self) -> list[Tensor] | None:
        if self._ids is None:
            return None
        return [one.local_shards()[0].tensor.view(-1) for one in self._ids]

    @property
    def state(self) -> Any:
        """Of each table's parameter, what is kept of its ids now: tensors of this process."""
        found = {}
        module: Any = self._emb_module
        states: list[list[Any]] = module.split_optimizer_states(self._chosen())
        for table, of_table in zip(self._config.embedding_tables, states, strict=True):
            found[self._params_by_table[table.name]] = {
                f"{table.name}.momentum{number}": state.full_tensor()
                if isinstance(state, PartiallyMaterializedTensor)
                else state
                for number, state in enumerate(of_table, 1)
            }
        return found

    @state.setter
    def state(self, value: Any) -> None:
        if value:
            raise OptionError("the state of virtual tables is theirs; it is loaded with them.")

    def post_load_state_dict(self) -> None:
        """States are loaded with the rows, of the ids that these are of."""


# ----- kernels --------------------------------------------------------------------------------------------------------


class _Stored(_Batched, FusedOptimizerModule):
    """Looks up tables on disk, and trains them in the backward pass."""

    _emb_module: SSDTableBatchedEmbeddingBags
    _optim: FusedOptimizer
    _virtual = False

    def _init_stored(self, pooling_mode: PoolingMode, backend: BackendType = BackendType.SSD) -> None:
        if not self._virtual and any(table.local_rows == 0 for table in self._config.embedding_tables):
            raise OptionError(f"tables {self._config.table_names()} have parts without rows; use fewer processes.")
        options = dict(tbe_fused_params(self._config.fused_params) or {})
        given = options.pop("kvzch_tbe_config", None)
        params = self._virtual_params(given) if self._virtual else None
        rows = sum(table.local_rows for table in self._config.embedding_tables)
        sets = options.get("cache_sets") or self._cache_sets(options, rows)
        known = inspect.signature(SSDTableBatchedEmbeddingBags).parameters
        unknown = [name for name in options if name not in known and name not in _OF_CACHES | _OF_STORES]
        if unknown:
            raise OptionError(f"fused_params has {unknown}, which tables on disk have no options for; leave them out.")
        options = {name: value for name, value in options.items() if name in known}
        for name in ("cache_sets", "backend_type", "kv_zch_params"):
            options.pop(name, None)
        if not options.get("ssd_storage_directory"):
            options["ssd_storage_directory"] = str(folder_with(self, "flambeau-tables-"))
        options["weights_precision"] = options.get("weights_precision") or data_type_to_sparse_type(
            self._config.data_type
        )
        ranges = [self._range(table) for table in self._config.embedding_tables]
        self._emb_module = SSDTableBatchedEmbeddingBags(
            self._shapes,
            self._feature_table_map,
            sets,
            ssd_uniform_init_lower=[low for low, _ in ranges],
            ssd_uniform_init_upper=[high for _, high in ranges],
            pooling_mode=pooling_mode,
            backend_type=backend,
            kv_zch_params=params,
            table_names=self._config.table_names(),
            pg=self._pg,
            **options,
        )
        self._params_by_table = {table.name: nn.Parameter(torch.empty(0)) for table in self._config.embedding_tables}
        for param in self._params_by_table.values():
            param._in_backward_optimizers = [EmptyFusedOptimizer()]  # type: ignore[attr-defined]

    @staticmethod
    def _cache_sets(options: dict[str, Any], rows: int) -> int:
        sets = math.ceil(rows * (options.get("cache_load_factor") or 0.2) / ASSOC)
        most = options.get("max_l1_cache_size")  # MiB; counted as rows of 512 bytes, which most are not above
        return max(min(sets, most * 2048 // ASSOC if most else 1 << 16), 1)

    @staticmethod
    def _range(table: ShardedEmbeddingTable) -> tuple[float, float]:
        """What rows begin between."""
        filler = table.init_fn
        if isinstance(filler, partial) and filler.func is nn.init.uniform_:
            return filler.keywords.get("a", 0.0), filler.keywords.get("b", 1.0)
        return table.get_weight_init_min(), table.get_weight_init_max()

    def _virtual_params(self, given: Any) -> KVZCHParams:
        policies = [table.virtual_table_eviction_policy for table in self._config.embedding_tables]
        return KVZCHParams(eviction_policy=_eviction_policy(policies, given))

    def init_parameters(self) -> None:
        """Fill the tables as their configurations say; uniform numbers are there from the beginning."""
        for table, weight in zip(self._config.embedding_tables, self.split_embedding_weights()[0], strict=True):
            filler = table.init_fn
            if filler is None or self._virtual or (isinstance(filler, partial) and filler.func is nn.init.uniform_):
                continue
            step = max((32 << 20) // max(table.local_cols * 4, 1), 1)
            for start in range(0, table.local_rows, step):
                rows = torch.empty(min(step, table.local_rows - start), table.local_cols, dtype=weight.dtype)
                made = filler(rows)
                weight._wrapped.set_range(0, start, len(rows), rows if made is None else made)

    @property
    def fused_optimizer(self) -> FusedOptimizer:
        """What it trains them by."""
        return self._optim

    def split_embedding_weights(self, no_snapshot: bool = True, should_flush: bool = False) -> Any:
        """See `SSDTableBatchedEmbeddingBags.split_embedding_weights`."""
        return self._emb_module.split_embedding_weights(no_snapshot, should_flush)

    def parts(self) -> list[PartiallyMaterializedTensor]:
        """Each table here, without reading it."""
        found: list[PartiallyMaterializedTensor] = self.split_embedding_weights()[0]
        return found

    def named_split_embedding_weights(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Each table here, by `<table>.weight`."""
        for table, weight in zip(self._config.embedding_tables, self.parts(), strict=True):
            yield append_prefix(prefix, f"{table.name}.weight"), weight

    def get_named_split_embedding_weights_snapshot(self, prefix: str = "") -> Iterator[tuple[Any, ...]]:
        """Each table here at a checkpoint that is made now: name, rows, and of virtual ones ids, buckets and facts."""
        weights, ids, buckets, facts = self.split_embedding_weights(no_snapshot=False)
        for at, table in enumerate(self._config.embedding_tables):
            beside = [None if one is None else one[at] for one in (ids, buckets, facts)]
            yield (append_prefix(prefix, f"{table.name}.weight"), weights[at], *beside)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """A parameter without elements for each table: rows are not parameters."""
        for name, param in self._params_by_table.items():
            yield append_prefix(prefix, f"{name}.weight"), param

    def named_parameters_by_table(self) -> Iterator[tuple[str, Any]]:
        """A parameter without elements for each table."""
        yield from self._params_by_table.items()

    def create_rocksdb_hard_link_snapshot(self) -> None:
        """Make what tables hold now durable."""
        self._emb_module.create_rocksdb_hard_link_snapshot()

    def flush(self) -> None:
        """Write rows that were trained to the files."""
        self._emb_module.flush()

    def purge(self) -> None:
        """Write back, and empty the cache."""
        self._emb_module.clear_cache()

    def load_rows(self, name: str, weights: Any, ids: Tensor) -> None:
        """Take the rows of a virtual table over; those that it has are gone.

        Args:
            name: of the table.
            weights: (ids, columns), in memory or on disk.
            ids: (ids, 1).
        """
        number = self._config.table_names().index(name)
        module, rows = self._emb_module, weights
        if isinstance(weights, PartiallyMaterializedTensor):
            rows = weights.full_tensor()
        module.tables.remove(number, module.tables.ids[number].rows())
        module._take_over(number, ids.view(-1) - self.first_id(self._config.embedding_tables[number]), rows, [])

    def prefetch(self, features: KeyedJaggedTensor, forward_stream: torch.Stream | None = None) -> None:
        """Fetch rows that a batch will need into the cache."""
        self._emb_module.prefetch(features.values(), features.offsets())

    @staticmethod
    def first_id(table: ShardedEmbeddingTable) -> int:
        """The id that is the first one here."""
        return table.local_metadata.shard_offsets[0] if table.local_metadata is not None else 0

    def state_dict(  # type: ignore[override]
        self,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
        no_snapshot: bool = True,
    ) -> dict[str, Any]:
        """Tables by name, as wholes of which this process has parts; of virtual ones ids and buckets as well."""
        tables = self._config.embedding_tables
        weights, ids, buckets, _ = self.split_embedding_weights(no_snapshot, should_flush=True)
        found: dict[str, Any] = {} if destination is None else destination
        if ids is None:
            return get_state_dict(tables, weights, self._pg, found, prefix)
        ids = [one + self.first_id(table) for one, table in zip(ids, tables, strict=True)]
        for suffix, parts in (("weight", weights), ("weight_id", ids), ("bucket", buckets)):
            for table, part in zip(tables, parts, strict=True):
                name = f"{prefix}{table.name}.{suffix}"
                shards = 1 if table.global_metadata is None else len(table.global_metadata.shards_metadata)
                if self._pg is None or table.global_metadata is None:
                    found[name] = part
                    continue
                counts = counts_of_processes(part.size(0), shards, self._pg)
                by_name = None if counts is None else {table.name: counts}
                found[name] = create_virtual_sharded_tensors([table], [part], self._pg, prefix, by_name)[0]
        return found


def _eviction_policy(policies: list[Any], given: Any) -> EvictionPolicy:
    """What configurations of tables say of their rows' leaving, as the store takes it: one strategy for all."""
    strategies = [
        (CountTimestampMixedEvictionPolicy, 2), (CountBasedEvictionPolicy, 1), (TimestampBasedEvictionPolicy, 0),
        (FeatureL2NormBasedEvictionPolicy, 3), (FeatureScoreBasedEvictionPolicy, 5),
    ]  # fmt: skip
    kinds = {strategy for policy in policies for kind, strategy in strategies if isinstance(policy, kind)}
    if not kinds:
        return EvictionPolicy()
    if len(kinds) > 1 or any(not isinstance(policy, tuple(kind for kind, _ in strategies)) for policy in policies):
        raise OptionError(f"tables of one kernel have eviction policies {policies}; give all of them the same kind.")

    def of_tables(name: str, default: Any = 0) -> list[Any]:
        return [getattr(policy, name, default) for policy in policies]

    trigger = of_tables("training_id_eviction_trigger_count")
    mode = 4 if any(trigger) else (given.kvzch_eviction_trigger_mode if given is not None else 3)
    thresholds = of_tables("eviction_threshold")
    return EvictionPolicy(
        eviction_trigger_mode=mode,
        eviction_strategy=kinds.pop(),
        eviction_mem_threshold_gb=200,
        eviction_free_mem_threshold_gb=None if given is None else given.eviction_free_mem_threshold_gb,
        eviction_free_mem_check_interval_batch=None if given is None else given.eviction_free_mem_check_interval_batch,
        counter_thresholds=thresholds,
        l2_weight_thresholds=thresholds,
        counter_decay_rates=of_tables("decay_rate", 1.0),
        feature_score_counter_decay_rates=of_tables("decay_rate", 1.0),
        ttls_in_mins=of_tables("eviction_ttl_mins"),
        training_id_eviction_trigger_count=trigger,
        training_id_keep_count=of_tables("training_id_keep_count"),
        enable_eviction_for_feature_score_eviction_policy=of_tables("enable_eviction", default=True),
    )


class KeyValueEmbedding(BaseBatchedEmbedding, _Stored):
    """Looks up tables on disk, a row for each id, and trains them in the backward pass.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here; the CPU.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(config, pg, device)
        self._init_stored(PoolingMode.NONE)
        self._optim = KeyValueEmbeddingFusedOptimizer(config, self._emb_module, pg)
        self.init_parameters()


class KeyValueEmbeddingBag(BaseBatchedEmbeddingBag, _Stored):
    """Looks up tables on disk, pools rows over bags, and trains them in the backward pass.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here; the CPU.
        sharding_type: how they are spread.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        sharding_type: ShardingType | None = None,
    ) -> None:
        super().__init__(config, pg, device, sharding_type)
        self._init_stored(self._pooling)
        self._optim = KeyValueEmbeddingFusedOptimizer(config, self._emb_module, pg)
        self.init_parameters()


class ZeroCollisionKeyValueEmbedding(BaseBatchedEmbedding, _Stored):
    """Looks up virtual tables, a row for each id, and trains them in the backward pass.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here; the CPU.
        backend_type: what upstream would keep rows in; here, all are on disk.
        embedding_cache_mode: whether rows are written from outside, and looked up alone.
    """

    _virtual = True

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        backend_type: BackendType = BackendType.SSD,
        embedding_cache_mode: bool = False,
    ) -> None:
        super().__init__(config, pg, device)
        self._init_stored(PoolingMode.NONE, backend_type)
        self._optim = ZeroCollisionKeyValueEmbeddingFusedOptimizer(config, self._emb_module, [], {}, None, pg)
        if embedding_cache_mode:
            self._emb_module.reset_inference_mode()


class ZeroCollisionKeyValueEmbeddingBag(BaseBatchedEmbeddingBag, _Stored):
    """Looks up virtual tables, pools rows over bags, and trains them in the backward pass.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here; the CPU.
        sharding_type: how they are spread.
        backend_type: what upstream would keep rows in; here, all are on disk.
    """

    _virtual = True

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        sharding_type: ShardingType | None = None,
        backend_type: BackendType = BackendType.SSD,
    ) -> None:
        super().__init__(config, pg, device, sharding_type)
        self._init_stored(self._pooling, backend_type)
        self._optim = ZeroCollisionKeyValueEmbeddingFusedOptimizer(config, self._emb_module, [], {}, None, pg)


class ZeroCollisionEmbeddingCache(ZeroCollisionKeyValueEmbedding):
    """A virtual table whose rows are written from outside; it is looked up, and not trained.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here; the CPU.
        backend_type: what upstream would keep rows in.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        backend_type: BackendType = BackendType.SSD,
    ) -> None:
        super().__init__(config, pg, device, backend_type, embedding_cache_mode=True)

    def train(self, mode: bool = True) -> ZeroCollisionEmbeddingCache:
        """Rows come from outside alone: the tables stay as they are in either mode."""
        super().train(mode)
        self._emb_module.eval()
        return self

    @torch.no_grad()
    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Rows of ids, (L, columns); of those that were not written, what they would begin with.

        Args:
            features: those of the tables, in order.
        """
        return super().forward(features)

    @torch.no_grad()
    def update(self, embeddings: KeyedJaggedTensor) -> None:
        """Write rows.

        Args:
            embeddings: ids of each feature, and as their weights (L, columns) the rows; of an id that comes up twice,
                the last one counts.
        """
        rows = embeddings.weights()
        self._emb_module.direct_write_embedding(embeddings.values(), embeddings.offsets(), rows)


class ZeroCollisionEmbeddingEnrichmentCache(ZeroCollisionEmbeddingCache):
    """One whose missing rows are asked of the provider of its enrichment policy when they are looked up."""

    def _virtual_params(self, given: Any) -> KVZCHParams:
        policy = getattr(given, "enrichment_policy", None)
        return super()._virtual_params(given)._replace(enrichment_policy=policy)

    @torch.no_grad()
    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Rows of ids, (L, columns), asked of the provider where there are none.

        Args:
            features: those of the tables, in order.

        Raises:
            ValueError: there is no provider.
        """
        ids = features.values()
        self._emb_module.enrichment_query_id(ids, features.offsets(), torch.ones(ids.numel()))
        return super().forward(features)
