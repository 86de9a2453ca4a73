"""Weights of Inception v3 in 8-bit integers, trained on ImageNet-1K."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._quantized import calibrated
from flambeau.vision.weights.inception import Inception_V3_Weights

__all__ = ["Inception_V3_QuantizedWeights"]


class Inception_V3_QuantizedWeights(WeightsEnum):
    """Weights of `models.quantization.inception_v3`."""

    IMAGENET1K_FBGEMM_V1 = calibrated(
        "quantized/inception_v3_google_fbgemm-a2837893.pth",
        num_params=27_161_264,
        accuracy=(77.176, 93.354),
        preset={"crop_size": 299, "resize_size": 342},
        min_size=(75, 75),
        gflops=5.713,
        mebibytes=23.146,
        unquantized=Inception_V3_Weights.IMAGENET1K_V1,
    )
    DEFAULT = IMAGENET1K_FBGEMM_V1
