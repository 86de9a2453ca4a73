"""Transforms of rewards."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "combined": ("LineariseRewards", "SuccessReward"),
        "pointwise": ("BinarizeReward", "RewardClipping", "SignTransform"),
        "sums": ("Reward2GoTransform", "RewardSum", "TargetReturn"),
    },
)
