"""EfficientNet and EfficientNetV2: inverted residuals, scaled in width, depth and resolution together.

Reading order: the configuration of a stage, the two blocks, the network, the architectures, the builders.

References:
    Tan and Le 2019, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, arXiv:1905.11946.
    Tan and Le 2021, EfficientNetV2: Smaller Models and Faster Training, arXiv:2104.00298.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import (
    _make_divisible,
    build_classifier,
    handle_legacy_interface,
    require_configurations,
)
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from flambeau.vision.ops.stochastic_depth import StochasticDepth
from flambeau.vision.weights.efficientnet import (
    EfficientNet_B0_Weights,
    EfficientNet_B1_Weights,
    EfficientNet_B2_Weights,
    EfficientNet_B3_Weights,
    EfficientNet_B4_Weights,
    EfficientNet_B5_Weights,
    EfficientNet_B6_Weights,
    EfficientNet_B7_Weights,
    EfficientNet_V2_L_Weights,
    EfficientNet_V2_M_Weights,
    EfficientNet_V2_S_Weights,
)

__all__ = [
    "EfficientNet",
    "EfficientNet_B0_Weights",
    "EfficientNet_B1_Weights",
    "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights",
    "EfficientNet_B4_Weights",
    "EfficientNet_B5_Weights",
    "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights",
    "EfficientNet_V2_L_Weights",
    "EfficientNet_V2_M_Weights",
    "EfficientNet_V2_S_Weights",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_b3",
    "efficientnet_b4",
    "efficientnet_b5",
    "efficientnet_b6",
    "efficientnet_b7",
    "efficientnet_v2_l",
    "efficientnet_v2_m",
    "efficientnet_v2_s",
]


@dataclass
class _MBConvConfig:
    """One stage of a network.

    Attributes:
        expand_ratio: channels inside a block, in channels of its input.
        kernel: size of the spatial kernel.
        stride: of the first block.
        input_channels: channels of the stage's input.
        out_channels: channels of its output.
        num_layers: number of blocks.
        block: makes a block.
    """

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: Callable[..., nn.Module]

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """The number of channels at another width, a multiple of 8."""
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """One stage of inverted residuals: a row of table 1 of EfficientNet, or of table 4 of EfficientNetV2.

    Args:
        expand_ratio: channels inside a block, in channels of its input.
        kernel: size of the depthwise kernel.
        stride: of the first block.
        input_channels: channels of the stage's input, before scaling.
        out_channels: channels of its output, before scaling.
        num_layers: number of blocks, before scaling.
        width_mult: scales channels.
        depth_mult: scales the number of blocks.
        block: makes a block; `MBConv` by default.
    """

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__(
            expand_ratio,
            kernel,
            stride,
            self.adjust_channels(input_channels, width_mult),
            self.adjust_channels(out_channels, width_mult),
            self.adjust_depth(num_layers, depth_mult),
            block or MBConv,
        )

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        """The number of blocks at another depth, rounded up."""
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """One stage of fused inverted residuals, a row of table 4 of EfficientNetV2; arguments as `MBConvConfig`."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__(expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv)


