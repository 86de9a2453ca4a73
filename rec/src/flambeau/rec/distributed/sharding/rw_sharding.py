"""Tables whose rows are on several processes, and pooled there in part."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.dist_data import (
    KJTAllToAll,
    PooledEmbeddingsReduceScatter,
    VariableBatchPooledEmbeddingsReduceScatter,
)
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    BaseSparseFeaturesWriteDist,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
    bucketize_embeddings_before_all2all_write,
    bucketize_kjt_before_all2all,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.sharding._one_process import OneProcess, one_to_all
from flambeau.rec.distributed.sharding._rw_inference import InferRwPooledEmbeddingDist, InferRwSparseFeaturesDist
from flambeau.rec.distributed.sharding._spread import Spread, codecs_of
from flambeau.rec.distributed.types import Awaitable, CommOp, QuantizedCommCodecs, ShardingEnv, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "BaseRwEmbeddingSharding",
    "InferRwPooledEmbeddingDist",
    "InferRwPooledEmbeddingSharding",
    "InferRwSparseFeaturesDist",
    "RwPooledEmbeddingDist",
    "RwPooledEmbeddingSharding",
    "RwSparseFeaturesDist",
    "RwSparseFeaturesWriteDist",
    "convert_tensor",
    "get_embedding_shard_metadata",
]


def get_embedding_shard_metadata(
    grouped_embedding_configs_per_rank: list[list[GroupedEmbeddingConfig]],
) -> tuple[list[list[int]], bool]:
    """Where the rows of each process begin and end, of each feature, and whether all have as many but the last ones.

    Args:
        grouped_embedding_configs_per_rank: of each process, its groups of tables.

    Returns:
        Of each feature, (processes + 1) rows; and whether they are blocks of one size.
    """
    begins = [
        [place for config in of_rank for place in config.embedding_shard_metadata()]
        for of_rank in grouped_embedding_configs_per_rank
    ]
    found, regular = [], True
    for parts in zip(*begins, strict=True):
        assert all(part is not None for part in parts)
        sizes = [part.shard_sizes[0] for part in parts]
        rows = sum(sizes)
        bounds = [0]
        for size in sizes:
            bounds.append(bounds[-1] + size)
        block = -(-rows // len(sizes))
        regular &= all(bound == min(at * block, rows) for at, bound in enumerate(bounds))
        found.append(bounds)
    return found, regular


def convert_tensor(t: Tensor | None, feature: KeyedJaggedTensor) -> Tensor | None:
    """A tensor on the device and of the integers of a feature's ids."""
    return None if t is None else t.to(device=feature.device(), dtype=feature.values().dtype)


class BaseRwEmbeddingSharding(Spread):
    """Tables whose rows are on several processes.

    Args:
        sharding_infos: the tables, and where their rows go.
        env: the processes.
        device: of this one.
        need_pos: whether the place of each id in its bag is sent along.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        device_type_from_sharding_infos: where tables are, if that is another kind of device.
    """

    sharding_type = ShardingType.ROW_WISE
    sums_partial_bags = True

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        need_pos: bool = False,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        device_type_from_sharding_infos: str | tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(sharding_infos, env, device, qcomm_codecs_registry)
        self._need_pos = need_pos
        self._device_type_from_sharding_infos = device_type_from_sharding_infos

    def _shard(self, sharding_infos: list[EmbeddingShardingInfo]) -> list[list[ShardedEmbeddingTable]]:
        per_rank = self._parts_by_placement(sharding_infos)
        if any(len(tables) != len(sharding_infos) for tables in per_rank):
            raise OptionError(
                f"row-wise sharding takes a shard of each table for each of {self._world_size} processes, which may be "
                f"empty. There are {[len(tables) for tables in per_rank]} for {len(sharding_infos)} tables."
            )
        return per_rank

    # Each process has all tables, so that what one has says what all results are.
    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return self._dims_per_rank()[0]

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return self.embedding_names_per_rank()[0]

    def feature_names(self) -> list[str]:
        """All features, in the order in which they are sent."""
        return self.feature_names_per_rank()[0]

    def embedding_shard_metadata(self) -> list[Any]:
        """Of each feature, the part of its table on this process."""
        return [place for config in self._grouped_embedding_configs for place in config.embedding_shard_metadata()]

    def _rows(self) -> list[int]:
        """Of each feature, the rows of its whole table."""
        tables = [table for config in self._grouped_embedding_configs for table in config.embedding_tables]
        return [table.num_embeddings for table in tables for _ in table.feature_names]

    def _has_feature_processor(self) -> bool:
        return any(config.has_feature_processor for config in self._grouped_embedding_configs)

    def _input_dist(self, *, is_sequence: bool) -> RwSparseFeaturesDist:
        bounds, regular = get_embedding_shard_metadata(self._grouped_embedding_configs_per_rank)
        made = RwSparseFeaturesDist(
            self._group(),
            len(self.feature_names()),
            self._rows(),
            device=self._device,
            is_sequence=is_sequence,
            has_feature_processor=self._has_feature_processor(),
            need_pos=self._need_pos,
        )
        if not regular:
            made.use_bounds(bounds)
        return made


