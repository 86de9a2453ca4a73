"""Tables that every process has all of, a row for each id."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_lookup import GroupedEmbeddingsLookup
from flambeau.rec.distributed.embedding_sharding import BaseEmbeddingDist, BaseSparseFeaturesDist
from flambeau.rec.distributed.embedding_types import BaseEmbeddingLookup, BaseGroupedFeatureProcessor
from flambeau.rec.distributed.sharding.dp_sharding import BaseDpEmbeddingSharding, DpSparseFeaturesDist
from flambeau.rec.distributed.sharding.sequence_sharding import SequenceShardingContext
from flambeau.rec.distributed.types import Awaitable, NoWait
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["DpSequenceEmbeddingDist", "DpSequenceEmbeddingSharding"]


class DpSequenceEmbeddingDist(BaseEmbeddingDist[SequenceShardingContext, Tensor, Tensor]):
    """Leaves rows where they are."""

    def forward(self, local_embs: Tensor, sharding_ctx: SequenceShardingContext | None = None) -> Awaitable[Tensor]:
        """The rows."""
        return NoWait(local_embs)


class DpSequenceEmbeddingSharding(BaseDpEmbeddingSharding):
    """Tables that every process has all of, a row for each id."""

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
        return GroupedEmbeddingsLookup(
            grouped_configs=self._grouped_embedding_configs,
            device=device if device is not None else self._device,
            env=self._env,
        )

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[SequenceShardingContext, Tensor, Tensor]:
        """What leaves rows where they are."""
        return DpSequenceEmbeddingDist()
