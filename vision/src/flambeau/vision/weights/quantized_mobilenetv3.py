"""Weights of MobileNet v3 in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import trained
from flambeau.vision.weights._records import RECIPES
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights

__all__ = ["MobileNet_V3_Large_QuantizedWeights"]


class MobileNet_V3_Large_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.mobilenet_v3_large`."""

    IMAGENET1K_QNNPACK_V1 = trained(
        "quantized/mobilenet_v3_large_qnnpack-5bcacf28.pth",
        num_params=5_483_032,
        accuracy=(73.004, 90.858),
        recipe=RECIPES + "qat-mobilenetv3",
        gflops=0.217,
        mebibytes=21.554,
        unquantized=MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_QNNPACK_V1
