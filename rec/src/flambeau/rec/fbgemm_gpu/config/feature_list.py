"""Upstream's switches between kernels, which programs ask for; here each purpose has one kernel, and all are off."""

from __future__ import annotations

import os
from enum import Enum

__all__ = ["FeatureGate", "FeatureGateName"]


class FeatureGateName(Enum):
    """Switches; `FBGEMM_<name>=1` in the environment turns one on, which then only answers so."""

    TBE_V2 = 1
    TBE_ENSEMBLE_ROWWISE_ADAGRAD = 2
    TBE_ROCM_INFERENCE_PACKED_BAGS = 3
    TBE_ROCM_HIP_BACKWARD_KERNEL = 4
    BOUNDS_CHECK_INDICES_V2 = 5
    TBE_REPORT_INPUT_PARAMS = 6
    TBE_USE_TUNED_SEGMENT_LENGTHS_CTA_B200 = 7
    BUCKETIZED_PERMUTE_WARP_KERNEL = 8
    DISABLE_OFFSETS_ADJUSTMENT = 9

    def is_enabled(self) -> bool:
        """Whether the environment turns it on."""
        return FeatureGate.is_enabled(self)


class FeatureGate:
    """Answers about switches."""

    @classmethod
    def is_enabled(cls, feature: FeatureGateName) -> bool:
        """Whether the environment turns a switch on."""
        return os.environ.get(f"FBGEMM_{feature.name}") == "1"
