"""Tables on one process each, a row for each id."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.dist_data import SeqEmbeddingsAllToOne, SequenceEmbeddingsAllToAll
from flambeau.rec.distributed.embedding_sharding import BaseEmbeddingDist, BaseSparseFeaturesDist
from flambeau.rec.distributed.embedding_types import BaseEmbeddingLookup, BaseGroupedFeatureProcessor
from flambeau.rec.distributed.sharding._one_process import OneProcess
from flambeau.rec.distributed.sharding._spread import codecs_of
from flambeau.rec.distributed.sharding.sequence_sharding import InferSequenceShardingContext, SequenceShardingContext
from flambeau.rec.distributed.sharding.tw_sharding import (
    BaseTwEmbeddingSharding,
    TwSparseFeaturesDist,
)
from flambeau.rec.distributed.types import Awaitable, CommOp, QuantizedCommCodecs
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "InferTwSequenceEmbeddingDist",
    "InferTwSequenceEmbeddingSharding",
    "TwSequenceEmbeddingDist",
    "TwSequenceEmbeddingSharding",
]


class TwSequenceEmbeddingDist(BaseEmbeddingDist[SequenceShardingContext, Tensor, Tensor]):
    """Sends rows back.

    Args:
        pg: who takes part.
        features_per_rank: features that each process looks up.
        device: of this process.
        qcomm_codecs_registry: codecs, by the name of a `CommOp`.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        features_per_rank: list[int],
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__()
        codecs = codecs_of(qcomm_codecs_registry, CommOp.SEQUENCE_EMBEDDINGS_ALL_TO_ALL)
        self._dist = SequenceEmbeddingsAllToAll(pg, features_per_rank, device, codecs)

    def forward(self, local_embs: Tensor, sharding_ctx: SequenceShardingContext | None = None) -> Awaitable[Tensor]:
        """Start to send (ids that all processes sent here, columns), feature by feature."""
        if sharding_ctx is None or sharding_ctx.lengths_after_input_dist is None:
            raise OptionError("sharding_ctx is not given; rows go back by what it says of the ids that were sent.")
        return self._dist(  # type: ignore[no-any-return]
            local_embs,
            lengths=sharding_ctx.lengths_after_input_dist,
            # What came in for a process is what goes out to it.
            input_splits=sharding_ctx.output_splits,
            output_splits=sharding_ctx.input_splits,
            unbucketize_permute_tensor=sharding_ctx.unbucketize_permute_tensor,
            batch_size_per_rank=sharding_ctx.batch_size_per_rank,
            batch_size_per_rank_per_feature=sharding_ctx.batch_size_per_rank_per_feature,
            sparse_features_recat=sharding_ctx.sparse_features_recat,
        )


class TwSequenceEmbeddingSharding(BaseTwEmbeddingSharding):
    """Tables on one process each, a row for each id."""

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
        return self._sequence_lookup(device)

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[SequenceShardingContext, Tensor, Tensor]:
        """What sends rows back."""
        return TwSequenceEmbeddingDist(
            self._group(),
            self.features_per_rank(),
            device if device is not None else self._device,
            self.qcomm_codecs_registry,
        )


# ----- one process with several devices -------------------------------------------------------------------------------


class InferTwSequenceEmbeddingDist(BaseEmbeddingDist[InferSequenceShardingContext, list[Tensor], list[Tensor]]):
    """Collects the rows of all devices on one.

    Args:
        device: which.
        world_size: devices.
        storage_device_type_from_sharding_infos: kind of the devices that tables are on.
        embedding_names_per_rank: what the results of each device are called.
    """

    def __init__(
        self,
        device: torch.device,
        world_size: int,
        storage_device_type_from_sharding_infos: str | None = None,
        embedding_names_per_rank: list[list[str]] | None = None,
    ) -> None:
        super().__init__()
        self._dist = SeqEmbeddingsAllToOne(device, world_size)
        self._embedding_names_per_rank = embedding_names_per_rank

    def forward(
        self, local_embs: list[Tensor], sharding_ctx: InferSequenceShardingContext | None = None
    ) -> list[Tensor]:
        """(ids, columns) of each device, there."""
        if sharding_ctx is not None and sharding_ctx.embedding_names_per_rank is None:
            sharding_ctx.embedding_names_per_rank = self._embedding_names_per_rank
        return self._dist(local_embs)  # type: ignore[no-any-return]


class InferTwSequenceEmbeddingSharding(OneProcess, BaseTwEmbeddingSharding):
    """Quantized tables on one device each, a row for each id."""

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
        return InferTwSequenceEmbeddingDist(
            self._home(device),
            self._world_size,
            self._storage_device_type_from_sharding_infos,
            self.embedding_names_per_rank(),
        )
