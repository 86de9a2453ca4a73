"""Weights of the ShuffleNet v2 family, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import UPSTREAM, original, refreshed

__all__ = [
    "ShuffleNet_V2_X0_5_Weights",
    "ShuffleNet_V2_X1_0_Weights",
    "ShuffleNet_V2_X1_5_Weights",
    "ShuffleNet_V2_X2_0_Weights",
]


class ShuffleNet_V2_X0_5_Weights(WeightsEnum):
    """Weights of `models.shufflenet_v2_x0_5`."""

    IMAGENET1K_V1 = original(
        "shufflenetv2_x0.5-f707e7126e.pth",
        num_params=1_366_792,
        accuracy=(60.552, 81.746),
        gflops=0.04,
        mebibytes=5.282,
        recipe="https://github.com/ericsun99/Shufflenet-v2-Pytorch",
    )
    DEFAULT = IMAGENET1K_V1


class ShuffleNet_V2_X1_0_Weights(WeightsEnum):
    """Weights of `models.shufflenet_v2_x1_0`."""

    IMAGENET1K_V1 = original(
        "shufflenetv2_x1-5666bf0f80.pth",
        num_params=2_278_604,
        accuracy=(69.362, 88.316),
        gflops=0.145,
        mebibytes=8.791,
        recipe="https://github.com/ericsun99/Shufflenet-v2-Pytorch",
    )
    DEFAULT = IMAGENET1K_V1


class ShuffleNet_V2_X1_5_Weights(WeightsEnum):
    """Weights of `models.shufflenet_v2_x1_5`."""

    IMAGENET1K_V1 = refreshed(
        "shufflenetv2_x1_5-3c479a10.pth",
        num_params=3_503_624,
        accuracy=(72.996, 91.086),
        gflops=0.296,
        mebibytes=13.557,
        recipe=UPSTREAM + "pull/5906",
    )
    DEFAULT = IMAGENET1K_V1


class ShuffleNet_V2_X2_0_Weights(WeightsEnum):
    """Weights of `models.shufflenet_v2_x2_0`."""

    IMAGENET1K_V1 = refreshed(
        "shufflenetv2_x2_0-8be3c8ee.pth",
        num_params=7_393_996,
        accuracy=(76.23, 93.006),
        gflops=0.583,
        mebibytes=28.433,
        recipe=UPSTREAM + "pull/5906",
    )
    DEFAULT = IMAGENET1K_V1
