"""Weights of the EfficientNet and EfficientNetV2 families, trained on ImageNet-1K."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.weights._records import NEW_RECIPE, RECIPES, imagenet, refreshed

__all__ = [
    "EfficientNet_B0_Weights",
    "EfficientNet_B1_Weights",
    "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights",
    "EfficientNet_B4_Weights",
    "EfficientNet_B5_Weights",
    "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights",
    "EfficientNet_V2_L_Weights",
    "EfficientNet_V2_M_Weights",
    "EfficientNet_V2_S_Weights",
]

_efficientnet = partial(imagenet, recipe=RECIPES + "efficientnet-v1")
_efficientnet_v2 = partial(imagenet, recipe=RECIPES + "efficientnet-v2", min_size=(33, 33))


class EfficientNet_B0_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b0`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b0_rwightman-7f5810bc.pth",
        num_params=5_288_548,
        accuracy=(77.692, 93.532),
        gflops=0.386,
        mebibytes=20.451,
        preset={"crop_size": 224, "resize_size": 256, "interpolation": InterpolationMode.BICUBIC},
        docs="Converted from the weights that Ross Wightman trained for timm.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B1_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b1`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b1_rwightman-bac287d4.pth",
        num_params=7_794_184,
        accuracy=(78.642, 94.186),
        gflops=0.687,
        mebibytes=30.134,
        preset={"crop_size": 240, "resize_size": 256, "interpolation": InterpolationMode.BICUBIC},
        docs="Converted from the weights that Ross Wightman trained for timm.",
    )
    IMAGENET1K_V2 = refreshed(
        "efficientnet_b1-c27df63c.pth",
        num_params=7_794_184,
        accuracy=(79.838, 94.934),
        gflops=0.687,
        mebibytes=30.136,
        preset={"crop_size": 240, "resize_size": 255, "interpolation": InterpolationMode.BILINEAR},
        recipe=NEW_RECIPE + "-with-lr-wd-crop-tuning",
    )
    DEFAULT = IMAGENET1K_V2


class EfficientNet_B2_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b2`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b2_rwightman-c35c1473.pth",
        num_params=9_109_994,
        accuracy=(80.608, 95.31),
        gflops=1.088,
        mebibytes=35.174,
        preset={"crop_size": 288, "resize_size": 288, "interpolation": InterpolationMode.BICUBIC},
        docs="Converted from the weights that Ross Wightman trained for timm.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B3_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b3`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b3_rwightman-b3899882.pth",
        num_params=12_233_232,
        accuracy=(82.008, 96.054),
        gflops=1.827,
        mebibytes=47.184,
        preset={"crop_size": 300, "resize_size": 320, "interpolation": InterpolationMode.BICUBIC},
        docs="Converted from the weights that Ross Wightman trained for timm.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B4_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b4`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b4_rwightman-23ab8bcd.pth",
        num_params=19_341_616,
        accuracy=(83.384, 96.594),
        gflops=4.394,
        mebibytes=74.489,
        preset={"crop_size": 380, "resize_size": 384, "interpolation": InterpolationMode.BICUBIC},
        docs="Converted from the weights that Ross Wightman trained for timm.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B5_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b5`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b5_lukemelas-1a07897c.pth",
        num_params=30_389_784,
        accuracy=(83.444, 96.628),
        gflops=10.266,
        mebibytes=116.864,
        preset={"crop_size": 456, "resize_size": 456, "interpolation": InterpolationMode.BICUBIC},
        docs=(
            "Converted from EfficientNet-PyTorch by Luke Melas-Kyriazi, which holds the weights of the authors of "
            "the paper."
        ),
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B6_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b6`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b6_lukemelas-24a108a5.pth",
        num_params=43_040_704,
        accuracy=(84.008, 96.916),
        gflops=19.068,
        mebibytes=165.362,
        preset={"crop_size": 528, "resize_size": 528, "interpolation": InterpolationMode.BICUBIC},
        docs=(
            "Converted from EfficientNet-PyTorch by Luke Melas-Kyriazi, which holds the weights of the authors of "
            "the paper."
        ),
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_B7_Weights(WeightsEnum):
    """Weights of `models.efficientnet_b7`."""

    IMAGENET1K_V1 = _efficientnet(
        "efficientnet_b7_lukemelas-c5b4e57e.pth",
        num_params=66_347_960,
        accuracy=(84.122, 96.908),
        gflops=37.746,
        mebibytes=254.675,
        preset={"crop_size": 600, "resize_size": 600, "interpolation": InterpolationMode.BICUBIC},
        docs=(
            "Converted from EfficientNet-PyTorch by Luke Melas-Kyriazi, which holds the weights of the authors of "
            "the paper."
        ),
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_V2_S_Weights(WeightsEnum):
    """Weights of `models.efficientnet_v2_s`."""

    IMAGENET1K_V1 = _efficientnet_v2(
        "efficientnet_v2_s-dd5fe13b.pth",
        num_params=21_458_488,
        accuracy=(84.228, 96.878),
        gflops=8.366,
        mebibytes=82.704,
        preset={"crop_size": 384, "resize_size": 384, "interpolation": InterpolationMode.BILINEAR},
        docs="Better than in the paper, from a newer recipe that was adapted to these networks.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_V2_M_Weights(WeightsEnum):
    """Weights of `models.efficientnet_v2_m`."""

    IMAGENET1K_V1 = _efficientnet_v2(
        "efficientnet_v2_m-dc08266a.pth",
        num_params=54_139_356,
        accuracy=(85.112, 97.156),
        gflops=24.582,
        mebibytes=208.01,
        preset={"crop_size": 480, "resize_size": 480, "interpolation": InterpolationMode.BILINEAR},
        docs="Better than in the paper, from a newer recipe that was adapted to these networks.",
    )
    DEFAULT = IMAGENET1K_V1


class EfficientNet_V2_L_Weights(WeightsEnum):
    """Weights of `models.efficientnet_v2_l`."""

    IMAGENET1K_V1 = _efficientnet_v2(
        "efficientnet_v2_l-59c71312.pth",
        num_params=118_515_272,
        accuracy=(85.808, 97.788),
        gflops=56.08,
        mebibytes=454.573,
        preset={
            "crop_size": 480,
            "resize_size": 480,
            "interpolation": InterpolationMode.BICUBIC,
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.5, 0.5),
        },
        docs="Trained by the authors of the paper in TensorFlow, and converted.",
    )
    DEFAULT = IMAGENET1K_V1
