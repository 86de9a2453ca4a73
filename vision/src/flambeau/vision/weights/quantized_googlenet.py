"""Weights of GoogLeNet in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import calibrated
from flambeau.vision.weights.googlenet import GoogLeNet_Weights

__all__ = ["GoogLeNet_QuantizedWeights"]


class GoogLeNet_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.googlenet`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/googlenet_fbgemm-c81f6644.pth",
        num_params=6_624_904,
        accuracy=(69.826, 89.404),
        min_size=(15, 15),
        gflops=1.498,
        mebibytes=12.618,
        unquantized=GoogLeNet_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1
