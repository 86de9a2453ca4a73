"""Predictors: what `flambeau predict` does with a picture."""

from __future__ import annotations

from flambeau.vision._predict.classes import classify_image
from flambeau.vision._predict.objects import detect_objects
from flambeau.vision._predict.segments import segment_image

__all__ = ["classify_image", "detect_objects", "segment_image"]
