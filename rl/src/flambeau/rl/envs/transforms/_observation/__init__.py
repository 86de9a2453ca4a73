"""Transforms of observations: images, shapes, frames of several steps."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cat_frames": ("CatFrames",),
        "checks": ("FiniteTensorDictCheck", "PinMemoryTransform"),
        "images": ("CenterCrop", "Crop", "GrayScale", "Resize", "ToTensorImage"),
        "next_observation_delta": ("NextObservationDelta",),
        "shapes": ("FlattenObservation", "PermuteTransform", "SqueezeTransform", "UnsqueezeTransform"),
        "time_max_pool": ("TimeMaxPool",),
    },
)
