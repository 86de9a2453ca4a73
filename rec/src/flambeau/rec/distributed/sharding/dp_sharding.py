"""Tables that every process has all of, their rows pooled."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_lookup import GroupedPooledEmbeddingsLookup
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    EmbeddingSharding,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
    group_tables,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseGroupedFeatureProcessor,
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.types import Awaitable, NoWait, ShardingEnv
from flambeau.rec.modules.embedding_configs import EmbeddingTableConfig
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["BaseDpEmbeddingSharding", "DpPooledEmbeddingDist", "DpPooledEmbeddingSharding", "DpSparseFeaturesDist"]


class BaseDpEmbeddingSharding(EmbeddingSharding[Any, KeyedJaggedTensor, Tensor, Tensor]):
    """Tables that every process has all of.

    Args:
        sharding_infos: the tables.
        env: the processes.
        device: of this one.
    """

    sums_partial_bags = False

    def __init__(
        self, sharding_infos: list[EmbeddingShardingInfo], env: ShardingEnv, device: torch.device | None = None
    ) -> None:
        super().__init__()
        self._env, self._device = env, device
        self._rank, self._world_size = env.rank, env.world_size
        self._grouped_embedding_configs: list[GroupedEmbeddingConfig] = group_tables(
            [[self._whole(info) for info in sharding_infos]]
        )[0]

    def _whole(self, info: EmbeddingShardingInfo) -> ShardedEmbeddingTable:
        config = info.embedding_config
        return ShardedEmbeddingTable(
            **{one.name: getattr(config, one.name) for one in fields(EmbeddingTableConfig)},
            local_rows=config.num_embeddings,
            local_cols=config.embedding_dim,
            compute_kernel=EmbeddingComputeKernel(info.param_sharding.compute_kernel),
            fused_params=info.fused_params,
        )

    def embedding_dims(self) -> list[int]:
        """Of each of `embedding_names`, its columns."""
        return [width for config in self._grouped_embedding_configs for width in config.embedding_dims()]

    def embedding_names(self) -> list[str]:
        """What results are called, in the order in which they come."""
        return [name for config in self._grouped_embedding_configs for name in config.embedding_names()]

    def embedding_names_per_rank(self) -> list[list[str]]:
        """Not by process.

        Raises:
            NotImplementedError: always; every process has all.
        """
        raise NotImplementedError("every process has all tables; ask for embedding_names.")

    def embedding_shard_metadata(self) -> list[Any]:
        """Of each feature None: there are no parts."""
        return [place for config in self._grouped_embedding_configs for place in config.embedding_shard_metadata()]

    def embedding_tables(self) -> list[ShardedEmbeddingTable]:
        """All tables."""
        return [table for config in self._grouped_embedding_configs for table in config.embedding_tables]

    def feature_names(self) -> list[str]:
        """All features, in the order in which they are looked up."""
        return [name for config in self._grouped_embedding_configs for name in config.feature_names()]


class DpSparseFeaturesDist(BaseSparseFeaturesDist[KeyedJaggedTensor]):
    """Leaves features where they are."""

    def forward(self, sparse_features: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """The features."""
        return NoWait(NoWait(sparse_features))


class DpPooledEmbeddingDist(BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]):
    """Leaves pooled rows where they are."""

    def forward(self, local_embs: Tensor, sharding_ctx: EmbeddingShardingContext | None = None) -> Awaitable[Tensor]:
        """The pooled rows."""
        return NoWait(local_embs)


class DpPooledEmbeddingSharding(BaseDpEmbeddingSharding):
    """Tables that every process has all of, their rows pooled."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[KeyedJaggedTensor]:
        """What leaves features where they are."""
        return DpSparseFeaturesDist()

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[KeyedJaggedTensor, Tensor]:
        """What looks up."""
        return GroupedPooledEmbeddingsLookup(
            grouped_configs=self._grouped_embedding_configs,
            device=device if device is not None else self._device,
            feature_processor=feature_processor,
            scale_weight_gradients=False,
        )

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, Tensor, Tensor]:
        """What leaves pooled rows where they are."""
        return DpPooledEmbeddingDist()
