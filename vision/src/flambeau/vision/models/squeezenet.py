"""SqueezeNet: fire modules, which squeeze channels by 1x1 convolutions before the 3x3 ones, and no linear layer.

References:
    Iandola et al. 2016, SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size,
    arXiv:1602.07360.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.squeezenet import SqueezeNet1_0_Weights, SqueezeNet1_1_Weights

__all__ = ["SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0", "squeezenet1_1"]

# Channels and kernel of the first convolution.
_STEMS = {"1_0": (96, 7), "1_1": (64, 3)}
# Per fire module: squeeze channels, channels of either expansion; "M" for pooling.
_MODULES: dict[str, tuple[tuple[int, int] | str, ...]] = {
    "1_0": (
        "M",
        *((16, 64), (16, 64), (32, 128), "M"),
        *((32, 128), (48, 192), (48, 192), (64, 256), "M"),
        (64, 256),
    ),
    "1_1": (
        "M",
        *((16, 64), (16, 64), "M"),
        *((32, 128), (32, 128), "M"),
        *((48, 192), (48, 192), (64, 256), (64, 256)),
    ),
}


class Fire(nn.Module):
    """Squeeze channels, then expand them by 1x1 and 3x3 convolutions side by side (figure 1 of the paper).

    Args:
        inplanes: channels of the input.
        squeeze_planes: channels between.
        expand1x1_planes: channels that 1x1 convolutions give.
        expand3x3_planes: channels that 3x3 convolutions give.

    Shape:
        (N, inplanes, H, W) -> (N, expand1x1_planes + expand3x3_planes, H, W).
    """

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate both expansions of the squeezed input."""
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet(nn.Module):
    """A stem, eight fire modules, and a convolution that gives one map per class, which is averaged.

    Args:
        version: "1_0" is the network of the paper; "1_1", by its authors too, needs 2.4 times less computation.
        num_classes: size of the output.
        dropout: probability to drop an element before the last convolution.

    Shape:
        (N, 3, H, W), floating point, H and W at least 21 (1_0) or 17 (1_1) -> (N, num_classes), not negative.

    Raises:
        ValueError: there is no such version.
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _STEMS:
            raise ValueError(f"version is {version!r}, expected one of {list(_STEMS)}.")
        self.num_classes = num_classes
        self.features = _features(version)
        final_conv = nn.Conv2d(512, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), final_conv, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is final_conv:
                    nn.init.normal_(module.weight, mean=0.0, std=0.01)
                else:
                    nn.init.kaiming_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to scores (N, num_classes)."""
        return torch.flatten(self.classifier(self.features(x)), 1)


def _features(version: str) -> nn.Sequential:
    channels, kernel = _STEMS[version]
    layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel_size=kernel, stride=2), nn.ReLU(inplace=True)]
    inplanes = channels
    for item in _MODULES[version]:
        if isinstance(item, str):
            layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
        else:
            squeeze, expand = item
            layers.append(Fire(inplanes, squeeze, expand, expand))
            inplanes = 2 * expand
    return nn.Sequential(*layers)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0")
@handle_legacy_interface(weights=("pretrained", SqueezeNet1_0_Weights.IMAGENET1K_V1))
def squeezenet1_0(*, weights: SqueezeNet1_0_Weights | None = None, progress: bool = True, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0 (Iandola et al. 2016, arXiv:1602.07360).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SqueezeNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return build_classifier(SqueezeNet, SqueezeNet1_0_Weights.verify(weights), "1_0", progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0")
@handle_legacy_interface(weights=("pretrained", SqueezeNet1_1_Weights.IMAGENET1K_V1))
def squeezenet1_1(*, weights: SqueezeNet1_1_Weights | None = None, progress: bool = True, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1, the smaller version that the authors of arXiv:1602.07360 published later.

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `SqueezeNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return build_classifier(SqueezeNet, SqueezeNet1_1_Weights.verify(weights), "1_1", progress=progress, **kwargs)
