"""Weights of the ResNet family in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import calibrated
from flambeau.vision.weights._records import UPSTREAM
from flambeau.vision.weights.resnet import (
    ResNet18_Weights,
    ResNet50_Weights,
    ResNeXt101_32X8D_Weights,
    ResNeXt101_64X4D_Weights,
)

__all__ = [
    "ResNeXt101_32X8D_QuantizedWeights",
    "ResNeXt101_64X4D_QuantizedWeights",
    "ResNet18_QuantizedWeights",
    "ResNet50_QuantizedWeights",
]


class ResNet18_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.resnet18`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/resnet18_fbgemm_16fa66dd.pth",
        num_params=11_689_512,
        accuracy=(69.494, 88.882),
        gflops=1.814,
        mebibytes=11.238,
        unquantized=ResNet18_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1


class ResNet50_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.resnet50`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/resnet50_fbgemm_bf931d71.pth",
        num_params=25_557_032,
        accuracy=(75.92, 92.814),
        gflops=4.089,
        mebibytes=24.759,
        unquantized=ResNet50_Weights.IMAGENET1K_V1,
    )
    IMAGENET1K_FBGEMM_V2 = calibrated(
        "quantized/resnet50_fbgemm-23753f79.pth",
        num_params=25_557_032,
        accuracy=(80.282, 94.976),
        preset={"crop_size": 224, "resize_size": 232},
        gflops=4.089,
        mebibytes=24.953,
        unquantized=ResNet50_Weights.IMAGENET1K_V2,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V2


class ResNeXt101_32X8D_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.resnext101_32x8d`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/resnext101_32x8_fbgemm_09835ccf.pth",
        num_params=88_791_336,
        accuracy=(78.986, 94.48),
        gflops=16.414,
        mebibytes=86.034,
        unquantized=ResNeXt101_32X8D_Weights.IMAGENET1K_V1,
    )
    IMAGENET1K_FBGEMM_V2 = calibrated(
        "quantized/resnext101_32x8_fbgemm-ee16d00c.pth",
        num_params=88_791_336,
        accuracy=(82.574, 96.132),
        preset={"crop_size": 224, "resize_size": 232},
        gflops=16.414,
        mebibytes=86.645,
        unquantized=ResNeXt101_32X8D_Weights.IMAGENET1K_V2,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V2


class ResNeXt101_64X4D_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.resnext101_64x4d`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/resnext101_64x4d_fbgemm-605a1cb3.pth",
        num_params=83_455_272,
        accuracy=(82.898, 96.326),
        preset={"crop_size": 224, "resize_size": 232},
        recipe=UPSTREAM + "pull/5935",
        gflops=15.46,
        mebibytes=81.556,
        unquantized=ResNeXt101_64X4D_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1
