"""Weights of the Swin transformers for video, trained on Kinetics-400."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._kinetics import kinetics

__all__ = ["Swin3D_B_Weights", "Swin3D_S_Weights", "Swin3D_T_Weights"]

_swin = partial(
    kinetics,
    preset={
        "crop_size": (224, 224),
        "resize_size": (256,),
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
    },
    min_size=(1, 1),
    min_temporal_size=1,
    clips=(32, 15.0, 12),
    recipe="https://github.com/SwinTransformer/Video-Swin-Transformer#kinetics-400",
    docs="Converted from the authors' weights, whose backbone was first trained on pictures of ImageNet-1K.",
)


class Swin3D_T_Weights(WeightsEnum):
    """Weights of `models.video.swin3d_t`."""

    KINETICS400_V1 = _swin(
        "swin3d_t-7615ae03.pth",
        num_params=28_158_070,
        accuracy=(77.715, 93.519),
        gflops=43.882,
        mebibytes=121.543,
    )
    DEFAULT = KINETICS400_V1


class Swin3D_S_Weights(WeightsEnum):
    """Weights of `models.video.swin3d_s`."""

    KINETICS400_V1 = _swin(
        "swin3d_s-da41c237.pth",
        num_params=49_816_678,
        accuracy=(79.521, 94.158),
        gflops=82.841,
        mebibytes=218.288,
    )
    DEFAULT = KINETICS400_V1


class Swin3D_B_Weights(WeightsEnum):
    """Weights of `models.video.swin3d_b`."""

    KINETICS400_V1 = _swin(
        "swin3d_b_1k-24f7c7c6.pth",
        num_params=88_048_984,
        accuracy=(79.427, 94.386),
        gflops=140.667,
        mebibytes=364.134,
    )
    KINETICS400_IMAGENET22K_V1 = _swin(
        "swin3d_b_22k-7c6ae6fa.pth",
        num_params=88_048_984,
        accuracy=(81.643, 95.574),
        docs="Converted from the authors' weights, whose backbone was first trained on pictures of ImageNet-22K.",
        gflops=140.667,
        mebibytes=364.134,
    )
    DEFAULT = KINETICS400_V1
