"""ConvNeXt: a residual network with the layout and the details of a hierarchical transformer.

Reading order: normalization, the block, the configuration of a stage, the network, the builders.

References:
    Liu et al. 2022, A ConvNet for the 2020s, arXiv:2201.03545.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface, require_configurations
from flambeau.vision.ops.misc import Conv2dNormActivation, Permute
from flambeau.vision.ops.stochastic_depth import StochasticDepth
from flambeau.vision.weights.convnext import (
    ConvNeXt_Base_Weights,
    ConvNeXt_Large_Weights,
    ConvNeXt_Small_Weights,
    ConvNeXt_Tiny_Weights,
)

__all__ = [
    "ConvNeXt",
    "ConvNeXt_Base_Weights",
    "ConvNeXt_Large_Weights",
    "ConvNeXt_Small_Weights",
    "ConvNeXt_Tiny_Weights",
    "convnext_base",
    "convnext_large",
    "convnext_small",
    "convnext_tiny",
]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of each pixel of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize; the result is channels_last in memory, as the next convolution likes it."""
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """Depthwise 7x7, then a perceptron for each pixel, scaled and added to the input (figure 4 of the paper).

    Args:
        dim: channels of input and output.
        layer_scale: first value of the scale that each channel of the branch learns.
        stochastic_depth_prob: probability to drop the branch for a sample in train mode.
        norm_layer: makes the normalization of the last dimension; layer normalization with eps 1e-6 by default.
    """

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm_layer(dim),
            nn.Linear(dim, 4 * dim, bias=True),
            nn.GELU(),
            nn.Linear(4 * dim, dim, bias=True),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(torch.full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, dim, H, W) to the same shape."""
        result: Tensor = self.stochastic_depth(self.layer_scale * self.block(input))
        return result + input


@dataclass
class CNBlockConfig:
    """One stage: channels in, channels after it (None for the last stage), number of blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """A stem that reads patches of 4x4, stages of blocks with halving between them, pooling and one linear layer.

    Args:
        block_setting: one configuration per stage.
        stochastic_depth_prob: probability to drop the branch of the last block; it grows linearly from 0 at the first.
        layer_scale: first value of the learned scale of each block.
        num_classes: size of the output.
        block: makes a block from channels, `layer_scale` and a probability; `CNBlock` by default.
        norm_layer: makes a normalization of channels; `LayerNorm2d` with eps 1e-6 by default.
        kwargs: ignored, for the sake of older callers.

    Shape:
        (N, 3, H, W), floating point, H and W at least 32 -> (N, num_classes), logits.

    Raises:
        ValueError: `block_setting` is empty.
        TypeError: an element of it is no configuration.
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        require_configurations("block_setting", block_setting, CNBlockConfig, "CNBlockConfig")
        block = block or CNBlock
        norm_layer = norm_layer or partial(LayerNorm2d, eps=1e-6)
        features: list[nn.Module] = [
            Conv2dNormActivation(
                3,
                block_setting[0].input_channels,
                kernel_size=4,
                stride=4,
                padding=0,
                norm_layer=norm_layer,
                activation_layer=None,
                bias=True,
            )
        ]
        total = sum(cnf.num_layers for cnf in block_setting)
        built = 0
        for cnf in block_setting:
            stage = []
            for _ in range(cnf.num_layers):
                probability = stochastic_depth_prob * built / max(1, total - 1)
                stage.append(block(cnf.input_channels, layer_scale, probability))
                built += 1
            features.append(nn.Sequential(*stage))
            if cnf.out_channels is not None:
                halving = nn.Conv2d(cnf.input_channels, cnf.out_channels, kernel_size=2, stride=2)
                features.append(nn.Sequential(norm_layer(cnf.input_channels), halving))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        width = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm_layer(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)))
        return logits


def _convnext(
    widths: Sequence[int],
    depths: Sequence[int],
    stochastic_depth_prob: float,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> ConvNeXt:
    following = [*widths[1:], None]
    stages = [CNBlockConfig(*sizes) for sizes in zip(widths, following, depths, strict=True)]
    kwargs.setdefault("stochastic_depth_prob", stochastic_depth_prob)
    return build_classifier(ConvNeXt, weights, stages, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.2", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", ConvNeXt_Tiny_Weights.IMAGENET1K_V1))
def convnext_tiny(*, weights: ConvNeXt_Tiny_Weights | None = None, progress: bool = True, **kwargs: Any) -> ConvNeXt:
    """ConvNeXt tiny (Liu et al. 2022, arXiv:2201.03545, section 3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ConvNeXt`; `device` and `dtype` place the weights without a copy in between.
    """
    return _convnext((96, 192, 384, 768), (3, 3, 9, 3), 0.1, ConvNeXt_Tiny_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.2", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", ConvNeXt_Small_Weights.IMAGENET1K_V1))
def convnext_small(*, weights: ConvNeXt_Small_Weights | None = None, progress: bool = True, **kwargs: Any) -> ConvNeXt:
    """ConvNeXt small (Liu et al. 2022, arXiv:2201.03545, section 3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ConvNeXt`; `device` and `dtype` place the weights without a copy in between.
    """
    return _convnext(
        (96, 192, 384, 768), (3, 3, 27, 3), 0.4, ConvNeXt_Small_Weights.verify(weights), progress, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="classifier.2", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", ConvNeXt_Base_Weights.IMAGENET1K_V1))
def convnext_base(*, weights: ConvNeXt_Base_Weights | None = None, progress: bool = True, **kwargs: Any) -> ConvNeXt:
    """ConvNeXt base (Liu et al. 2022, arXiv:2201.03545, section 3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ConvNeXt`; `device` and `dtype` place the weights without a copy in between.
    """
    return _convnext(
        (128, 256, 512, 1024), (3, 3, 27, 3), 0.5, ConvNeXt_Base_Weights.verify(weights), progress, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="classifier.2", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", ConvNeXt_Large_Weights.IMAGENET1K_V1))
def convnext_large(*, weights: ConvNeXt_Large_Weights | None = None, progress: bool = True, **kwargs: Any) -> ConvNeXt:
    """ConvNeXt large (Liu et al. 2022, arXiv:2201.03545, section 3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ConvNeXt`; `device` and `dtype` place the weights without a copy in between.
    """
    return _convnext(
        (192, 384, 768, 1536), (3, 3, 27, 3), 0.5, ConvNeXt_Large_Weights.verify(weights), progress, **kwargs
    )
