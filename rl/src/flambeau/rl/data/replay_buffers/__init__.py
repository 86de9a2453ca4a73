"""Replay buffers and what they are made of: storages, writers, samplers."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "replay_buffers": (
            "PrioritizedReplayBuffer",
            "ReplayBuffer",
            "ReplayBufferEnsemble",
            "TensorDictPrioritizedReplayBuffer",
            "TensorDictReplayBuffer",
        ),
        "samplers": (
            "ConsumingSampler",
            "PrioritizedSampler",
            "PrioritizedSliceSampler",
            "PromptGroupSampler",
            "RandomSampler",
            "Sampler",
            "SamplerEnsemble",
            "SamplerWithoutReplacement",
            "SliceSampler",
            "SliceSamplerWithoutReplacement",
            "StalenessAwareSampler",
            "StreamingSliceSampler",
        ),
        "storages": (
            "CompressedListStorage",
            "LazyMemmapStorage",
            "LazyStackStorage",
            "LazyTensorStorage",
            "ListStorage",
            "Storage",
            "StorageEnsemble",
            "TensorStorage",
        ),
        "writers": (
            "ImmutableDatasetWriter",
            "RoundRobinWriter",
            "TensorDictMaxValueWriter",
            "TensorDictRoundRobinWriter",
            "Writer",
            "WriterEnsemble",
        ),
    },
)