class MBConv(nn.Module):
    """Widen by 1x1, filter each channel, gate, narrow by 1x1, with a shortcut between the narrow ends.

    Args:
        cnf: sizes.
        stochastic_depth_prob: probability to drop the branch for a sample in train mode.
        norm_layer: makes a normalization from a number of channels.
        se_layer: makes a gate from numbers of channels.

    Raises:
        ValueError: the stride is neither 1 nor 2.
    """

    def __init__(
        self,
        cnf: _MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = SqueezeExcitation,
    ) -> None:
        super().__init__()
        self.use_res_connect = _has_shortcut(cnf)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        inner = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        layers: list[nn.Module] = []
        if inner != cnf.input_channels:
            layers.append(conv(cnf.input_channels, inner, kernel_size=1))
        squeezed = max(1, cnf.input_channels // 4)
        layers += [
            conv(inner, inner, kernel_size=cnf.kernel, stride=cnf.stride, groups=inner),
            se_layer(inner, squeezed, activation=partial(nn.SiLU, inplace=True)),
            conv(inner, cnf.out_channels, kernel_size=1, activation_layer=None),
        ]
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, out_channels, H', W')."""
        result: Tensor = self.block(input)
        return self.stochastic_depth(result) + input if self.use_res_connect else result


class FusedMBConv(nn.Module):
    """Widen and filter by one convolution, narrow by 1x1 (figure 2 of EfficientNetV2).

    Args:
        cnf: sizes.
        stochastic_depth_prob: probability to drop the branch for a sample in train mode.
        norm_layer: makes a normalization from a number of channels.

    Raises:
        ValueError: the stride is neither 1 nor 2.
    """

    def __init__(self, cnf: _MBConvConfig, stochastic_depth_prob: float, norm_layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.use_res_connect = _has_shortcut(cnf)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        inner = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        spatial = partial(conv, cnf.input_channels, kernel_size=cnf.kernel, stride=cnf.stride)
        if inner != cnf.input_channels:
            narrow = conv(inner, cnf.out_channels, kernel_size=1, activation_layer=None)
            self.block = nn.Sequential(spatial(inner), narrow)
        else:
            self.block = nn.Sequential(spatial(cnf.out_channels))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, out_channels, H', W')."""
        result: Tensor = self.block(input)
        return self.stochastic_depth(result) + input if self.use_res_connect else result


def _has_shortcut(cnf: _MBConvConfig) -> bool:
    if cnf.stride not in (1, 2):
        raise ValueError(f"stride is {cnf.stride}, expected 1 or 2.")
    return cnf.stride == 1 and cnf.input_channels == cnf.out_channels


