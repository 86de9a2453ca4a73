"""MobileNet v3: inverted residuals with gates and hard-swish, arranged by architecture search.

Reading order: the configuration of a block, the block, the network, the two architectures, the builders.

References:
    Howard et al. 2019, Searching for MobileNetV3, arXiv:1905.02244.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights, MobileNet_V3_Small_Weights

__all__ = [
    "MobileNetV3",
    "MobileNet_V3_Large_Weights",
    "MobileNet_V3_Small_Weights",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
]


class InvertedResidualConfig:
    """One row of tables 1 and 2 of the paper.

    Args:
        input_channels: channels of the input.
        kernel: size of the depthwise kernel.
        expanded_channels: channels between.
        out_channels: channels of the output.
        use_se: whether there is a gate (squeeze-and-excitation).
        activation: "RE" for ReLU, "HS" for hard-swish.
        stride: of the depthwise convolution.
        dilation: of the depthwise convolution; larger than 1, it replaces the stride.
        width_mult: scales all channels.
    """

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """The number of channels at another width, a multiple of 8."""
        return _make_divisible(channels * width_mult, 8)


_GATE = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidual(nn.Module):
    """Widen, filter each channel, gate, narrow, with a shortcut between the narrow ends (figure 4 of the paper).

    Args:
        cnf: sizes and options.
        norm_layer: makes a normalization from a number of channels.
        se_layer: makes a gate from numbers of channels.

    Raises:
        ValueError: the stride is neither 1 nor 2.
    """

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = _GATE,
    ) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError(f"stride is {cnf.stride}, expected 1 or 2.")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        conv = partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish if cnf.use_hs else nn.ReLU
        )
        inner = cnf.expanded_channels
        layers: list[nn.Module] = []
        if inner != cnf.input_channels:
            layers.append(conv(cnf.input_channels, inner, kernel_size=1))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(conv(inner, inner, kernel_size=cnf.kernel, stride=stride, dilation=cnf.dilation, groups=inner))
        if cnf.use_se:
            layers.append(se_layer(inner, _make_divisible(inner // 4, 8)))
        layers.append(conv(inner, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, out_channels, H', W')."""
        result: Tensor = self.block(input)
        return result + input if self.use_res_connect else result


class MobileNetV3(nn.Module):
    """A stem, inverted residuals, a 1x1 convolution, pooling and two linear layers.

    Args:
        inverted_residual_setting: one configuration per block.
        last_channel: size between the two linear layers.
        num_classes: size of the output.
        block: makes a block from its configuration and `norm_layer`; `InvertedResidual` by default.
        norm_layer: makes a normalization from a number of channels; batch normalization with eps 0.001 and momentum
            0.01 by default.
        dropout: probability to drop an input of the last layer.
        kwargs: ignored, for the sake of older callers.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on.

    Raises:
        ValueError: `inverted_residual_setting` is empty.
        TypeError: an element of it is no configuration.
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        name, kind = "inverted_residual_setting", InvertedResidualConfig
        require_configurations(name, inverted_residual_setting, kind, kind.__name__)
        block = block or InvertedResidual
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish)
        last_block = inverted_residual_setting[-1].out_channels
        self.features = nn.Sequential(
            conv(3, inverted_residual_setting[0].input_channels, kernel_size=3, stride=2),
            *(block(cnf, norm_layer) for cnf in inverted_residual_setting),
            conv(last_block, 6 * last_block, kernel_size=1),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * last_block, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return logits


# Rows: channels in, kernel, channels between, channels out, gate, activation, stride. The builders' options
# `reduced_tail` and `dilated` change the last three.
_Row = tuple[int, int, int, int, bool, str, int]
_LARGE: tuple[_Row, ...] = (
    (16, 3, 16, 16, False, "RE", 1),
    (16, 3, 64, 24, False, "RE", 2),
    (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2),
    (40, 5, 120, 40, True, "RE", 1),
    (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2),
    (80, 3, 200, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 480, 112, True, "HS", 1),
    (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2),
    (160, 5, 960, 160, True, "HS", 1),
    (160, 5, 960, 160, True, "HS", 1),
)
_SMALL: tuple[_Row, ...] = (
    (16, 3, 16, 16, True, "RE", 2),
    (16, 3, 72, 24, False, "RE", 2),
    (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2),
    (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1),
    (48, 5, 144, 48, True, "HS", 1),
    (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1),
    (96, 5, 576, 96, True, "HS", 1),
)
# Rows and size of the first linear layer.
_ARCHITECTURES = {"mobilenet_v3_large": (_LARGE, 1280), "mobilenet_v3_small": (_SMALL, 1024)}
_TAIL = 3  # blocks


def _mobilenet_v3_conf(
    arch: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> tuple[list[InvertedResidualConfig], int]:
    """The blocks of an architecture, and the size of its first linear layer.

    Args:
        arch: "mobilenet_v3_large" or "mobilenet_v3_small".
        width_mult: scales all channels.
        reduced_tail: halve the channels of the last three blocks (section 6.3 of the paper, for detection).
        dilated: dilate in the last three blocks instead of halving the resolution (section 6.4, for segmentation).
        kwargs: ignored, for the sake of callers that pass on all they have.

    Raises:
        ValueError: there is no such architecture.
    """
    if arch not in _ARCHITECTURES:
        raise ValueError(f"arch is {arch!r}, expected one of {list(_ARCHITECTURES)}.")
    rows, last_channel = _ARCHITECTURES[arch]
    divider = 2 if reduced_tail else 1
    dilation = 2 if dilated else 1
    blocks = []
    for index, (inputs, kernel, inner, outputs, gated, activation, stride) in enumerate(rows):
        place = index - (len(rows) - _TAIL)  # in the tail, negative before it
        blocks.append(
            InvertedResidualConfig(
                inputs // divider if place > 0 else inputs,
                kernel,
                inner // divider if place > 0 else inner,
                outputs // divider if place >= 0 else outputs,
                gated,
                activation,
                stride,
                dilation if place >= 0 else 1,
                width_mult,
            )
        )
    return blocks, InvertedResidualConfig.adjust_channels(last_channel // divider, width_mult)


def _mobilenet_v3(arch: str, weights: WeightsEnum | None, progress: bool, **kwargs: Any) -> MobileNetV3:
    shape = ("width_mult", "reduced_tail", "dilated")
    blocks, last_channel = _mobilenet_v3_conf(arch, **{key: kwargs.pop(key) for key in shape if key in kwargs})
    return build_classifier(MobileNetV3, weights, blocks, last_channel, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.3", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", MobileNet_V3_Large_Weights.IMAGENET1K_V1))
def mobilenet_v3_large(
    *, weights: MobileNet_V3_Large_Weights | None = None, progress: bool = True, **kwargs: Any
) -> MobileNetV3:
    """MobileNet v3 large (Howard et al. 2019, arXiv:1905.02244, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MobileNetV3`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mobilenet_v3("mobilenet_v3_large", MobileNet_V3_Large_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.3", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", MobileNet_V3_Small_Weights.IMAGENET1K_V1))
def mobilenet_v3_small(
    *, weights: MobileNet_V3_Small_Weights | None = None, progress: bool = True, **kwargs: Any
) -> MobileNetV3:
    """MobileNet v3 small (Howard et al. 2019, arXiv:1905.02244, table 2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MobileNetV3`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mobilenet_v3("mobilenet_v3_small", MobileNet_V3_Small_Weights.verify(weights), progress, **kwargs)
