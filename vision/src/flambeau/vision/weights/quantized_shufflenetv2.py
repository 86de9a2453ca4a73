"""Weights of the ShuffleNet v2 family in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import calibrated
from flambeau.vision.weights._records import UPSTREAM
from flambeau.vision.weights.shufflenetv2 import (
    ShuffleNet_V2_X0_5_Weights,
    ShuffleNet_V2_X1_0_Weights,
    ShuffleNet_V2_X1_5_Weights,
    ShuffleNet_V2_X2_0_Weights,
)

__all__ = [
    "ShuffleNet_V2_X0_5_QuantizedWeights",
    "ShuffleNet_V2_X1_0_QuantizedWeights",
    "ShuffleNet_V2_X1_5_QuantizedWeights",
    "ShuffleNet_V2_X2_0_QuantizedWeights",
]


class ShuffleNet_V2_X0_5_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.shufflenet_v2_x0_5`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/shufflenetv2_x0.5_fbgemm-00845098.pth",
        num_params=1_366_792,
        accuracy=(57.972, 79.78),
        gflops=0.04,
        mebibytes=1.501,
        unquantized=ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1


class ShuffleNet_V2_X1_0_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.shufflenet_v2_x1_0`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/shufflenetv2_x1_fbgemm-1e62bb32.pth",
        num_params=2_278_604,
        accuracy=(68.36, 87.582),
        gflops=0.145,
        mebibytes=2.334,
        unquantized=ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1


class ShuffleNet_V2_X1_5_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.shufflenet_v2_x1_5`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/shufflenetv2_x1_5_fbgemm-d7401f05.pth",
        num_params=3_503_624,
        accuracy=(72.052, 90.7),
        preset={"crop_size": 224, "resize_size": 232},
        recipe=UPSTREAM + "pull/5906",
        gflops=0.296,
        mebibytes=3.672,
        unquantized=ShuffleNet_V2_X1_5_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1


class ShuffleNet_V2_X2_0_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.shufflenet_v2_x2_0`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/shufflenetv2_x2_0_fbgemm-5cac526c.pth",
        num_params=7_393_996,
        accuracy=(75.354, 92.488),
        preset={"crop_size": 224, "resize_size": 232},
        recipe=UPSTREAM + "pull/5906",
        gflops=0.583,
        mebibytes=7.467,
        unquantized=ShuffleNet_V2_X2_0_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1
