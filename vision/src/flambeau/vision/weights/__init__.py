"""Catalogue of pretrained weights: one module per model family, facts only; nothing here imports torch."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.weights.alexnet import *
    from flambeau.vision.weights.densenet import *
    from flambeau.vision.weights.digits import *
    from flambeau.vision.weights.resnet import *
    from flambeau.vision.weights.squeezenet import *
    from flambeau.vision.weights.vgg import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "digits": ("DigitCNN_Weights",),
        "alexnet": ("AlexNet_Weights",),
        "vgg": (
            "VGG11_BN_Weights",
            "VGG11_Weights",
            "VGG13_BN_Weights",
            "VGG13_Weights",
            "VGG16_BN_Weights",
            "VGG16_Weights",
            "VGG19_BN_Weights",
            "VGG19_Weights",
        ),
        "squeezenet": (
            "SqueezeNet1_0_Weights",
            "SqueezeNet1_1_Weights",
        ),
        "densenet": (
            "DenseNet121_Weights",
            "DenseNet161_Weights",
            "DenseNet169_Weights",
            "DenseNet201_Weights",
        ),
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
