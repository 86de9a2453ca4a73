"""Weights of the Vision Transformer, trained on ImageNet-1K, some of them after weakly supervised pretraining."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import RECIPES, original
from flambeau.vision.weights._swag import end_to_end, linear

__all__ = ["ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_H_14_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights"]

_vit = partial(
    original,
    min_size=(224, 224),
    docs="Trained from scratch on ImageNet-1K, after the DeiT recipe (Touvron et al. 2020, arXiv:2012.12877).",
)


class ViT_B_16_Weights(WeightsEnum):
    """Weights of `models.vit_b_16`."""

    IMAGENET1K_V1 = _vit(
        "vit_b_16-c867db91.pth",
        num_params=86_567_656,
        accuracy=(81.072, 95.318),
        gflops=17.564,
        mebibytes=330.285,
        recipe=RECIPES + "vit_b_16",
    )
    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "vit_b_16_swag-9ac1b537.pth",
        num_params=86_859_496,
        accuracy=(85.304, 97.65),
        size=384,
        min_size=(384, 384),
        gflops=55.484,
        mebibytes=331.398,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "vit_b_16_lc_swag-4e70ced5.pth",
        num_params=86_567_656,
        accuracy=(81.886, 96.18),
        min_size=(224, 224),
        gflops=17.564,
        mebibytes=330.285,
    )
    DEFAULT = IMAGENET1K_V1


class ViT_B_32_Weights(WeightsEnum):
    """Weights of `models.vit_b_32`."""

    IMAGENET1K_V1 = _vit(
        "vit_b_32-d86f8d99.pth",
        num_params=88_224_232,
        accuracy=(75.912, 92.466),
        gflops=4.409,
        mebibytes=336.604,
        recipe=RECIPES + "vit_b_32",
    )
    DEFAULT = IMAGENET1K_V1


class ViT_L_16_Weights(WeightsEnum):
    """Weights of `models.vit_l_16`."""

    IMAGENET1K_V1 = _vit(
        "vit_l_16-852ce7e3.pth",
        num_params=304_326_632,
        accuracy=(79.662, 94.638),
        preset={"crop_size": 224, "resize_size": 242},
        gflops=61.555,
        mebibytes=1161.023,
        recipe=RECIPES + "vit_l_16",
    )
    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "vit_l_16_swag-4f3808c9.pth",
        num_params=305_174_504,
        accuracy=(88.064, 98.512),
        size=512,
        min_size=(512, 512),
        gflops=361.986,
        mebibytes=1164.258,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "vit_l_16_lc_swag-4d563306.pth",
        num_params=304_326_632,
        accuracy=(85.146, 97.422),
        min_size=(224, 224),
        gflops=61.555,
        mebibytes=1161.023,
    )
    DEFAULT = IMAGENET1K_V1


class ViT_L_32_Weights(WeightsEnum):
    """Weights of `models.vit_l_32`."""

    IMAGENET1K_V1 = _vit(
        "vit_l_32-c7638314.pth",
        num_params=306_535_400,
        accuracy=(76.972, 93.07),
        gflops=15.378,
        mebibytes=1169.449,
        recipe=RECIPES + "vit_l_32",
    )
    DEFAULT = IMAGENET1K_V1


class ViT_H_14_Weights(WeightsEnum):
    """Weights of `models.vit_h_14`."""

    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "vit_h_14_swag-80465313.pth",
        num_params=633_470_440,
        accuracy=(88.552, 98.694),
        size=518,
        min_size=(518, 518),
        gflops=1016.717,
        mebibytes=2416.643,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "vit_h_14_lc_swag-c1eb923e.pth",
        num_params=632_045_800,
        accuracy=(85.708, 97.73),
        min_size=(224, 224),
        gflops=167.295,
        mebibytes=2411.209,
    )
    DEFAULT = IMAGENET1K_SWAG_E2E_V1
