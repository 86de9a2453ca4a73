"""Kernels that look up a group of tables in one call: with an optimizer in the backward pass, or with gradients."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties

from flambeau.rec.distributed._dense_tables import DenseTables
from flambeau.rec.distributed.composable.table_batched_embedding_slice import TableBatchedEmbeddingSlice
from flambeau.rec.distributed.embedding_kernel import BaseEmbedding, get_state_dict, joined_shards
from flambeau.rec.distributed.embedding_types import (
    DTensorMetadata,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
    compute_kernel_to_embedding_location,
)
from flambeau.rec.distributed.fused_params import tbe_fused_params
from flambeau.rec.distributed.types import ShardingEnv, ShardingType
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.modules.embedding_configs import (
    PoolingType,
    data_type_to_dtype,
    data_type_to_sparse_type,
    pooling_type_to_pooling_mode,
)
from flambeau.rec.optim.fused import FusedOptimizer, FusedOptimizerModule
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "ASSOC",
    "BaseBatchedEmbedding",
    "BaseBatchedEmbeddingBag",
    "BatchedDenseEmbedding",
    "BatchedDenseEmbeddingBag",
    "BatchedFusedEmbedding",
    "BatchedFusedEmbeddingBag",
    "EmbeddingFusedOptimizer",
    "ShardParams",
]

ASSOC: int = 32
"""Ways of the cache's sets."""

# What concerns caches on an accelerator of tables on the host; tables here lie where they are looked up.
_OF_CACHES = frozenset({
    "cache_algorithm", "cache_load_factor", "cache_precision", "cache_reserved_memory", "cache_sets", "enforce_hbm",
    "gather_uvm_cache_stats", "multipass_prefetch_config", "prefetch_pipeline", "record_cache_metrics",
    "uvm_host_mapped", "embedding_table_index_type", "embedding_table_offset_type", "use_uniq_cache_locations_bwd",
})  # fmt: skip


# Kernels of tables on disk derive from those here, so they have a module of their own, which is found when it is asked
# for.
_STORED = (
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
)


def __getattr__(name: str) -> Any:
    if name not in _STORED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("flambeau.rec.distributed._key_value_kernels"), name)


@dataclass
class ShardParams:
    """What a process has of a table: weights, what an optimizer keeps, and where they lie in the whole."""

    optimizer_states: list[tuple[Tensor, ...] | None]
    optimizer_states_keys: list[Tensor]
    local_metadata: list[ShardMetadata]
    global_metadata: ShardedTensorMetadata | None
    embedding_weights: list[Tensor]
    dtensor_metadata: list[DTensorMetadata | None] = field(default_factory=list)


# ----- the optimizer in the backward pass -----------------------------------------------------------------------------


