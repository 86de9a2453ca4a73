"""VGG: stacks of 3x3 convolutions, each stack followed by pooling, and three linear layers.

Reading order: the table of architectures, the stacks, the network, the builders.

References:
    Simonyan and Zisserman 2014, Very Deep Convolutional Networks for Large-Scale Image Recognition, arXiv:1409.1556.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.vgg import (
    VGG11_BN_Weights,
    VGG11_Weights,
    VGG13_BN_Weights,
    VGG13_Weights,
    VGG16_BN_Weights,
    VGG16_Weights,
    VGG19_BN_Weights,
    VGG19_Weights,
)

__all__ = [
    "VGG",
    "VGG11_BN_Weights",
    "VGG11_Weights",
    "VGG13_BN_Weights",
    "VGG13_Weights",
    "VGG16_BN_Weights",
    "VGG16_Weights",
    "VGG19_BN_Weights",
    "VGG19_Weights",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

# Columns of table 1 of the paper: channels of each 3x3 convolution, "M" for maximum pooling by two.
cfgs: dict[str, tuple[int | str, ...]] = {
    "A": (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    "B": (64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    "D": (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"),
    "E": (64, 64, "M", 128, 128, "M", *4 * (256,), "M", *4 * (512,), "M", *4 * (512,), "M"),
}


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """The convolutional part of a network.

    Args:
        cfg: numbers of channels and "M" for pooling, such as a value of `cfgs`.
        batch_norm: normalize after each convolution.
    """
    layers: list[nn.Module] = []
    in_channels = 3
    for item in cfg:
        if isinstance(item, str):
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(in_channels, item, kernel_size=3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(item))
        layers.append(nn.ReLU(inplace=True))
        in_channels = item
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """A convolutional part, pooling to 7x7, and a perceptron with dropout.

    Args:
        features: maps (N, 3, H, W) to (N, 512, h, w), usually from `make_layers`.
        num_classes: size of the output.
        init_weights: initialize as the paper's authors later advised: He normal initialization by fan out for
            convolutions (arXiv:1502.01852), N(0, 0.01) for linear layers. False leaves what torch gives.
        dropout: probability to drop an output of the first two linear layers.

    Shape:
        (N, 3, H, W), floating point, H and W at least 32 -> (N, num_classes), logits.
    """

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return logits


def _vgg(cfg: str, batch_norm: bool, weights: WeightsEnum | None, progress: bool, **kwargs: Any) -> VGG:
    def build(**options: Any) -> VGG:
        return VGG(make_layers(cfgs[cfg], batch_norm), **options)

    return build_classifier(build, weights, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG11_Weights.IMAGENET1K_V1))
def vgg11(*, weights: VGG11_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-11 (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column A).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("A", False, VGG11_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG11_BN_Weights.IMAGENET1K_V1))
def vgg11_bn(*, weights: VGG11_BN_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-11 with batch normalization (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column A).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("A", True, VGG11_BN_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG13_Weights.IMAGENET1K_V1))
def vgg13(*, weights: VGG13_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-13 (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column B).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("B", False, VGG13_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG13_BN_Weights.IMAGENET1K_V1))
def vgg13_bn(*, weights: VGG13_BN_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-13 with batch normalization (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column B).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("B", True, VGG13_BN_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG16_Weights.IMAGENET1K_V1))
def vgg16(*, weights: VGG16_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-16 (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column D).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("D", False, VGG16_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG16_BN_Weights.IMAGENET1K_V1))
def vgg16_bn(*, weights: VGG16_BN_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-16 with batch normalization (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column D).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("D", True, VGG16_BN_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG19_Weights.IMAGENET1K_V1))
def vgg19(*, weights: VGG19_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-19 (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column E).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("E", False, VGG19_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", VGG19_BN_Weights.IMAGENET1K_V1))
def vgg19_bn(*, weights: VGG19_BN_Weights | None = None, progress: bool = True, **kwargs: Any) -> VGG:
    """VGG-19 with batch normalization (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column E).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VGG`; `device` and `dtype` place the weights without a copy in between.
    """
    return _vgg("E", True, VGG19_BN_Weights.verify(weights), progress, **kwargs)