class _Buckets(BaseSparseFeaturesDist[KeyedJaggedTensor]):
    """Sorts ids by process."""

    _feature_block_sizes_tensor: Tensor

    def __init__(
        self, pg: dist.ProcessGroup, num_features: int, feature_hash_sizes: list[int], device: torch.device | None
    ) -> None:
        super().__init__()
        self._world_size: int = dist.get_world_size(pg)
        self._num_features = num_features
        blocks = [-(-rows // self._world_size) for rows in feature_hash_sizes]
        self.register_buffer(
            "_feature_block_sizes_tensor", torch.tensor(blocks, device=device, dtype=torch.int64), persistent=False
        )
        self._bounds: list[Tensor] | None = None
        self._dist = KJTAllToAll(pg=pg, splits=self._world_size * [num_features])

    def use_bounds(self, bounds: list[list[int]]) -> None:
        """Sort by where the rows of each process begin, of each feature, where these are no blocks of one size."""
        device = self._feature_block_sizes_tensor.device
        self._bounds = [torch.tensor(of_feature, device=device) for of_feature in bounds]

    def _sizes(self, features: KeyedJaggedTensor) -> tuple[Tensor, list[Tensor] | None]:
        sizes = convert_tensor(self._feature_block_sizes_tensor, features)
        assert sizes is not None
        if self._bounds is None:
            return sizes, None
        return sizes, [bound.to(features.values().dtype) for bound in self._bounds]


class RwSparseFeaturesDist(_Buckets):
    """Sends ids to the processes of their rows.

    Args:
        pg: who takes part.
        num_features: how many there are.
        feature_hash_sizes: rows of each one's table.
        feature_total_num_buckets: buckets of each one's table, where rows are spread by buckets.
        device: of this process.
        is_sequence: whether the place of each id is needed to put rows into order again.
        has_feature_processor: whether weights become the place of each id in its bag.
        need_pos: likewise.
        keep_original_indices: whether ids do not count from the process's first row.
        virtual_table_feature_num_buckets: likewise buckets, of tables without fixed rows.
        zch_sizes: rows of each one's table, where ids are larger.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        num_features: int,
        feature_hash_sizes: list[int],
        feature_total_num_buckets: list[int] | None = None,
        device: torch.device | None = None,
        is_sequence: bool = False,
        has_feature_processor: bool = False,
        need_pos: bool = False,
        keep_original_indices: bool = False,
        virtual_table_feature_num_buckets: list[int] | None = None,
        zch_sizes: list[int] | None = None,
    ) -> None:
        super().__init__(pg, num_features, zch_sizes or feature_hash_sizes, device)
        self._is_sequence = is_sequence
        self._bucketize_pos = has_feature_processor or need_pos
        self._keep_original_indices = keep_original_indices
        buckets = feature_total_num_buckets or virtual_table_feature_num_buckets
        self._blocks = None if buckets is None else torch.tensor(buckets, device=device)
        if buckets is not None:
            rows = zch_sizes or feature_hash_sizes
            sizes = [-(-count // of_one) for count, of_one in zip(rows, buckets, strict=True)]
            self._feature_block_sizes_tensor.copy_(torch.tensor(sizes, dtype=torch.int64))
        self.unbucketize_permute_tensor: Tensor | None = None

    def forward(self, sparse_features: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Start to send all features; of sequences, notes where each id went."""
        sizes, bounds = self._sizes(sparse_features)
        with_positions = self._bucketize_pos and sparse_features.weights_or_none() is None
        sorted_ids, self.unbucketize_permute_tensor = bucketize_kjt_before_all2all(
            sparse_features,
            self._world_size,
            sizes,
            convert_tensor(self._blocks, sparse_features),
            self._is_sequence,
            with_positions,
            bounds,
            self._keep_original_indices,
        )
        return self._dist(sorted_ids)  # type: ignore[no-any-return]


class RwSparseFeaturesWriteDist(_Buckets, BaseSparseFeaturesWriteDist[KeyedJaggedTensor]):
    """Sends rows to the processes that hold them.

    Args:
        pg: who takes part.
        num_features: how many there are.
        feature_hash_sizes: rows of each one's table.
        feature_total_num_buckets: buckets of each one's table, where rows are spread by buckets.
        device: of this process.
        is_sequence: whether the place of each id is noted.
        keep_original_indices: whether ids do not count from the process's first row.
        zch_sizes: rows of each one's table, where ids are larger.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        num_features: int,
        feature_hash_sizes: list[int],
        feature_total_num_buckets: list[int] | None = None,
        device: torch.device | None = None,
        is_sequence: bool = False,
        keep_original_indices: bool = False,
        zch_sizes: list[int] | None = None,
    ) -> None:
        super().__init__(pg, num_features, zch_sizes or feature_hash_sizes, device)
        self._is_sequence, self._keep_original_indices = is_sequence, keep_original_indices
        buckets = feature_total_num_buckets
        self._blocks = None if buckets is None else torch.tensor(buckets, device=device)
        self.unbucketize_permute_tensor: Tensor | None = None

    def forward(self, embeddings: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Start to send ids whose weights are rows."""
        sizes, bounds = self._sizes(embeddings)
        sorted_ids, self.unbucketize_permute_tensor = bucketize_embeddings_before_all2all_write(
            embeddings, self._world_size, sizes, convert_tensor(self._blocks, embeddings), self._is_sequence, False,
            bounds, self._keep_original_indices,
        )  # fmt: skip
        return self._dist(sorted_ids)  # type: ignore[no-any-return]


class RwPooledEmbeddingDist(BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]):
    """Adds up what all processes have of each bag.

    Args:
        pg: who takes part.
        embedding_dims: columns of each feature.
        qcomm_codecs_registry: codecs, by the name of a `CommOp`.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        embedding_dims: list[int],
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__()
        codecs = codecs_of(qcomm_codecs_registry, CommOp.POOLED_EMBEDDINGS_REDUCE_SCATTER)
        self._embedding_dims = embedding_dims
        self._dist = PooledEmbeddingsReduceScatter(pg, codecs)
        self._variable_dist = VariableBatchPooledEmbeddingsReduceScatter(pg, codecs)

    def forward(self, local_embs: Tensor, sharding_ctx: EmbeddingShardingContext | None = None) -> Awaitable[Tensor]:
        """Start to send (examples of all processes, columns)."""
        if sharding_ctx is None:
            return self._dist(local_embs)  # type: ignore[no-any-return]
        if sharding_ctx.variable_batch_per_feature:
            return self._variable_dist(  # type: ignore[no-any-return]
                local_embs, sharding_ctx.batch_size_per_rank_per_feature, self._embedding_dims
            )
        return self._dist(local_embs, input_splits=sharding_ctx.batch_size_per_rank)  # type: ignore[no-any-return]


class RwPooledEmbeddingSharding(BaseRwEmbeddingSharding):
    """Tables whose rows are on several processes, and pooled there in part."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[KeyedJaggedTensor]:
        """What sends ids."""
        return self._input_dist(is_sequence=False)

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[KeyedJaggedTensor, Tensor]:
        """What looks up."""
        return self._pooled_lookup(device, feature_processor)

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]:
        """What adds up."""
        return RwPooledEmbeddingDist(self._group(), self.embedding_dims(), self.qcomm_codecs_registry)


