"""Options of the operators."""

from __future__ import annotations

from flambeau.rec.fbgemm_gpu.config.feature_list import FeatureGate, FeatureGateName

__all__ = ["FeatureGate", "FeatureGateName"]
