"""Weights of the ResNet family, trained on ImageNet-1K: where they are, what they score, how pictures are prepared."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import Weights, WeightsEnum, lazy
from flambeau.vision.weights.categories import categories

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

_UPSTREAM = "https://github.com/pytorch/vision/"
_V1_RECIPE = _UPSTREAM + "tree/main/references/classification#resnet"
_RESNEXT_RECIPE = _UPSTREAM + "tree/main/references/classification#resnext"
_WIDE_RECIPE = _UPSTREAM + "pull/912#issue-445437439"
_V2_RECIPE = _UPSTREAM + "issues/3995#new-recipe"
_FIXRES_RECIPE = _UPSTREAM + "issues/3995#new-recipe-with-fixres"


def _imagenet(
    file: str,
    *,
    preset: dict[str, int],
    num_params: int,
    accuracy: tuple[float, float],
    gflops: float,
    mebibytes: float,
    recipe: str,
    docs: str,
) -> Weights:
    """One checkpoint: its file, top-1 and top-5 accuracy in percent on the validation set, cost of one picture."""
    top1, top5 = accuracy
    return Weights(
        url=f"https://download.pytorch.org/models/{file}",
        transforms=lazy("flambeau.vision.transforms._presets:ImageClassification", **preset),
        meta={
            "num_params": num_params,
            "min_size": (1, 1),
            "categories": categories("imagenet_1000"),
            "recipe": recipe,
            "license": "BSD-3-Clause",
            "_metrics": {"ImageNet-1K": {"acc@1": top1, "acc@5": top5}},
            "_ops": gflops,
            "_file_size": mebibytes,
            "_docs": docs,
        },
        sha256=file.rpartition("-")[2].partition(".")[0],  # upstream puts the first digits into the name
    )


_original = partial(
    _imagenet, preset={"crop_size": 224}, docs="Close to the results of the paper, from a plain training recipe."
)
_refreshed = partial(
    _imagenet,
    preset={"crop_size": 224, "resize_size": 232},
    docs="From a newer recipe: longer training, stronger augmentation, label smoothing, averaged weights.",
)


class ResNet18_Weights(WeightsEnum):
    """Weights of `models.resnet18`."""

    IMAGENET1K_V1 = _original(
        "resnet18-f37072fd.pth",
        num_params=11_689_512,
        accuracy=(69.758, 89.078),
        gflops=1.814,
        mebibytes=44.661,
        recipe=_V1_RECIPE,
    )
    DEFAULT = IMAGENET1K_V1


class ResNet34_Weights(WeightsEnum):
    """Weights of `models.resnet34`."""

    IMAGENET1K_V1 = _original(
        "resnet34-b627a593.pth",
        num_params=21_797_672,
        accuracy=(73.314, 91.42),
        gflops=3.664,
        mebibytes=83.275,
        recipe=_V1_RECIPE,
    )
    DEFAULT = IMAGENET1K_V1


class ResNet50_Weights(WeightsEnum):
    """Weights of `models.resnet50`."""

    IMAGENET1K_V1 = _original(
        "resnet50-0676ba61.pth",
        num_params=25_557_032,
        accuracy=(76.13, 92.862),
        gflops=4.089,
        mebibytes=97.781,
        recipe=_V1_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "resnet50-11ad3fa6.pth",
        num_params=25_557_032,
        accuracy=(80.858, 95.434),
        gflops=4.089,
        mebibytes=97.79,
        recipe=_UPSTREAM + "issues/3995#issuecomment-1013906621",
    )
    DEFAULT = IMAGENET1K_V2


class ResNet101_Weights(WeightsEnum):
    """Weights of `models.resnet101`."""

    IMAGENET1K_V1 = _original(
        "resnet101-63fe2227.pth",
        num_params=44_549_160,
        accuracy=(77.374, 93.546),
        gflops=7.801,
        mebibytes=170.511,
        recipe=_V1_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "resnet101-cd907fc2.pth",
        num_params=44_549_160,
        accuracy=(81.886, 95.78),
        gflops=7.801,
        mebibytes=170.53,
        recipe=_V2_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNet152_Weights(WeightsEnum):
    """Weights of `models.resnet152`."""

    IMAGENET1K_V1 = _original(
        "resnet152-394f9c45.pth",
        num_params=60_192_808,
        accuracy=(78.312, 94.046),
        gflops=11.514,
        mebibytes=230.434,
        recipe=_V1_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "resnet152-f82ba261.pth",
        num_params=60_192_808,
        accuracy=(82.284, 96.002),
        gflops=11.514,
        mebibytes=230.474,
        recipe=_V2_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt50_32X4D_Weights(WeightsEnum):
    """Weights of `models.resnext50_32x4d`."""

    IMAGENET1K_V1 = _original(
        "resnext50_32x4d-7cdf4587.pth",
        num_params=25_028_904,
        accuracy=(77.618, 93.698),
        gflops=4.23,
        mebibytes=95.789,
        recipe=_RESNEXT_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "resnext50_32x4d-1a0047aa.pth",
        num_params=25_028_904,
        accuracy=(81.198, 95.34),
        gflops=4.23,
        mebibytes=95.833,
        recipe=_V2_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt101_32X8D_Weights(WeightsEnum):
    """Weights of `models.resnext101_32x8d`."""

    IMAGENET1K_V1 = _original(
        "resnext101_32x8d-8ba56ff5.pth",
        num_params=88_791_336,
        accuracy=(79.312, 94.526),
        gflops=16.414,
        mebibytes=339.586,
        recipe=_RESNEXT_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "resnext101_32x8d-110c445d.pth",
        num_params=88_791_336,
        accuracy=(82.834, 96.228),
        gflops=16.414,
        mebibytes=339.673,
        recipe=_FIXRES_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class ResNeXt101_64X4D_Weights(WeightsEnum):
    """Weights of `models.resnext101_64x4d`."""

    IMAGENET1K_V1 = _refreshed(
        "resnext101_64x4d-173b62eb.pth",
        num_params=83_455_272,
        accuracy=(83.246, 96.454),
        gflops=15.46,
        mebibytes=319.318,
        recipe=_UPSTREAM + "pull/5935",
    )
    DEFAULT = IMAGENET1K_V1


class Wide_ResNet50_2_Weights(WeightsEnum):
    """Weights of `models.wide_resnet50_2`."""

    IMAGENET1K_V1 = _original(
        "wide_resnet50_2-95faca4d.pth",
        num_params=68_883_240,
        accuracy=(78.468, 94.086),
        gflops=11.398,
        mebibytes=131.82,
        recipe=_WIDE_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "wide_resnet50_2-9ba9bcbe.pth",
        num_params=68_883_240,
        accuracy=(81.602, 95.758),
        gflops=11.398,
        mebibytes=263.124,
        recipe=_FIXRES_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class Wide_ResNet101_2_Weights(WeightsEnum):
    """Weights of `models.wide_resnet101_2`."""

    IMAGENET1K_V1 = _original(
        "wide_resnet101_2-32ee1156.pth",
        num_params=126_886_696,
        accuracy=(78.848, 94.284),
        gflops=22.753,
        mebibytes=242.896,
        recipe=_WIDE_RECIPE,
    )
    IMAGENET1K_V2 = _refreshed(
        "wide_resnet101_2-d733dc28.pth",
        num_params=126_886_696,
        accuracy=(82.51, 96.02),
        gflops=22.753,
        mebibytes=484.747,
        recipe=_V2_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2
