"""Weights of the SqueezeNet family, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import UPSTREAM, original

__all__ = ["SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights"]


class SqueezeNet1_0_Weights(WeightsEnum):
    """Weights of `models.squeezenet1_0`."""

    IMAGENET1K_V1 = original(
        "squeezenet1_0-b66bff10.pth",
        num_params=1_248_424,
        accuracy=(58.092, 80.42),
        gflops=0.819,
        mebibytes=4.778,
        min_size=(21, 21),
        recipe=UPSTREAM + "pull/49#issuecomment-277560717",
    )
    DEFAULT = IMAGENET1K_V1


class SqueezeNet1_1_Weights(WeightsEnum):
    """Weights of `models.squeezenet1_1`."""

    IMAGENET1K_V1 = original(
        "squeezenet1_1-b8a52dc0.pth",
        num_params=1_235_496,
        accuracy=(58.178, 80.624),
        gflops=0.349,
        mebibytes=4.729,
        min_size=(17, 17),
        recipe=UPSTREAM + "pull/49#issuecomment-277560717",
    )
    DEFAULT = IMAGENET1K_V1
