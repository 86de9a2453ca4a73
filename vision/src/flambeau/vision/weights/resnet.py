"""Weights of the ResNet family, trained on ImageNet-1K: where they are, what they score, how pictures are prepared."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import NEW_RECIPE, RECIPES, UPSTREAM, original, refreshed

__all__ = [
    "ResNeXt50_32X4D_Weights",
    "ResNeXt101_32X8D_Weights",
    "ResNeXt101_64X4D_Weights",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "Wide_ResNet50_2_Weights",
    "Wide_ResNet101_2_Weights",
]

_RESNET = RECIPES + "resnet"
_RESNEXT = RECIPES + "resnext"
_WIDE = UPSTREAM + "pull/912#issue-445437439"
_FIXRES = NEW_RECIPE + "-with-fixres"


class ResNet18_Weights(WeightsEnum):
    """Weights of `models.resnet18`."""

    IMAGENET1K_V1 = original(
        "resnet18-f37072fd.pth",
        num_params=11_689_512,
        accuracy=(69.758, 89.078),
        gflops=1.814,
        mebibytes=44.661,
        recipe=_RESNET,
    )
    DEFAULT = IMAGENET1K_V1


class ResNet34_Weights(WeightsEnum):
    """Weights of `models.resnet34`."""

    IMAGENET1K_V1 = original(
        "resnet34-b627a593.pth",
        num_params=21_797_672,
        accuracy=(73.314, 91.42),
        gflops=3.664,
        mebibytes=83.275,
        recipe=_RESNET,
    )
    DEFAULT = IMAGENET1K_V1


class ResNet50_Weights(WeightsEnum):
    """Weights of `models.resnet50`."""

    IMAGENET1K_V1 = original(
        "resnet50-0676ba61.pth",
        num_params=25_557_032,
        accuracy=(76.13, 92.862),
        gflops=4.089,
        mebibytes=97.781,
        recipe=_RESNET,
    )
    IMAGENET1K_V2 = refreshed(
        "resnet50-11ad3fa6.pth",
        num_params=25_557_032,
        accuracy=(80.858, 95.434),
        gflops=4.089,
        mebibytes=97.79,
        recipe=UPSTREAM + "issues/3995#issuecomment-1013906621",
    )
    DEFAULT = IMAGENET1K_V2


class ResNet101_Weights(WeightsEnum):
    """Weights of `models.resnet101`."""

    IMAGENET1K_V1 = original(
        "resnet101-63fe2227.pth",
        num_params=44_549_160,
        accuracy=(77.374, 93.546),
        gflops=7.801,
        mebibytes=170.511,
        recipe=_RESNET,
    )
    IMAGENET1K_V2 = refreshed(
        "resnet101-cd907fc2.pth",
        num_params=44_549_160,
        accuracy=(81.886, 95.78),
        gflops=7.801,
        mebibytes=170.53,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNet152_Weights(WeightsEnum):
    """Weights of `models.resnet152`."""

    IMAGENET1K_V1 = original(
        "resnet152-394f9c45.pth",
        num_params=60_192_808,
        accuracy=(78.312, 94.046),
        gflops=11.514,
        mebibytes=230.434,
        recipe=_RESNET,
    )
    IMAGENET1K_V2 = refreshed(
        "resnet152-f82ba261.pth",
        num_params=60_192_808,
        accuracy=(82.284, 96.002),
        gflops=11.514,
        mebibytes=230.474,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt50_32X4D_Weights(WeightsEnum):
    """Weights of `models.resnext50_32x4d`."""

    IMAGENET1K_V1 = original(
        "resnext50_32x4d-7cdf4587.pth",
        num_params=25_028_904,
        accuracy=(77.618, 93.698),
        gflops=4.23,
        mebibytes=95.789,
        recipe=_RESNEXT,
    )
    IMAGENET1K_V2 = refreshed(
        "resnext50_32x4d-1a0047aa.pth",
        num_params=25_028_904,
        accuracy=(81.198, 95.34),
        gflops=4.23,
        mebibytes=95.833,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt101_32X8D_Weights(WeightsEnum):
    """Weights of `models.resnext101_32x8d`."""

    IMAGENET1K_V1 = original(
        "resnext101_32x8d-8ba56ff5.pth",
        num_params=88_791_336,
        accuracy=(79.312, 94.526),
        gflops=16.414,
        mebibytes=339.586,
        recipe=_RESNEXT,
    )
    IMAGENET1K_V2 = refreshed(
        "resnext101_32x8d-110c445d.pth",
        num_params=88_791_336,
        accuracy=(82.834, 96.228),
        gflops=16.414,
        mebibytes=339.673,
        recipe=_FIXRES,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt101_64X4D_Weights(WeightsEnum):
    """Weights of `models.resnext101_64x4d`."""

    IMAGENET1K_V1 = refreshed(
        "resnext101_64x4d-173b62eb.pth",
        num_params=83_455_272,
        accuracy=(83.246, 96.454),
        gflops=15.46,
        mebibytes=319.318,
        recipe=UPSTREAM + "pull/5935",
    )
    DEFAULT = IMAGENET1K_V1


class Wide_ResNet50_2_Weights(WeightsEnum):
    """Weights of `models.wide_resnet50_2`."""

    IMAGENET1K_V1 = original(
        "wide_resnet50_2-95faca4d.pth",
        num_params=68_883_240,
        accuracy=(78.468, 94.086),
        gflops=11.398,
        mebibytes=131.82,
        recipe=_WIDE,
    )
    IMAGENET1K_V2 = refreshed(
        "wide_resnet50_2-9ba9bcbe.pth",
        num_params=68_883_240,
        accuracy=(81.602, 95.758),
        gflops=11.398,
        mebibytes=263.124,
        recipe=_FIXRES,
    )
    DEFAULT = IMAGENET1K_V2


class Wide_ResNet101_2_Weights(WeightsEnum):
    """Weights of `models.wide_resnet101_2`."""

    IMAGENET1K_V1 = original(
        "wide_resnet101_2-32ee1156.pth",
        num_params=126_886_696,
        accuracy=(78.848, 94.284),
        gflops=22.753,
        mebibytes=242.896,
        recipe=_WIDE,
    )
    IMAGENET1K_V2 = refreshed(
        "wide_resnet101_2-d733dc28.pth",
        num_params=126_886_696,
        accuracy=(82.51, 96.02),
        gflops=22.753,
        mebibytes=484.747,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2
