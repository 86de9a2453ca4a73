"""What the stages of a look-up of sequences share."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingContext
from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

__all__ = ["InferSequenceShardingContext", "SequenceShardingContext"]


@dataclass
class SequenceShardingContext(EmbeddingShardingContext):
    """What the stages of one batch share.

    Args:
        features_before_input_dist: features of the local batch, in the order in which they were sent.
        input_splits: ids sent to each process.
        output_splits: ids that came from each process.
        sparse_features_recat: the order in which they were sorted by feature.
        unbucketize_permute_tensor: (ids,): place of each id among those that were sent.
        lengths_after_input_dist: ids of each feature, process and example.
    """

    features_before_input_dist: KeyedJaggedTensor | None = None
    input_splits: list[int] = field(default_factory=list)
    output_splits: list[int] = field(default_factory=list)
    sparse_features_recat: Tensor | None = None
    unbucketize_permute_tensor: Tensor | None = None
    lengths_after_input_dist: Tensor | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        if self.features_before_input_dist is not None:
            self.features_before_input_dist.record_stream(stream)
        for tensor in (self.sparse_features_recat, self.unbucketize_permute_tensor, self.lengths_after_input_dist):
            if tensor is not None:
                tensor.record_stream(stream)


@dataclass
class InferSequenceShardingContext(Multistreamable):
    """The same where one process has several devices.

    Args:
        features: of each device.
        features_before_input_dist: of the batch.
        unbucketize_permute_tensor: (ids,): place of each id among those that were sent.
        bucket_mapping_tensor: (ids,): device of each id.
        bucketized_length: ids in each bag and bucket.
        embedding_names_per_rank: what the results of each device are called.
    """

    features: KJTList
    features_before_input_dist: KeyedJaggedTensor | None = None
    unbucketize_permute_tensor: Tensor | None = None
    bucket_mapping_tensor: Tensor | None = None
    bucketized_length: Tensor | None = None
    embedding_names_per_rank: list[list[str]] | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep their memory until `stream` is done with it."""
        self.features.record_stream(stream)
        if self.features_before_input_dist is not None:
            self.features_before_input_dist.record_stream(stream)
        for tensor in (self.unbucketize_permute_tensor, self.bucket_mapping_tensor, self.bucketized_length):
            if tensor is not None:
                tensor.record_stream(stream)
