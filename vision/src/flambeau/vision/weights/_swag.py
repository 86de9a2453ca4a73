"""How records of weights are written that come from pictures with hashtags (SWAG)."""

from __future__ import annotations

from typing import Any

from flambeau.core.weights import Weights
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.weights._records import SWAG_LICENSE, UPSTREAM, imagenet

__all__ = ["end_to_end", "linear"]

_ORIGIN = (
    "Pretrained on 3.6 billion pictures with hashtags for labels (SWAG, Singh et al. 2022, arXiv:2201.08371), then "
)


def end_to_end(file: str, *, size: int = 384, **facts: Any) -> Weights:
    """A classifier of ImageNet-1K that was fine-tuned as a whole, on pictures of `size` x `size`."""
    return _swag(
        file,
        size,
        recipe="https://github.com/facebookresearch/SWAG",
        docs=_ORIGIN + "fine-tuned as a whole on larger pictures. Not for commercial use.",
        **facts,
    )


def linear(file: str, **facts: Any) -> Weights:
    """A classifier of ImageNet-1K of which only the last layer was trained on it."""
    return _swag(
        file,
        224,
        recipe=UPSTREAM + "pull/5793",
        docs=_ORIGIN + "only a linear classifier was trained on ImageNet-1K. Not for commercial use.",
        **facts,
    )


def _swag(file: str, size: int, **facts: Any) -> Weights:
    facts = {**SWAG_LICENSE, **facts}
    preset = {"crop_size": size, "resize_size": size, "interpolation": InterpolationMode.BICUBIC}
    return imagenet(file, preset=preset, **facts)
