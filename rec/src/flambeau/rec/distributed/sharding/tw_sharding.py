"""Tables on one process each, their rows pooled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.dist_data import (
    EmbeddingsAllToOne,
    KJTAllToAll,
    PooledEmbeddingsAllToAll,
    VariableBatchPooledEmbeddingsAllToAll,
)
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.sharding._one_process import InferTwSparseFeaturesDist, OneProcess
from flambeau.rec.distributed.sharding._spread import Spread, codecs_of
from flambeau.rec.distributed.types import (
    Awaitable,
    CommOp,
    NullShardingContext,
    QuantizedCommCodecs,
    ShardingEnv,
    ShardingType,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "BaseTwEmbeddingSharding",
    "InferTwEmbeddingSharding",
    "InferTwPooledEmbeddingDist",
    "InferTwSparseFeaturesDist",
    "TwPooledEmbeddingDist",
    "TwPooledEmbeddingSharding",
    "TwSparseFeaturesDist",
]


class BaseTwEmbeddingSharding(Spread):
    """Tables on one process each.

    Args:
        sharding_infos: the tables, and where they go.
        env: the processes.
        device: of this one.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
        storage_device_type_from_sharding_infos: where tables are, if that is another kind of device.
    """

    sharding_type = ShardingType.TABLE_WISE

    def __init__(
        self,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
        storage_device_type_from_sharding_infos: str | None = None,
    ) -> None:
        super().__init__(sharding_infos, env, device, qcomm_codecs_registry)
        self._storage_device_type_from_sharding_infos = storage_device_type_from_sharding_infos

    def _shard(self, sharding_infos: list[EmbeddingShardingInfo]) -> list[list[ShardedEmbeddingTable]]:
        return self._parts_by_placement(sharding_infos)


class TwSparseFeaturesDist(BaseSparseFeaturesDist[KeyedJaggedTensor]):
    """Sends features to the processes of their tables.

    Args:
        pg: who takes part.
        features_per_rank: features of each process.
    """

    def __init__(self, pg: dist.ProcessGroup, features_per_rank: list[int]) -> None:
        super().__init__()
        self._dist = KJTAllToAll(pg=pg, splits=features_per_rank)

    def forward(self, sparse_features: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Start to send features, those of the first process first."""
        return self._dist(sparse_features)  # type: ignore[no-any-return]


class TwPooledEmbeddingDist(BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]):
    """Sends pooled rows back.

    Args:
        pg: who takes part.
        dim_sum_per_rank: columns of each process.
        emb_dim_per_rank_per_feature: columns of each feature of each process.
        device: of this process.
        callbacks: what is done to the result.
        qcomm_codecs_registry: codecs, by the name of a `CommOp`.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        dim_sum_per_rank: list[int],
        emb_dim_per_rank_per_feature: list[list[int]],
        device: torch.device | None = None,
        callbacks: list[Callable[[Tensor], Tensor]] | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__()
        codecs = codecs_of(qcomm_codecs_registry, CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL)
        self._dist = PooledEmbeddingsAllToAll(pg, dim_sum_per_rank, device, callbacks, codecs)
        # Callbacks put columns of a matrix into order, which flat results are put into elsewhere.
        self._variable_dist = VariableBatchPooledEmbeddingsAllToAll(
            pg, emb_dim_per_rank_per_feature, device, None, codecs
        )

    def forward(self, local_embs: Tensor, sharding_ctx: EmbeddingShardingContext | None = None) -> Awaitable[Tensor]:
        """Start to send (examples of all processes, columns of this one)."""
        if sharding_ctx is None:
            return self._dist(local_embs)  # type: ignore[no-any-return]
        if sharding_ctx.variable_batch_per_feature:
            return self._variable_dist(  # type: ignore[no-any-return]
                local_embs,
                sharding_ctx.batch_size_per_rank_per_feature
                or [[] for _ in range(dist.get_world_size(self._dist._pg))],
                sharding_ctx.batch_size_per_feature_pre_a2a,
            )
        return self._dist(local_embs, sharding_ctx.batch_size_per_rank)  # type: ignore[no-any-return]


class TwPooledEmbeddingSharding(BaseTwEmbeddingSharding):
    """Tables on one process each, their rows pooled."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[KeyedJaggedTensor]:
        """What sends features."""
        return TwSparseFeaturesDist(self._group(), self.features_per_rank())

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
        """What sends pooled rows back."""
        dims = self._dims_per_rank()
        return TwPooledEmbeddingDist(
            self._group(),
            [sum(of_rank) for of_rank in dims],
            dims,
            device if device is not None else self._device,
            self._callbacks(),
            self.qcomm_codecs_registry,
        )

    def _callbacks(self) -> list[Callable[[Tensor], Tensor]] | None:
        return None


# ----- one process with several devices -------------------------------------------------------------------------------


class InferTwPooledEmbeddingDist(BaseEmbeddingDist[NullShardingContext, list[Tensor], Tensor]):
    """Joins the pooled rows of all devices on one.

    Args:
        device: which.
        world_size: devices with tables.
    """

    def __init__(self, device: torch.device, world_size: int) -> None:
        super().__init__()
        self._dist = EmbeddingsAllToOne(device, world_size, 1)

    def forward(self, local_embs: list[Tensor], sharding_ctx: NullShardingContext | None = None) -> Tensor:
        """(examples, columns of all devices), of each device's (examples, columns)."""
        return self._dist(local_embs)  # type: ignore[no-any-return]


class InferTwEmbeddingSharding(OneProcess, BaseTwEmbeddingSharding):
    """Quantized tables on one device each, their rows pooled."""

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[Any, Any]:
        """What looks up on all devices."""
        return self._pooled_lookups(device, fused_params)  # type: ignore[no-any-return]

    def create_output_dist(self, device: torch.device | None = None) -> BaseEmbeddingDist[Any, Any, Any]:
        """What joins results."""
        return InferTwPooledEmbeddingDist(self._home(device), self._ranks_with_tables())
