"""Transforms that keep count of episodes, begin and end them, or take several steps at once."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "batches": ("BatchSizeTransform", "BurnInTransform"),
        "counters": ("InitTracker", "StepCounter", "TrajCounter"),
        "ends": ("AutoResetTransform", "RandomTruncationTransform", "TerminateTransform"),
        "frames": ("FrameSkipTransform", "NoopResetEnv"),
        "primer": ("TensorDictPrimer", "gSDENoise"),
    },
)