class EmbeddingFusedOptimizer(FusedOptimizer):
    """What a kernel's optimizer keeps of its tables, by name, and its learning rate.

    The state of table `t` is `t.momentum1`, `t.momentum2`: whole tensors of which this process has parts. What is kept
    for each row is kept once for each column shard; those of further column shards come below those of the first one.

    Args:
        config: the tables.
        emb_module: the kernel.
        pg: who has parts of the tables.
        create_for_table: the only table it is about; all by default.
        param_weight_for_table: the parameter that this table is.
        embedding_weights_by_table: weights of each table.
        all_optimizer_states: what is kept of each table, by name.
    """

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        emb_module: SplitTableBatchedEmbeddingBagsCodegen,
        pg: dist.ProcessGroup | None = None,
        create_for_table: str | None = None,
        param_weight_for_table: nn.Parameter | None = None,
        embedding_weights_by_table: list[Tensor] | None = None,
        all_optimizer_states: list[dict[str, Tensor]] | None = None,
    ) -> None:
        self._emb_module, self._pg = emb_module, pg
        weights = embedding_weights_by_table or emb_module.split_embedding_weights()
        states = all_optimizer_states or emb_module.get_optimizer_state() or [{} for _ in weights]
        parts: dict[str, ShardParams] = {}
        tables: dict[str, ShardedEmbeddingTable] = {}
        for table, weight, state in zip(config.embedding_tables, weights, states, strict=True):
            if create_for_table is not None and create_for_table != table.name:
                continue
            tables.setdefault(table.name, table)
            part = parts.setdefault(table.name, ShardParams([], [], [], table.global_metadata, [], []))
            part.embedding_weights.append(weight)
            part.optimizer_states.append(tuple(state.values()))
            part.dtensor_metadata.append(table.dtensor_metadata)
            if table.local_metadata is not None:
                part.local_metadata.append(table.local_metadata)
        params: dict[str, Any] = {}
        state_of: dict[Any, Any] = {}
        groups = []
        for name, part in parts.items():
            param = param_weight_for_table
            if param is None:
                param = nn.Parameter(_below_another(part.embedding_weights))
            params[f"{name}.weight"] = param
            groups.append({"params": [param], "lr": emb_module.get_learning_rate()})
            kept = {
                f"{name}.momentum{number}": self._whole(part, number - 1)
                for number in range(1, 1 + min((len(one or ()) for one in part.optimizer_states), default=0))
            }
            state_of[param] = kept
        super().__init__(params, state_of, groups)

    def _whole(self, part: ShardParams, number: int) -> Any:
        mine = [states[number] for states in part.optimizer_states if states is not None]
        if part.global_metadata is None or self._pg is None or not part.local_metadata:
            return mine[0] if len(mine) == 1 else torch.cat(mine)
        shapes = zip(mine, part.embedding_weights, strict=True)
        if all(one.shape == weight.shape for one, weight in shapes):
            properties = _properties(mine[0])
            whole = ShardedTensorMetadata(part.global_metadata.shards_metadata, part.global_metadata.size, properties)
            return joined_shards(mine, part.local_metadata, whole, self._pg, part.dtensor_metadata[0])
        mapped, whole = _by_row(part.global_metadata, mine[0])
        return joined_shards(
            [one.view(-1) for one in mine],
            [mapped[_key(place)] for place in part.local_metadata],
            whole,
            self._pg,
            _one_dimensional(part.dtensor_metadata[0], whole),
        )

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Take over the learning rate; there are no gradients to forget."""
        self._take_over()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take over the learning rate; the backward pass has trained already."""
        self._take_over()

    def _take_over(self) -> None:
        for group in self.param_groups:
            self._emb_module.set_learning_rate(group["lr"])

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here."""
        self._emb_module.set_optimizer_step(step)

    def update_hyper_parameters(self, params_dict: dict[str, Any]) -> None:
        """Change options of the kernel's optimizer.

        Args:
            params_dict: options by name; "lr" is the learning rate.
        """
        if "lr" in params_dict:
            for group in self.param_groups:
                group["lr"] = params_dict["lr"]  # type: ignore[index]
        update = getattr(self._emb_module, "update_hyper_parameters", None)
        if update is not None:
            update(params_dict)
        elif set(params_dict) - {"lr"}:
            raise OptionError(f"the kernel has no options {sorted(set(params_dict) - {'lr'})} that can be changed.")
        self._take_over()


def _below_another(parts: Sequence[Tensor]) -> Tensor:
    """Parts that follow one another in memory, as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    rows = sum(part.shape[0] for part in parts)
    return torch.as_strided(first, (rows, first.shape[1]), first.stride(), first.storage_offset())


def _properties(tensor: Tensor) -> TensorProperties:
    return TensorProperties(
        dtype=tensor.dtype, layout=tensor.layout, requires_grad=False, memory_format=torch.contiguous_format,
        pin_memory=False,
    )  # fmt: skip


def _key(place: ShardMetadata) -> tuple[int, ...]:
    return (*place.shard_offsets, *place.shard_sizes)


def _by_row(
    table: ShardedTensorMetadata, kept: Tensor
) -> tuple[dict[tuple[int, ...], ShardMetadata], ShardedTensorMetadata]:
    """Where numbers of rows lie: those of the first column shard, then those of the second, ..."""
    columns = sorted({place.shard_offsets[1] for place in table.shards_metadata if place.shard_sizes[0]})
    rows = table.size[0]
    mapped = {}
    for place in table.shards_metadata:
        column = columns.index(place.shard_offsets[1]) if place.shard_offsets[1] in columns else 0
        mapped[_key(place)] = ShardMetadata(
            [column * rows + place.shard_offsets[0]], [place.shard_sizes[0]], place.placement
        )
    size = torch.Size([rows * max(len(columns), 1)])
    return mapped, ShardedTensorMetadata(list(mapped.values()), size, _properties(kept))


def _one_dimensional(metadata: DTensorMetadata | None, whole: ShardedTensorMetadata) -> DTensorMetadata | None:
    if metadata is None:
        return None
    from torch.distributed.tensor import Replicate, Shard

    placements = tuple(one if isinstance(one, Replicate) else Shard(0) for one in metadata.placements or ())
    return DTensorMetadata(metadata.mesh, placements, tuple(whole.size), (1,))


