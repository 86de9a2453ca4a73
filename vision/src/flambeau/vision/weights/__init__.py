"""Catalogue of pretrained weights: one module per model family, facts only; nothing here imports torch."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.weights.digits import *
    from flambeau.vision.weights.resnet import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "digits": ("DigitCNN_Weights",),
        "resnet": (
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
        ),
    },
    submodules=("categories",),
)
