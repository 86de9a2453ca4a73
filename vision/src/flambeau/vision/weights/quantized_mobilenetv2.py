"""Weights of MobileNet v2 in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import trained
from flambeau.vision.weights._records import RECIPES
from flambeau.vision.weights.mobilenetv2 import MobileNet_V2_Weights

__all__ = ["MobileNet_V2_QuantizedWeights"]


class MobileNet_V2_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.mobilenet_v2`."""

    IMAGENET1K_QNNPACK_V1 = trained(
        "quantized/mobilenet_v2_qnnpack_37f702c5.pth",
        num_params=3_504_872,
        accuracy=(71.658, 90.15),
        recipe=RECIPES + "qat-mobilenetv2",
        gflops=0.301,
        mebibytes=3.423,
        unquantized=MobileNet_V2_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_QNNPACK_V1
