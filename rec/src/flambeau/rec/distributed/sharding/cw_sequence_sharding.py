"""Tables whose columns are on several processes, a row for each id."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.distributed.dist_data import SeqEmbeddingsAllToOne
from flambeau.rec.distributed.embedding_sharding import BaseEmbeddingDist
from flambeau.rec.distributed.embedding_types import BaseEmbeddingLookup, BaseGroupedFeatureProcessor
from flambeau.rec.distributed.sharding._one_process import OneProcess
from flambeau.rec.distributed.sharding.cw_sharding import BaseCwEmbeddingSharding
from flambeau.rec.distributed.sharding.sequence_sharding import InferSequenceShardingContext
from flambeau.rec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingSharding

__all__ = ["CwSequenceEmbeddingSharding", "InferCwSequenceEmbeddingDist", "InferCwSequenceEmbeddingSharding"]


class CwSequenceEmbeddingSharding(BaseCwEmbeddingSharding, TwSequenceEmbeddingSharding):
    """Tables whose columns are on several processes, a row for each id; columns are joined where results are named."""


class InferCwSequenceEmbeddingDist(BaseEmbeddingDist[InferSequenceShardingContext, list[Tensor], list[Tensor]]):
    """Collects the rows of all devices of a process on one.

    Args:
        device: which.
        world_size: devices.
    """

    def __init__(self, device: torch.device, world_size: int) -> None:
        super().__init__()
        self._dist = SeqEmbeddingsAllToOne(device, world_size)

    def forward(
        self, local_embs: list[Tensor], sharding_ctx: InferSequenceShardingContext | None = None
    ) -> list[Tensor]:
        """(ids, columns) of each device, there."""
        return self._dist(local_embs)  # type: ignore[no-any-return]


class InferCwSequenceEmbeddingSharding(OneProcess, BaseCwEmbeddingSharding):
    """Quantized tables whose columns are on several devices of a process, a row for each id."""

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[Any, Any]:
        """What looks up on all devices."""
        return self._sequence_lookups(device, fused_params)  # type: ignore[no-any-return]

    def create_output_dist(self, device: torch.device | None = None) -> BaseEmbeddingDist[Any, Any, Any]:
        """What collects rows."""
        return InferCwSequenceEmbeddingDist(self._home(device), self._world_size)