# ----- kernels --------------------------------------------------------------------------------------------------------


class _Batched(BaseEmbedding):
    """Looks up tables in one call.

    Args:
        config: the tables.
        pg: who has parts of them.
        device: of the part here.
    """

    _emb_module: Any

    def __init__(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None, device: torch.device | None
    ) -> None:
        super().__init__()
        torch._C._log_api_usage_once(f"flambeau.rec.distributed.{type(self).__name__}.__init__")
        self._config, self._pg, self._device = config, pg, device
        tables = config.embedding_tables
        self._shapes = [(table.local_rows, table.local_cols) for table in tables]
        self._feature_table_map = [at for at, table in enumerate(tables) for _ in range(table.num_features())]

    def _made(self, pooling_mode: PoolingMode, *, fused: bool) -> nn.Module:
        tables = self._config.embedding_tables
        if not fused:
            return DenseTables(
                self._shapes, self._feature_table_map, pooling_mode, data_type_to_dtype(self._config.data_type),
                self._device, self._config.feature_names(),
            )  # fmt: skip
        options = dict(tbe_fused_params(self._config.fused_params) or {})
        known = inspect.signature(SplitTableBatchedEmbeddingBagsCodegen).parameters
        unknown = [name for name in options if name not in known and name not in _OF_CACHES]
        if unknown:
            raise OptionError(f"fused_params has {unknown}, which kernels have no options for; leave them out.")
        options = {name: value for name, value in options.items() if name in known}
        options["weights_precision"] = options.get("weights_precision") or data_type_to_sparse_type(
            self._config.data_type
        )
        on_gpu = self._device is not None and self._device.type == "cuda"
        compute = ComputeDevice.CUDA if on_gpu else ComputeDevice.CPU
        specs = []
        for table, (rows, columns) in zip(tables, self._shapes, strict=True):
            location = compute_kernel_to_embedding_location(table.compute_kernel)
            # A cache is one without an accelerator as well.
            stays = on_gpu or location == EmbeddingLocation.MANAGED_CACHING
            specs.append((rows, columns, location if stays else EmbeddingLocation.HOST, compute))
        return SplitTableBatchedEmbeddingBagsCodegen(
            specs,
            self._feature_table_map,
            pooling_mode=pooling_mode,
            device=self._device,
            table_names=self._config.table_names(),
            **options,
        )

    def init_parameters(self) -> None:
        """Fill the tables as their configurations say."""
        for table, weight in zip(self._config.embedding_tables, self.split_embedding_weights(), strict=True):
            if weight.is_meta or not weight.numel():
                continue
            if table.init_fn is not None:
                made = table.init_fn(weight)
                if made is not None and made is not weight:
                    weight.copy_(made)
            else:
                weight.uniform_(table.get_weight_init_min(), table.get_weight_init_max())

    @property
    def config(self) -> GroupedEmbeddingConfig:
        """The tables."""
        return self._config

    @property
    def emb_module(self) -> Any:
        """What does the looking up."""
        return self._emb_module

    def _flat(self) -> nn.Parameter:
        for param in self._emb_module.parameters():
            if param.requires_grad or param.dim() == 1:
                return param  # type: ignore[no-any-return]
        # A process may have no rows of any of the tables.
        return nn.Parameter(self.split_embedding_weights()[0].new_empty(0))

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Look up.

        Args:
            features: those of the tables, in order.

        Returns:
            (examples, columns of all features), or a row for each id; flat where features have batches of their own:
            process by process, feature by feature.
        """
        weights = features.weights_or_none()
        sizes = features.stride_per_key_per_rank() if features.variable_stride_per_key() else None
        offsets = features.offsets()
        if sizes is not None and self._config.pooling == PoolingType.NONE:
            # A row for each id does not depend on bags: all ids of a feature are one.
            offsets, sizes = torch.tensor(features.offset_per_key(), dtype=offsets.dtype, device=offsets.device), None
        use_weights = self._config.is_weighted or self._config.has_feature_processor
        output: Tensor = self._emb_module(
            features.values(),
            offsets,
            per_sample_weights=weights if use_weights else None,
            batch_size_per_feature_per_rank=sizes,
        )
        return output

    def split_embedding_weights(self) -> list[Tensor]:
        """A view of each table."""
        weights: list[Tensor] = self._emb_module.split_embedding_weights()
        return weights

    def named_split_embedding_weights(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """A view of each table, by `<table>.weight`."""
        for table, weight in zip(self._config.embedding_tables, self.split_embedding_weights(), strict=True):
            yield append_prefix(prefix, f"{table.name}.weight"), weight

    def named_parameters_by_table(self) -> Iterator[tuple[str, TableBatchedEmbeddingSlice]]:
        """A parameter for each table; column shards of one table here are rows below one another."""
        flat = self._flat()
        seen: dict[str, list[Tensor]] = {}
        for table, weight in zip(self._config.embedding_tables, self.split_embedding_weights(), strict=True):
            seen.setdefault(table.name, []).append(weight)
        for name, parts in seen.items():
            start = parts[0].storage_offset() - flat.storage_offset()
            rows, columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
            yield name, TableBatchedEmbeddingSlice(flat, start, start + rows * columns, rows, columns)  # type: ignore[arg-type]

    def flush(self) -> None:
        """Write caches back to the tables."""
        if hasattr(self._emb_module, "flush"):
            self._emb_module.flush()

    def purge(self) -> None:
        """Empty caches."""
        if hasattr(self._emb_module, "reset_cache_states"):
            self._emb_module.reset_cache_states()

    def prefetch(self, features: KeyedJaggedTensor, forward_stream: torch.Stream | None = None) -> None:
        """Fetch rows of tables on the host that a batch will need; without a cache, nothing."""
        fetch = getattr(self._emb_module, "prefetch", None)
        if fetch is not None:
            sizes = features.stride_per_key_per_rank() if features.variable_stride_per_key() else None
            fetch(features.values(), features.offsets(), forward_stream, sizes)

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Tables by name, as wholes of which this process has parts."""
        self.flush()
        return get_state_dict(
            self._config.embedding_tables, self.split_embedding_weights(), self._pg, destination, prefix
        )


