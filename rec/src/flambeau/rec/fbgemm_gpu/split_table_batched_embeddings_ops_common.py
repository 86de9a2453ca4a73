"""What training and inference of table-batched embeddings share, under the names of older programs."""

from __future__ import annotations

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    EmbeddingSpecInfo,
    PoolingMode,
    RecordCacheMetrics,
    SplitState,
    get_new_embedding_location,
    round_up,
    tensor_to_device,
)

__all__ = [
    "BoundsCheckMode",
    "ComputeDevice",
    "EmbeddingLocation",
    "EmbeddingSpecInfo",
    "PoolingMode",
    "RecordCacheMetrics",
    "SplitState",
    "get_new_embedding_location",
    "round_up",
    "tensor_to_device",
]
