"""What a pipeline knows of a batch on its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from flambeau.rec.distributed.types import Awaitable
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "CPUEmbeddingTrainPipelineContext",
    "EmbeddingTrainPipelineContext",
    "PrefetchTrainPipelineContext",
    "TrainPipelineContext",
]


@dataclass
class TrainPipelineContext:
    """A batch on its way.

    Args:
        input_dist_splits_requests: of each module, how much there will be.
        input_dist_tensors_requests: of each module, its features.
        module_contexts: of each module, what its stages share.
        module_contexts_next_batch: the same of the next batch, for pipelines that use one context for both.
        fused_splits_awaitables: modules whose sizes are sent together, and they.
        events: to wait for before the batch is computed.
        postproc_fwd_results: what modules before the tables made of the batch.
        index: its number.
        version: of the context; those of version 0 are used for two batches.
    """

    input_dist_splits_requests: dict[str, Awaitable[Any]] = field(default_factory=dict)
    input_dist_tensors_requests: dict[str, Awaitable[Any]] = field(default_factory=dict)
    module_contexts: dict[str, Multistreamable] = field(default_factory=dict)
    module_contexts_next_batch: dict[str, Multistreamable] = field(default_factory=dict)
    fused_splits_awaitables: list[tuple[list[str], Any]] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    postproc_fwd_results: dict[str, Any] = field(default_factory=dict)
    index: int | None = None
    version: int = 0


@dataclass
class PrefetchTrainPipelineContext(TrainPipelineContext):
    """The same where rows are fetched before a batch is computed.

    Args:
        module_input_post_prefetch: of each module, the features whose rows are there.
        module_contexts_post_prefetch: of each module, what its stages share.
        module_input_post_prefetch_next_batch: the same of the next batch.
        module_contexts_post_prefetch_next_batch: likewise.
    """

    module_input_post_prefetch: dict[str, Any] = field(default_factory=dict)
    module_contexts_post_prefetch: dict[str, Multistreamable] = field(default_factory=dict)
    module_input_post_prefetch_next_batch: dict[str, Any] = field(default_factory=dict)
    module_contexts_post_prefetch_next_batch: dict[str, Multistreamable] = field(default_factory=dict)


@dataclass
class EmbeddingTrainPipelineContext(TrainPipelineContext):
    """The same where tables are looked up before the rest of the model is computed.

    Args:
        embedding_a2a_requests: of each module, its results, under way.
        embedding_tensors: of each module that was called, its results' tensors.
        embedding_features: of each, the names of what they are.
        detached_embedding_tensors: of each, the tensors that the model was given in their place; gradients end there.
    """

    embedding_a2a_requests: dict[str, Any] = field(default_factory=dict)
    embedding_tensors: list[list[torch.Tensor]] = field(default_factory=list)
    embedding_features: list[list[str | list[str]]] = field(default_factory=list)
    detached_embedding_tensors: list[list[torch.Tensor]] = field(default_factory=list)


@dataclass
class CPUEmbeddingTrainPipelineContext(EmbeddingTrainPipelineContext):
    """The same where tables are on the host, and the rest of the model on an accelerator.

    Args:
        dense_gpu_device: the accelerator.
        gpu_embedding_outputs: of each module, its results there.
    """

    dense_gpu_device: str = field(default_factory=str)
    gpu_embedding_outputs: dict[str, Any] = field(default_factory=dict)
