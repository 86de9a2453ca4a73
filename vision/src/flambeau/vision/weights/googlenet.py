"""Weights of GoogLeNet, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import RECIPES, original

__all__ = ["GoogLeNet_Weights"]


class GoogLeNet_Weights(WeightsEnum):
    """Weights of `models.googlenet`."""

    IMAGENET1K_V1 = original(
        "googlenet-1378be20.pth",
        num_params=6_624_904,
        accuracy=(69.778, 89.53),
        gflops=1.498,
        mebibytes=49.731,
        min_size=(15, 15),
        recipe=RECIPES + "googlenet",
        docs=(
            "Converted from a TensorFlow checkpoint, in which batch normalization replaces the normalization of the "
            "paper."
        ),
    )
    DEFAULT = IMAGENET1K_V1
