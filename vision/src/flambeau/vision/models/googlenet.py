"""GoogLeNet: modules that look at their input with kernels of several sizes side by side.

Reading order: convolution, the inception module, the auxiliary head, the network, the builder.

References:
    Szegedy et al. 2014, Going Deeper with Convolutions, arXiv:1409.4842.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface, without_layers
from flambeau.vision.weights.googlenet import GoogLeNet_Weights

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "googlenet"]


class GoogLeNetOutputs(NamedTuple):
    """What `GoogLeNet` returns in train mode with auxiliary heads: logits (N, num_classes), of the last head first.

    The paper adds the losses of the auxiliary heads with weight 0.3.
    """

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


_GoogLeNetOutputs = GoogLeNetOutputs


class BasicConv2d(nn.Module):
    """Convolution without bias, batch normalization, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches, concatenated: 1x1; 1x1 then 3x3; 1x1 then 3x3; pooling then 1x1 (figure 2b of the paper).

    The third branch has 5x5 kernels in the paper; the network that the weights come from has 3x3 there.

    Args:
        in_channels: channels of the input.
        ch1x1: channels of the first branch.
        ch3x3red: channels of the second branch before its 3x3 convolution.
        ch3x3: channels of the second branch.
        ch5x5red: channels of the third branch before its 3x3 convolution.
        ch5x5: channels of the third branch.
        pool_proj: channels of the fourth branch.
        conv_block: makes a convolution with normalization and activation; `BasicConv2d` by default.
    """

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            conv(in_channels, ch3x3red, kernel_size=1), conv(ch3x3red, ch3x3, kernel_size=3, padding=1)
        )
        self.branch3 = nn.Sequential(
            conv(in_channels, ch5x5red, kernel_size=1), conv(ch5x5red, ch5x5, kernel_size=3, padding=1)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
            conv(in_channels, pool_proj, kernel_size=1),
        )

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        return [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, ch1x1 + ch3x3 + ch5x5 + pool_proj, H, W)."""
        return torch.cat(self._forward(x), 1)


class InceptionAux(nn.Module):
    """Classifier of features halfway, which gives the layers before it a gradient of their own.

    Args:
        in_channels: channels of the input.
        num_classes: size of the output.
        conv_block: makes a convolution with normalization and activation; `BasicConv2d` by default.
        dropout: probability to drop an input of the last layer.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: Callable[..., nn.Module] | None = None,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(128 * 4 * 4, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map features (N, in_channels, H, W) to logits (N, num_classes)."""
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4)))
        x = self.dropout(F.relu(self.fc1(torch.flatten(x, 1)), inplace=True))
        logits: Tensor = self.fc2(x)
        return logits


class GoogLeNet(nn.Module):
    """A stem, nine inception modules, pooling and one linear layer, with two auxiliary heads for training.

    Args:
        num_classes: size of the output.
        aux_logits: whether there are auxiliary heads.
        transform_input: expect pictures normalized with ImageNet's mean and standard deviation, as presets give them,
            and change that to mean and deviation 0.5, which the published weights were trained with.
        init_weights: truncated normal initialization with deviation 0.01; None means True, False leaves what torch
            gives.
        blocks: what makes convolutions, inception modules and auxiliary heads; `BasicConv2d`, `Inception` and
            `InceptionAux` by default.
        dropout: probability to drop an input of the linear layer.
        dropout_aux: the same for auxiliary heads.

    Shape:
        (N, 3, H, W), floating point, H and W at least 15 -> (N, num_classes), logits; in train mode with auxiliary
        heads `GoogLeNetOutputs`.

    Raises:
        ValueError: `blocks` has not three elements.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: Sequence[Callable[..., nn.Module]] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        conv, inception, aux = (BasicConv2d, Inception, InceptionAux) if blocks is None else _three(blocks)
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a = inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = inception(256, 128, 128, 192, 32, 96, 64)
        self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception4a = inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = inception(528, 256, 160, 320, 32, 128, 128)
        self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.inception5a = inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = inception(832, 384, 192, 384, 48, 128, 128)
        self.aux1 = aux(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = aux(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        if init_weights is None or init_weights:
            for module in self.modules():
                if isinstance(module, (nn.Conv2d, nn.Linear)):
                    nn.init.trunc_normal_(module.weight, mean=0.0, std=0.01, a=-2, b=2)

    def _transform_input(self, x: Tensor) -> Tensor:
        return normalized_to_half(x) if self.transform_input else x

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits, and those of the second and the first auxiliary head, None where they do not run."""
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        x = self.inception4a(x)
        aux1 = self.aux1(x) if self.aux1 is not None and self.training else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x) if self.aux2 is not None and self.training else None
        x = self.maxpool4(self.inception4e(x))
        x = self.inception5b(self.inception5a(x))
        x = self.fc(self.dropout(torch.flatten(self.avgpool(x), 1)))
        return x, aux2, aux1

    def eager_outputs(self, x: Tensor, aux2: Tensor | None, aux1: Tensor | None) -> Tensor | GoogLeNetOutputs:
        """What `forward` returns for these logits: all in train mode with auxiliary heads, else the first."""
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        """Map images (N, 3, H, W) to logits (N, num_classes), in train mode together with those of auxiliary heads."""
        return self.eager_outputs(*self._forward(self._transform_input(x)))


def _three(blocks: Sequence[Callable[..., nn.Module]]) -> Sequence[Callable[..., nn.Module]]:
    if len(blocks) != 3:
        raise ValueError(f"blocks has {len(blocks)} elements, expected 3: convolution, inception module, head.")
    return blocks


def normalized_to_half(x: Tensor) -> Tensor:
    """Renormalize pictures from ImageNet's mean and deviation to mean and deviation 0.5.

    Args:
        x: (N, 3, H, W), `(picture - mean) / deviation` with mean (0.485, 0.456, 0.406) and deviation (0.229, 0.224,
            0.225).

    Returns:
        `(picture - 0.5) / 0.5`, shape and memory format kept.
    """
    red = x[:, 0:1] * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
    green = x[:, 1:2] * (0.224 / 0.5) + (0.456 - 0.5) / 0.5
    blue = x[:, 2:3] * (0.225 / 0.5) + (0.406 - 0.5) / 0.5
    return torch.cat((red, green, blue), 1)


@register_model(task="image-classification", tags=("imagenet",), head=("fc", "aux1.fc2", "aux2.fc2"), stem="conv1.conv")
@handle_legacy_interface(weights=("pretrained", GoogLeNet_Weights.IMAGENET1K_V1))
def googlenet(*, weights: GoogLeNet_Weights | None = None, progress: bool = True, **kwargs: Any) -> GoogLeNet:
    """GoogLeNet with batch normalization (Szegedy et al. 2014, arXiv:1409.4842, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `GoogLeNet`; `device` and `dtype` place the weights without a copy in between.
    """
    chosen = GoogLeNet_Weights.verify(weights)
    if chosen is not None:
        kwargs.setdefault("transform_input", True)
        kwargs.setdefault("aux_logits", False)
        if kwargs["aux_logits"]:
            warnings.warn("The auxiliary heads of these GoogLeNet weights are not trained: train them.", stacklevel=3)
        else:
            kwargs["convert"] = partial(without_layers, prefix="aux")
    return build_classifier(GoogLeNet, chosen, progress=progress, **kwargs)
