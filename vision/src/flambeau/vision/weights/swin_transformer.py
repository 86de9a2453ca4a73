"""Weights of the Swin transformers, trained on ImageNet-1K."""

from __future__ import annotations

from functools import partial
from typing import Any

from flambeau.core.weights import WeightsEnum
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.weights._records import RECIPES, original

__all__ = [
    "Swin_B_Weights",
    "Swin_S_Weights",
    "Swin_T_Weights",
    "Swin_V2_B_Weights",
    "Swin_V2_S_Weights",
    "Swin_V2_T_Weights",
]

_swin = partial(original, min_size=(224, 224), recipe=RECIPES + "swintransformer")
_swin_v2 = partial(original, min_size=(256, 256), recipe=RECIPES + "swintransformer-v2")


def _preset(crop_size: int, resize_size: int) -> dict[str, Any]:
    return {"crop_size": crop_size, "resize_size": resize_size, "interpolation": InterpolationMode.BICUBIC}


class Swin_T_Weights(WeightsEnum):
    """Weights of `models.swin_t`."""

    IMAGENET1K_V1 = _swin(
        "swin_t-704ceda3.pth",
        num_params=28_288_354,
        accuracy=(81.474, 95.776),
        preset=_preset(224, 232),
        gflops=4.491,
        mebibytes=108.19,
    )
    DEFAULT = IMAGENET1K_V1


class Swin_S_Weights(WeightsEnum):
    """Weights of `models.swin_s`."""

    IMAGENET1K_V1 = _swin(
        "swin_s-5e29d889.pth",
        num_params=49_606_258,
        accuracy=(83.196, 96.36),
        preset=_preset(224, 246),
        gflops=8.741,
        mebibytes=189.786,
    )
    DEFAULT = IMAGENET1K_V1


class Swin_B_Weights(WeightsEnum):
    """Weights of `models.swin_b`."""

    IMAGENET1K_V1 = _swin(
        "swin_b-68c6b09e.pth",
        num_params=87_768_224,
        accuracy=(83.582, 96.64),
        preset=_preset(224, 238),
        gflops=15.431,
        mebibytes=335.364,
    )
    DEFAULT = IMAGENET1K_V1


class Swin_V2_T_Weights(WeightsEnum):
    """Weights of `models.swin_v2_t`."""

    IMAGENET1K_V1 = _swin_v2(
        "swin_v2_t-b137f0e2.pth",
        num_params=28_351_570,
        accuracy=(82.072, 96.132),
        preset=_preset(256, 260),
        gflops=5.94,
        mebibytes=108.626,
    )
    DEFAULT = IMAGENET1K_V1


class Swin_V2_S_Weights(WeightsEnum):
    """Weights of `models.swin_v2_s`."""

    IMAGENET1K_V1 = _swin_v2(
        "swin_v2_s-637d8ceb.pth",
        num_params=49_737_442,
        accuracy=(83.712, 96.816),
        preset=_preset(256, 260),
        gflops=11.546,
        mebibytes=190.675,
    )
    DEFAULT = IMAGENET1K_V1


class Swin_V2_B_Weights(WeightsEnum):
    """Weights of `models.swin_v2_b`."""

    IMAGENET1K_V1 = _swin_v2(
        "swin_v2_b-781e5279.pth",
        num_params=87_930_848,
        accuracy=(84.112, 96.864),
        preset=_preset(256, 272),
        gflops=20.325,
        mebibytes=336.372,
    )
    DEFAULT = IMAGENET1K_V1
