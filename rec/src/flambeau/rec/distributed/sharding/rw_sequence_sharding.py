"""Tables whose rows are on several processes, a row for each id."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.distributed.dist_data import SeqEmbeddingsAllToOne
from flambeau.rec.distributed.embedding_lookup import GroupedEmbeddingsUpdate
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    BaseSparseFeaturesWriteDist,
)
from flambeau.rec.distributed.embedding_types import (
    BaseEmbeddingLookup,
    BaseEmbeddingUpdate,
    BaseGroupedFeatureProcessor,
)
from flambeau.rec.distributed.sharding.rw_sharding import (
    BaseRwEmbeddingSharding,
    RowsOnDevices,
    RwSparseFeaturesWriteDist,
    get_embedding_shard_metadata,
)
from flambeau.rec.distributed.sharding.sequence_sharding import InferSequenceShardingContext, SequenceShardingContext
from flambeau.rec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingDist
from flambeau.rec.distributed.types import QuantizedCommCodecs
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "InferRwSequenceEmbeddingDist",
    "InferRwSequenceEmbeddingSharding",
    "RwSequenceEmbeddingDist",
    "RwSequenceEmbeddingSharding",
]


class RwSequenceEmbeddingDist(TwSequenceEmbeddingDist):
    """Sends rows back.

    Args:
        pg: who takes part.
        num_features: how many each process looks up.
        device: of this process.
        qcomm_codecs_registry: codecs, by the name of a `CommOp`.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        num_features: int,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(pg, [num_features] * dist.get_world_size(pg), device, qcomm_codecs_registry)


class RwSequenceEmbeddingSharding(BaseRwEmbeddingSharding):
    """Tables whose rows are on several processes, a row for each id."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[KeyedJaggedTensor]:
        """What sends ids."""
        return self._input_dist(is_sequence=True)

    def create_write_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesWriteDist[KeyedJaggedTensor]:
        """What sends rows to be written."""
        made = RwSparseFeaturesWriteDist(
            self._group(), len(self.feature_names()), self._rows(), device=self._device, is_sequence=True
        )
        bounds, regular = get_embedding_shard_metadata(self._grouped_embedding_configs_per_rank)
        if not regular:
            made.use_bounds(bounds)
        return made

    def create_lookup(
        self,
        device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None,
        feature_processor: BaseGroupedFeatureProcessor | None = None,
    ) -> BaseEmbeddingLookup[KeyedJaggedTensor, Tensor]:
        """What looks up."""
        return self._sequence_lookup(device)

    def create_update(self, grouped_embeddings_lookup: Any) -> BaseEmbeddingUpdate[KeyedJaggedTensor]:
        """What overwrites rows."""
        return GroupedEmbeddingsUpdate(grouped_embeddings_lookup)

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[SequenceShardingContext, Tensor, Tensor]:
        """What sends rows back."""
        return RwSequenceEmbeddingDist(
            self._group(),
            len(self.feature_names()),
            device if device is not None else self._device,
            self.qcomm_codecs_registry,
        )


# ----- one process with several devices -------------------------------------------------------------------------------


class InferRwSequenceEmbeddingDist(BaseEmbeddingDist[InferSequenceShardingContext, list[Tensor], list[Tensor]]):
    """Collects the rows of all devices on one.

    Args:
        device: which.
        world_size: devices.
        device_type_from_sharding_infos: kind of the devices, or of each.
    """

    def __init__(
        self,
        device: torch.device,
        world_size: int,
        device_type_from_sharding_infos: str | tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self._device_dist = SeqEmbeddingsAllToOne(device, world_size)

    def forward(
        self, local_embs: list[Tensor], sharding_ctx: InferSequenceShardingContext | None = None
    ) -> list[Tensor]:
        """(ids, columns) of each device, there; `unbucketize_permute_tensor` puts them into order."""
        return self._device_dist(local_embs)  # type: ignore[no-any-return]


class InferRwSequenceEmbeddingSharding(RowsOnDevices):
    """Quantized tables whose rows are on several devices of a process, a row for each id."""

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[Any]:
        """What gives devices their ids."""
        return self._ids_to_devices(device, is_sequence=True)

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
        return InferRwSequenceEmbeddingDist(self._home(device), self._world_size, self._device_type_from_sharding_infos)
