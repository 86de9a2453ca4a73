"""Weights of MobileNet v2, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import NEW_RECIPE, RECIPES, original, refreshed

__all__ = ["MobileNet_V2_Weights"]


class MobileNet_V2_Weights(WeightsEnum):
    """Weights of `models.mobilenet_v2`."""

    IMAGENET1K_V1 = original(
        "mobilenet_v2-b0353104.pth",
        num_params=3_504_872,
        accuracy=(71.878, 90.286),
        gflops=0.301,
        mebibytes=13.555,
        recipe=RECIPES + "mobilenetv2",
    )
    IMAGENET1K_V2 = refreshed(
        "mobilenet_v2-7ebf99e0.pth",
        num_params=3_504_872,
        accuracy=(72.154, 90.822),
        gflops=0.301,
        mebibytes=13.598,
        recipe=NEW_RECIPE + "-with-reg-tuning",
    )
    DEFAULT = IMAGENET1K_V2
