"""Weights of MaxViT, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.weights._records import RECIPES, original

__all__ = ["MaxVit_T_Weights"]


class MaxVit_T_Weights(WeightsEnum):
    """Weights of `models.maxvit_t`."""

    IMAGENET1K_V1 = original(
        "maxvit_t-bc5ab103.pth",
        num_params=30_919_624,
        accuracy=(83.7, 96.722),
        preset={"crop_size": 224, "resize_size": 224, "interpolation": InterpolationMode.BICUBIC},
        gflops=5.558,
        mebibytes=118.769,
        min_size=(224, 224),
        recipe=RECIPES + "maxvit",
    )
    DEFAULT = IMAGENET1K_V1
