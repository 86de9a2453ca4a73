"""DenseNet: within a block, each layer reads the outputs of all layers before it.

Reading order: layer, block, transition, network, builders.

References:
    Huang et al. 2016, Densely Connected Convolutional Networks, arXiv:1608.06993.
    Pleiss et al. 2017, Memory-Efficient Implementation of DenseNets, arXiv:1707.06990.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.densenet import (
    DenseNet121_Weights,
    DenseNet161_Weights,
    DenseNet169_Weights,
    DenseNet201_Weights,
)

__all__ = [
    "DenseNet",
    "DenseNet121_Weights",
    "DenseNet161_Weights",
    "DenseNet169_Weights",
    "DenseNet201_Weights",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
]


class _DenseLayer(nn.Module):
    """Normalize and squeeze what came before by a 1x1 convolution, then compute `growth_rate` new channels by a 3x3.

    Args:
        num_input_features: channels of all inputs together.
        growth_rate: channels of the output.
        bn_size: the bottleneck has `bn_size * growth_rate` channels.
        drop_rate: probability to drop an element of the output.
        memory_efficient: compute the bottleneck again in the backward pass instead of keeping it.
    """

    def __init__(
        self,
        num_input_features: int,
        growth_rate: int,
        bn_size: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def bn_function(self, *inputs: Tensor) -> Tensor:
        """The bottleneck of the concatenated inputs."""
        bottleneck: Tensor = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        return bottleneck

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        """New channels (N, growth_rate, H, W) from one tensor, or from several that are concatenated."""
        inputs = [input] if isinstance(input, Tensor) else list(input)
        if self.memory_efficient and any(each.requires_grad for each in inputs):
            bottleneck = checkpoint(self.bn_function, *inputs, use_reentrant=False)
        else:
            bottleneck = self.bn_function(*inputs)
        new_features: Tensor = self.conv2(self.relu2(self.norm2(bottleneck)))
        if self.drop_rate > 0:
            new_features = F.dropout(new_features, p=self.drop_rate, training=self.training)
        return new_features


class _DenseBlock(nn.ModuleDict):
    """Layers that each read the block's input and all outputs so far; the result is all of them, concatenated."""

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for index in range(num_layers):
            width = num_input_features + index * growth_rate
            self[f"denselayer{index + 1}"] = _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class _Transition(nn.Sequential):
    """Between blocks: change the number of channels, halve height and width."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """A stem, four dense blocks with transitions that halve channels and resolution, pooling and one linear layer.

    Args:
        growth_rate: channels that each layer adds (k in the paper).
        block_config: number of layers in each block.
        num_init_features: channels of the stem.
        bn_size: width of the bottlenecks, in growth rates.
        drop_rate: probability to drop an element of a layer's output.
        num_classes: size of the output.
        memory_efficient: compute bottlenecks again in the backward pass: slower, with less memory.

    Shape:
        (N, 3, H, W), floating point, H and W at least 29 -> (N, num_classes), logits.
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict[str, nn.Module](
                conv0=nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False),
                norm0=nn.BatchNorm2d(num_init_features),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            )
        )
        width = num_init_features
        for number, layers in enumerate(block_config, start=1):
            block = _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{number}", block)
            width += layers * growth_rate
            if number < len(block_config):
                self.features.add_module(f"transition{number}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        features = F.relu(self.features(x))
        logits: Tensor = self.classifier(torch.flatten(F.adaptive_avg_pool2d(features, (1, 1)), 1))
        return logits


_OLD_NAME = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.\w+)")


def _current_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Published files name layers as modules may no longer be called: `norm.1` for `norm1`."""
    return {_OLD_NAME.sub(r"\1\2", name): value for name, value in state.items()}


def _densenet(
    growth_rate: int,
    block_config: tuple[int, int, int, int],
    num_init_features: int,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> DenseNet:
    sizes = (growth_rate, block_config, num_init_features)
    return build_classifier(DenseNet, weights, *sizes, progress=progress, convert=_current_names, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier", stem="features.conv0")
@handle_legacy_interface(weights=("pretrained", DenseNet121_Weights.IMAGENET1K_V1))
def densenet121(*, weights: DenseNet121_Weights | None = None, progress: bool = True, **kwargs: Any) -> DenseNet:
    """DenseNet-121 (Huang et al. 2016, arXiv:1608.06993, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `DenseNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _densenet(32, (6, 12, 24, 16), 64, DenseNet121_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier", stem="features.conv0")
@handle_legacy_interface(weights=("pretrained", DenseNet161_Weights.IMAGENET1K_V1))
def densenet161(*, weights: DenseNet161_Weights | None = None, progress: bool = True, **kwargs: Any) -> DenseNet:
    """DenseNet-161, the widest of the authors' networks, with growth rate 48 (Huang et al. 2016, arXiv:1608.06993).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `DenseNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _densenet(48, (6, 12, 36, 24), 96, DenseNet161_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier", stem="features.conv0")
@handle_legacy_interface(weights=("pretrained", DenseNet169_Weights.IMAGENET1K_V1))
def densenet169(*, weights: DenseNet169_Weights | None = None, progress: bool = True, **kwargs: Any) -> DenseNet:
    """DenseNet-169 (Huang et al. 2016, arXiv:1608.06993, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `DenseNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _densenet(32, (6, 12, 32, 32), 64, DenseNet169_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier", stem="features.conv0")
@handle_legacy_interface(weights=("pretrained", DenseNet201_Weights.IMAGENET1K_V1))
def densenet201(*, weights: DenseNet201_Weights | None = None, progress: bool = True, **kwargs: Any) -> DenseNet:
    """DenseNet-201 (Huang et al. 2016, arXiv:1608.06993, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `DenseNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _densenet(32, (6, 12, 48, 32), 64, DenseNet201_Weights.verify(weights), progress, **kwargs)
