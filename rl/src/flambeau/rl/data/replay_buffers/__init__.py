"""Replay buffers and what they are made of: storages, writers, samplers."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "replay_buffers": (
            "PrioritizedReplayBuffer",
            "ReplayBuffer",
            "TensorDictPrioritizedReplayBuffer",
            "TensorDictReplayBuffer",
        ),
        "samplers": (
            "PrioritizedSampler",
            "RandomSampler",
            "Sampler",
            "SamplerWithoutReplacement",
            "SliceSampler",
        ),
        "storages": (
            "LazyMemmapStorage",
            "LazyStackStorage",
            "LazyTensorStorage",
            "ListStorage",
            "Storage",
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