class BaseBatchedEmbedding(_Batched):
    """Looks up tables, a row for each id."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(config, pg, device)


class BaseBatchedEmbeddingBag(_Batched):
    """Looks up tables, and pools rows over bags."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        sharding_type: ShardingType | None = None,
    ) -> None:
        super().__init__(config, pg, device)
        self._sharding_type = sharding_type
        self._pooling = pooling_type_to_pooling_mode(config.pooling)


class _Fused(_Batched, FusedOptimizerModule):
    """Trains its tables in the backward pass."""

    def _init_fused(self, pooling_mode: PoolingMode) -> None:
        self._emb_module = self._made(pooling_mode, fused=True)
        self._optim = EmbeddingFusedOptimizer(self._config, self._emb_module, self._pg)
        self.init_parameters()

    @property
    def fused_optimizer(self) -> FusedOptimizer:
        """What it trains them by."""
        return self._optim

    def named_parameters_by_table(self) -> Iterator[tuple[str, TableBatchedEmbeddingSlice]]:
        """A parameter for each table, with its part of the optimizer."""
        for name, param in super().named_parameters_by_table():
            optimizer = EmbeddingFusedOptimizer(
                self._config, self._emb_module, self._pg, create_for_table=name, param_weight_for_table=param
            )
            param._in_backward_optimizers = [optimizer]  # type: ignore[attr-defined]
            yield name, param


class BatchedFusedEmbedding(BaseBatchedEmbedding, _Fused):
    """Looks up tables, a row for each id, and trains them in the backward pass."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(config, pg, device)
        self._init_fused(PoolingMode.NONE)

    def wait_for_forward(self) -> None:
        """A look-up is done when it returns; there is nothing to wait for."""


class BatchedFusedEmbeddingBag(BaseBatchedEmbeddingBag, _Fused):
    """Looks up tables, pools rows over bags, and trains them in the backward pass."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        sharding_type: ShardingType | None = None,
        env: ShardingEnv | None = None,
    ) -> None:
        super().__init__(config, pg, device, sharding_type)
        self._init_fused(self._pooling)


class BatchedDenseEmbedding(BaseBatchedEmbedding):
    """Looks up tables, a row for each id; their gradients are dense."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(config, pg, device)
        self._emb_module = self._made(PoolingMode.NONE, fused=False)
        self.init_parameters()


class BatchedDenseEmbeddingBag(BaseBatchedEmbeddingBag):
    """Looks up tables, and pools rows over bags; their gradients are dense."""

    def __init__(
        self,
        config: GroupedEmbeddingConfig,
        pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        sharding_type: ShardingType | None = None,
    ) -> None:
        super().__init__(config, pg, device, sharding_type)
        self._emb_module = self._made(self._pooling, fused=False)
        self.init_parameters()