class RowsOnDevices(OneProcess, BaseRwEmbeddingSharding):
    """Quantized tables whose rows are on several devices of a process."""

    def _ids_to_devices(self, device: torch.device | None, *, is_sequence: bool) -> InferRwSparseFeaturesDist:
        bounds, regular = get_embedding_shard_metadata(self._grouped_embedding_configs_per_rank)
        features = len(self.feature_names())
        made = InferRwSparseFeaturesDist(
            world_size=self._world_size,
            num_features=features,
            feature_hash_sizes=self._rows(),
            device=device if device is not None else self._device,
            is_sequence=is_sequence,
            has_feature_processor=self._has_feature_processor(),
            need_pos=self._need_pos,
            embedding_shard_metadata=None if regular else bounds,
        )
        made._dist = one_to_all([features] * self._world_size, self._kinds(), device)
        return made


class InferRwPooledEmbeddingSharding(RowsOnDevices):
    """Quantized tables whose rows are on several devices of a process, and pooled there in part."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[Any]:
        """What gives devices their ids."""
        return self._ids_to_devices(device, is_sequence=False)

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[Any, Any]:
        """What looks up on all devices."""
        return self._pooled_lookups(device, fused_params)  # type: ignore[no-any-return]

    def create_output_dist(self, device: torch.device | None = None) -> BaseEmbeddingDist[Any, Any, Any]:
        """What adds up."""
        return InferRwPooledEmbeddingDist(self._home(device), self._world_size)
