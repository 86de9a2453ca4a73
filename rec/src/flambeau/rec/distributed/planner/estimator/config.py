"""Hardware that is estimated from the bandwidths of its topology alone."""

from __future__ import annotations

from flambeau.rec.distributed.planner.constants import (
    BWD_COMPUTE_MULTIPLIER,
    DEFAULT_PERF_ESTIMATOR,
    WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
    WEIGHTED_KERNEL_MULTIPLIER,
)
from flambeau.rec.distributed.planner.estimator.types import HardwarePerfConfig

__all__ = [
    "BWD_COMPUTE_MULTIPLIER",
    "DEFAULT_PERF_ESTIMATOR",
    "WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER",
    "WEIGHTED_KERNEL_MULTIPLIER",
    "EmbeddingPerfEstimatorConfig",
]


class EmbeddingPerfEstimatorConfig(HardwarePerfConfig):
    """All factors are 1."""
