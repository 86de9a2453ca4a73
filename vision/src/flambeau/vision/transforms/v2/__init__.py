"""Transforms of images together with everything that belongs to them."""

from __future__ import annotations

from flambeau.vision.transforms.v2 import functional as functional
from flambeau.vision.transforms.v2.functional import InterpolationMode as InterpolationMode

__all__ = ["InterpolationMode", "functional"]