class EfficientNet(nn.Module):
    """A stem, stages of blocks, a 1x1 convolution, pooling and one linear layer.

    Args:
        inverted_residual_setting: one configuration per stage.
        dropout: probability to drop an input of the linear layer.
        stochastic_depth_prob: probability to drop the branch of the last block; it grows linearly from 0 at the first.
        num_classes: size of the output.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.
        last_channel: channels of the last convolution; four times those of the last stage by default.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on; the features before pooling
        have 1/32 of them, rounded up.

    Raises:
        ValueError: `inverted_residual_setting` is empty.
        TypeError: an element of it is no configuration.
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig | FusedMBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        expected = "MBConvConfig or FusedMBConvConfig"
        require_configurations("inverted_residual_setting", inverted_residual_setting, _MBConvConfig, expected)
        norm_layer = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        features: list[nn.Module] = [conv(3, inverted_residual_setting[0].input_channels, kernel_size=3, stride=2)]
        total = sum(cnf.num_layers for cnf in inverted_residual_setting)
        built = 0
        for cnf in inverted_residual_setting:
            stage = []
            for index in range(cnf.num_layers):
                own = copy.copy(cnf)
                if index > 0:
                    own.input_channels, own.stride = own.out_channels, 1
                stage.append(own.block(own, stochastic_depth_prob * built / total, norm_layer))
                built += 1
            features.append(nn.Sequential(*stage))
        last_stage = inverted_residual_setting[-1].out_channels
        width = 4 * last_stage if last_channel is None else last_channel
        features.append(conv(last_stage, width, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(width, num_classes))
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                bound = 1.0 / math.sqrt(module.out_features)
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return logits


# Table 1 of EfficientNet: expansion, kernel, stride, channels in, channels out, blocks.
_B0 = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)
# The stages of EfficientNetV2, those with fused blocks first; table 4 of its paper has the small one.
_V2_S = (
    ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)),
    ((4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
)
_V2_M = (
    ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)),
    ((4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)),
)
_V2_L = (
    ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)),
    ((4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)),
)
_Stages = tuple[tuple[int, int, int, int, int, int], ...]

_TENSORFLOW_NORM = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
_V2_NORM = partial(nn.BatchNorm2d, eps=0.001)


def _efficientnet(
    width_mult: float,
    depth_mult: float,
    published_dropout: float,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> EfficientNet:
    stages = [MBConvConfig(*row, width_mult=width_mult, depth_mult=depth_mult) for row in _B0]
    kwargs.setdefault("dropout", published_dropout)
    return build_classifier(EfficientNet, weights, stages, progress=progress, **kwargs)


def _efficientnet_v2(
    sizes: tuple[_Stages, _Stages],
    published_dropout: float,
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> EfficientNet:
    fused, plain = sizes
    stages = [*(FusedMBConvConfig(*row) for row in fused), *(MBConvConfig(*row) for row in plain)]
    kwargs.setdefault("norm_layer", _V2_NORM)
    kwargs.setdefault("dropout", published_dropout)
    kwargs.setdefault("last_channel", 1280)
    return build_classifier(EfficientNet, weights, stages, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B0_Weights.IMAGENET1K_V1))
def efficientnet_b0(
    *, weights: EfficientNet_B0_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B0: width 1.0, depth 1.0 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet(1.0, 1.0, 0.2, EfficientNet_B0_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B1_Weights.IMAGENET1K_V1))
def efficientnet_b1(
    *, weights: EfficientNet_B1_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B1: width 1.0, depth 1.1 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet(1.0, 1.1, 0.2, EfficientNet_B1_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B2_Weights.IMAGENET1K_V1))
def efficientnet_b2(
    *, weights: EfficientNet_B2_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B2: width 1.1, depth 1.2 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet(1.1, 1.2, 0.3, EfficientNet_B2_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B3_Weights.IMAGENET1K_V1))
def efficientnet_b3(
    *, weights: EfficientNet_B3_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B3: width 1.2, depth 1.4 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet(1.2, 1.4, 0.3, EfficientNet_B3_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B4_Weights.IMAGENET1K_V1))
def efficientnet_b4(
    *, weights: EfficientNet_B4_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B4: width 1.4, depth 1.8 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet(1.4, 1.8, 0.4, EfficientNet_B4_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B5_Weights.IMAGENET1K_V1))
def efficientnet_b5(
    *, weights: EfficientNet_B5_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B5: width 1.6, depth 2.2 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    kwargs.setdefault("norm_layer", _TENSORFLOW_NORM)
    return _efficientnet(1.6, 2.2, 0.4, EfficientNet_B5_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B6_Weights.IMAGENET1K_V1))
def efficientnet_b6(
    *, weights: EfficientNet_B6_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B6: width 1.8, depth 2.6 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    kwargs.setdefault("norm_layer", _TENSORFLOW_NORM)
    return _efficientnet(1.8, 2.6, 0.5, EfficientNet_B6_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_B7_Weights.IMAGENET1K_V1))
def efficientnet_b7(
    *, weights: EfficientNet_B7_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNet B7: width 2.0, depth 3.1 (Tan and Le 2019, arXiv:1905.11946).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    kwargs.setdefault("norm_layer", _TENSORFLOW_NORM)
    return _efficientnet(2.0, 3.1, 0.5, EfficientNet_B7_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_V2_S_Weights.IMAGENET1K_V1))
def efficientnet_v2_s(
    *, weights: EfficientNet_V2_S_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNetV2 small (Tan and Le 2021, arXiv:2104.00298).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet_v2(_V2_S, 0.2, EfficientNet_V2_S_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_V2_M_Weights.IMAGENET1K_V1))
def efficientnet_v2_m(
    *, weights: EfficientNet_V2_M_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNetV2 medium (Tan and Le 2021, arXiv:2104.00298).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet_v2(_V2_M, 0.3, EfficientNet_V2_M_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", EfficientNet_V2_L_Weights.IMAGENET1K_V1))
def efficientnet_v2_l(
    *, weights: EfficientNet_V2_L_Weights | None = None, progress: bool = True, **kwargs: Any
) -> EfficientNet:
    """EfficientNetV2 large (Tan and Le 2021, arXiv:2104.00298).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `EfficientNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _efficientnet_v2(_V2_L, 0.4, EfficientNet_V2_L_Weights.verify(weights), progress, **kwargs)
