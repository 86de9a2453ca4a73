"""Weights of the ConvNeXt family, trained on ImageNet-1K."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import RECIPES, refreshed

__all__ = ["ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights", "ConvNeXt_Small_Weights", "ConvNeXt_Tiny_Weights"]

_convnext = partial(refreshed, min_size=(32, 32), recipe=RECIPES + "convnext")


class ConvNeXt_Tiny_Weights(WeightsEnum):
    """Weights of `models.convnext_tiny`."""

    IMAGENET1K_V1 = _convnext(
        "convnext_tiny-983f1562.pth",
        num_params=28_589_128,
        accuracy=(82.52, 96.146),
        gflops=4.456,
        mebibytes=109.119,
        preset={"crop_size": 224, "resize_size": 236},
    )
    DEFAULT = IMAGENET1K_V1


class ConvNeXt_Small_Weights(WeightsEnum):
    """Weights of `models.convnext_small`."""

    IMAGENET1K_V1 = _convnext(
        "convnext_small-0c510722.pth",
        num_params=50_223_688,
        accuracy=(83.616, 96.65),
        gflops=8.684,
        mebibytes=191.703,
        preset={"crop_size": 224, "resize_size": 230},
    )
    DEFAULT = IMAGENET1K_V1


class ConvNeXt_Base_Weights(WeightsEnum):
    """Weights of `models.convnext_base`."""

    IMAGENET1K_V1 = _convnext(
        "convnext_base-6075fbad.pth",
        num_params=88_591_464,
        accuracy=(84.062, 96.87),
        gflops=15.355,
        mebibytes=338.064,
    )
    DEFAULT = IMAGENET1K_V1


class ConvNeXt_Large_Weights(WeightsEnum):
    """Weights of `models.convnext_large`."""

    IMAGENET1K_V1 = _convnext(
        "convnext_large-ea097f82.pth",
        num_params=197_767_336,
        accuracy=(84.414, 96.976),
        gflops=34.361,
        mebibytes=754.537,
    )
    DEFAULT = IMAGENET1K_V1
