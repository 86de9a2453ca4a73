"""Transforms that bring observations and rewards to a common scale."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "observation_norm": ("ObservationNorm",),
        "reward_scaling": ("RewardScaling",),
        "vecnorm_sums": ("VecNorm",),
    },
)
