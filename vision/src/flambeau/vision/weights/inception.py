"""Weights of Inception v3, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import RECIPES, original

__all__ = ["Inception_V3_Weights"]


class Inception_V3_Weights(WeightsEnum):
    """Weights of `models.inception_v3`."""

    IMAGENET1K_V1 = original(
        "inception_v3_google-0cc3c7bd.pth",
        num_params=27_161_264,
        accuracy=(77.294, 93.45),
        gflops=5.713,
        mebibytes=103.903,
        preset={"crop_size": 299, "resize_size": 342},
        min_size=(75, 75),
        recipe=RECIPES + "inception-v3",
        docs="Trained by the authors of the paper in TensorFlow, and converted.",
    )
    DEFAULT = IMAGENET1K_V1
