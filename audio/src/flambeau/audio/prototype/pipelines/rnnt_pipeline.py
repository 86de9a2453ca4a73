"""Bundles of streaming transducers trained on talks."""

from __future__ import annotations

from flambeau.audio.pipelines.rnnt_pipeline import RNNTBundle
from flambeau.audio.weights.rnnt import Emformer_RNNT_Base_Weights

__all__ = ["EMFORMER_RNNT_BASE_MUSTC", "EMFORMER_RNNT_BASE_TEDLIUM3"]

EMFORMER_RNNT_BASE_MUSTC = RNNTBundle._of(Emformer_RNNT_Base_Weights.EMFORMER_RNNT_BASE_MUSTC)
EMFORMER_RNNT_BASE_TEDLIUM3 = RNNTBundle._of(Emformer_RNNT_Base_Weights.EMFORMER_RNNT_BASE_TEDLIUM3)
