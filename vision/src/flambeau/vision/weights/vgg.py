"""Weights of the VGG family, trained on ImageNet-1K."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum, lazy
from flambeau.vision.weights._records import RECIPES, original, published

__all__ = [
    "VGG11_BN_Weights",
    "VGG11_Weights",
    "VGG13_BN_Weights",
    "VGG13_Weights",
    "VGG16_BN_Weights",
    "VGG16_Weights",
    "VGG19_BN_Weights",
    "VGG19_Weights",
]

_vgg = partial(original, min_size=(32, 32), recipe=RECIPES + "alexnet-and-vgg")


class VGG11_Weights(WeightsEnum):
    """Weights of `models.vgg11`."""

    IMAGENET1K_V1 = _vgg(
        "vgg11-8a719046.pth",
        num_params=132_863_336,
        accuracy=(69.02, 88.628),
        gflops=7.609,
        mebibytes=506.84,
    )
    DEFAULT = IMAGENET1K_V1


class VGG11_BN_Weights(WeightsEnum):
    """Weights of `models.vgg11_bn`."""

    IMAGENET1K_V1 = _vgg(
        "vgg11_bn-6002323d.pth",
        num_params=132_868_840,
        accuracy=(70.37, 89.81),
        gflops=7.609,
        mebibytes=506.881,
    )
    DEFAULT = IMAGENET1K_V1


class VGG13_Weights(WeightsEnum):
    """Weights of `models.vgg13`."""

    IMAGENET1K_V1 = _vgg(
        "vgg13-19584684.pth",
        num_params=133_047_848,
        accuracy=(69.928, 89.246),
        gflops=11.308,
        mebibytes=507.545,
    )
    DEFAULT = IMAGENET1K_V1


class VGG13_BN_Weights(WeightsEnum):
    """Weights of `models.vgg13_bn`."""

    IMAGENET1K_V1 = _vgg(
        "vgg13_bn-abd245e5.pth",
        num_params=133_053_736,
        accuracy=(71.586, 90.374),
        gflops=11.308,
        mebibytes=507.59,
    )
    DEFAULT = IMAGENET1K_V1


class VGG16_Weights(WeightsEnum):
    """Weights of `models.vgg16`."""

    IMAGENET1K_V1 = _vgg(
        "vgg16-397923af.pth",
        num_params=138_357_544,
        accuracy=(71.592, 90.382),
        gflops=15.47,
        mebibytes=527.796,
    )
    IMAGENET1K_FEATURES = published(
        "vgg16_features-amdegroot-88682ab5.pth",
        lazy(
            "flambeau.vision.transforms._presets:ImageClassification",
            crop_size=224,
            mean=(0.48235, 0.45882, 0.40784),
            std=(1 / 255, 1 / 255, 1 / 255),
        ),
        num_params=138_357_544,
        min_size=(32, 32),
        metrics={},
        gflops=15.47,
        mebibytes=527.802,
        recipe="https://github.com/amdegroot/ssd.pytorch#training-ssd",
        docs=(
            "The backbone of SSD: `features` alone was trained, so there is no class to tell and no accuracy to state."
        ),
    )
    DEFAULT = IMAGENET1K_V1


class VGG16_BN_Weights(WeightsEnum):
    """Weights of `models.vgg16_bn`."""

    IMAGENET1K_V1 = _vgg(
        "vgg16_bn-6c64b313.pth",
        num_params=138_365_992,
        accuracy=(73.36, 91.516),
        gflops=15.47,
        mebibytes=527.866,
    )
    DEFAULT = IMAGENET1K_V1


class VGG19_Weights(WeightsEnum):
    """Weights of `models.vgg19`."""

    IMAGENET1K_V1 = _vgg(
        "vgg19-dcbb9e9d.pth",
        num_params=143_667_240,
        accuracy=(72.376, 90.876),
        gflops=19.632,
        mebibytes=548.051,
    )
    DEFAULT = IMAGENET1K_V1


class VGG19_BN_Weights(WeightsEnum):
    """Weights of `models.vgg19_bn`."""

    IMAGENET1K_V1 = _vgg(
        "vgg19_bn-c79401a0.pth",
        num_params=143_678_248,
        accuracy=(74.218, 91.842),
        gflops=19.632,
        mebibytes=548.143,
    )
    DEFAULT = IMAGENET1K_V1
