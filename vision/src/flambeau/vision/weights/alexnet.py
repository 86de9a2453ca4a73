"""Weights of AlexNet, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import RECIPES, original

__all__ = ["AlexNet_Weights"]


class AlexNet_Weights(WeightsEnum):
    """Weights of `models.alexnet`."""

    IMAGENET1K_V1 = original(
        "alexnet-owt-7be5be79.pth",
        num_params=61_100_840,
        accuracy=(56.522, 79.066),
        gflops=0.714,
        mebibytes=233.087,
        min_size=(63, 63),
        recipe=RECIPES + "alexnet-and-vgg",
    )
    DEFAULT = IMAGENET1K_V1
