"""Ids for rows that are on several devices of a process, and sums of rows that come from there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.distributed.dist_data import EmbeddingsAllToOneReduce, KJTOneToAll
from flambeau.rec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    BaseSparseFeaturesDist,
    bucketize_kjt_inference,
)
from flambeau.rec.distributed.embedding_types import InputDistOutputs
from flambeau.rec.distributed.types import NullShardingContext
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["InferRwPooledEmbeddingDist", "InferRwSparseFeaturesDist"]


class InferRwSparseFeaturesDist(BaseSparseFeaturesDist[InputDistOutputs]):
    """Gives the devices of a process the ids of their rows.

    Args:
        world_size: devices.
        num_features: how many there are.
        feature_hash_sizes: rows of each one's table.
        feature_total_num_buckets: buckets of each one's table, where rows are spread by buckets.
        device: of the module; features are sent to devices of its kind, CUDA by default.
        is_sequence: whether the place of each id is needed to put rows into order again.
        has_feature_processor: whether weights become the place of each id in its bag.
        need_pos: likewise.
        embedding_shard_metadata: of each feature, (devices + 1,): the first row of each device and the number of rows,
            where devices have blocks of different sizes.
        keep_original_indices: whether ids do not count from the device's first row.
    """

    def __init__(
        self,
        world_size: int,
        num_features: int,
        feature_hash_sizes: list[int],
        feature_total_num_buckets: list[int] | None = None,
        device: torch.device | None = None,
        is_sequence: bool = False,
        has_feature_processor: bool = False,
        need_pos: bool = False,
        embedding_shard_metadata: list[list[int]] | None = None,
        keep_original_indices: bool = False,
    ) -> None:
        super().__init__()
        self._world_size, self._num_features, self.is_sequence = world_size, num_features, is_sequence
        self._bucketize_pos = has_feature_processor or need_pos
        self._keep_original_indices = keep_original_indices
        blocks = [-(-rows // world_size) for rows in feature_hash_sizes]
        home = torch.device("cpu") if device is None or device.type == "meta" else device
        self.register_buffer("feature_block_sizes", torch.tensor(blocks, device=home), persistent=False)
        buckets = None if feature_total_num_buckets is None else torch.tensor(feature_total_num_buckets, device=home)
        self.register_buffer("feature_total_num_buckets", buckets, persistent=False)
        self._row_pos = (
            None
            if embedding_shard_metadata is None
            else [torch.tensor(bounds, device=home) for bounds in embedding_shard_metadata]
        )
        self._dist: nn.Module = KJTOneToAll([num_features] * world_size, world_size, device)

    def get_block_bucketize_row_pos(self) -> list[Tensor] | None:
        """Of each feature, the first row of each device; None for blocks of one size."""
        return self._row_pos

    def move_buffer(self, sparse_features: KeyedJaggedTensor) -> None:
        """Have the sizes of blocks be where features are, and of their ids' integers."""
        where: dict[str, Any] = {"device": sparse_features.device(), "dtype": sparse_features.values().dtype}
        for name in ("feature_block_sizes", "feature_total_num_buckets"):
            held = getattr(self, name)
            if held is not None:
                setattr(self, name, held.to(**where))
        if self._row_pos is not None:
            self._row_pos = [bounds.to(**where) for bounds in self._row_pos]

    def forward(self, sparse_features: KeyedJaggedTensor) -> InputDistOutputs:
        """Ids of each device, there; of sequences also where each id went."""
        sizes, total, bounds = self._moved(sparse_features)
        weights = sparse_features.weights_or_none()
        sorted_ids, places, buckets = bucketize_kjt_inference(
            sparse_features,
            self._world_size,
            sizes,
            total,
            self._bucketize_pos and weights is None,
            bounds,
            self.is_sequence,
            self._keep_original_indices,
        )
        return InputDistOutputs(
            features=self._dist(sorted_ids),
            unbucketize_permute_tensor=places,
            bucket_mapping_tensor=buckets,
            bucketized_length=sorted_ids.lengths().view(self._world_size * self._num_features, -1)
            if self.is_sequence
            else None,
        )

    def _moved(self, features: KeyedJaggedTensor) -> tuple[Tensor, Tensor | None, list[Tensor] | None]:
        """What `move_buffer` leaves; a look-up itself changes nothing, so that threads may share the module."""
        where: dict[str, Any] = {"device": features.device(), "dtype": features.values().dtype}
        sizes: Tensor = self.feature_block_sizes  # type: ignore[assignment]
        total: Tensor | None = self.feature_total_num_buckets  # type: ignore[assignment]
        bounds = None if self._row_pos is None else [one.to(**where) for one in self._row_pos]
        return sizes.to(**where), None if total is None else total.to(**where), bounds


class InferRwPooledEmbeddingDist(BaseEmbeddingDist[NullShardingContext, list[Tensor], Tensor]):
    """Adds up on one device what all devices have of each bag.

    Args:
        device: which.
        world_size: devices.
    """

    def __init__(self, device: torch.device, world_size: int) -> None:
        super().__init__()
        self._dist = EmbeddingsAllToOneReduce(device, world_size)

    def forward(self, local_embs: list[Tensor], sharding_ctx: NullShardingContext | None = None) -> Tensor:
        """(examples, columns), of each device's (examples, columns)."""
        return self._dist(local_embs)  # type: ignore[no-any-return]
