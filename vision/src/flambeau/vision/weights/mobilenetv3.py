"""Weights of MobileNet v3, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import NEW_RECIPE, RECIPES, original, refreshed

__all__ = ["MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights"]


class MobileNet_V3_Large_Weights(WeightsEnum):
    """Weights of `models.mobilenet_v3_large`."""

    IMAGENET1K_V1 = original(
        "mobilenet_v3_large-8738ca79.pth",
        num_params=5_483_032,
        accuracy=(74.042, 91.34),
        gflops=0.217,
        mebibytes=21.114,
        recipe=RECIPES + "mobilenetv3-large--small",
    )
    IMAGENET1K_V2 = refreshed(
        "mobilenet_v3_large-5c1a4163.pth",
        num_params=5_483_032,
        accuracy=(75.274, 92.566),
        gflops=0.217,
        mebibytes=21.107,
        recipe=NEW_RECIPE + "-with-reg-tuning",
    )
    DEFAULT = IMAGENET1K_V2


class MobileNet_V3_Small_Weights(WeightsEnum):
    """Weights of `models.mobilenet_v3_small`."""

    IMAGENET1K_V1 = original(
        "mobilenet_v3_small-047dcff4.pth",
        num_params=2_542_856,
        accuracy=(67.668, 87.402),
        gflops=0.057,
        mebibytes=9.829,
        recipe=RECIPES + "mobilenetv3-large--small",
    )
    DEFAULT = IMAGENET1K_V1
