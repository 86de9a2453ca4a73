"""Predictors: what `flambeau predict` does with pictures and videos."""

from __future__ import annotations

from flambeau.vision._predict.actions import classify_video
from flambeau.vision._predict.classes import classify_image
from flambeau.vision._predict.flow import estimate_flow
from flambeau.vision._predict.objects import detect_objects
from flambeau.vision._predict.segments import segment_image

__all__ = ["classify_image", "classify_video", "detect_objects", "estimate_flow", "segment_image"]
