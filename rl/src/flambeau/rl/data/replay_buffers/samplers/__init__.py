"""Samplers: which items of a storage make up a batch."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("Sampler",),
        "consuming": ("ConsumingSampler",),
        "ensemble": ("SamplerEnsemble",),
        "prioritized": ("PrioritizedSampler",),
        "prioritized_slice": ("PrioritizedSliceSampler",),
        "prompt_group": ("PromptGroupSampler",),
        "random": ("RandomSampler",),
        "slice": ("SliceSampler",),
        "slice_without_replacement": ("SliceSamplerWithoutReplacement",),
        "staleness_aware": ("StalenessAwareSampler",),
        "streaming_slice": ("StreamingSliceSampler",),
        "without_replacement": ("SamplerWithoutReplacement",),
        "flambeau.rl._torchrl": (
            "MinSegmentTreeFp32",
            "MinSegmentTreeFp64",
            "SumSegmentTreeFp32",
            "SumSegmentTreeFp64",
        ),
    },
)
