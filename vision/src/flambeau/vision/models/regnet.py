"""RegNet: networks whose widths and depths follow a quantized linear function.

Reading order: parts of a block, the block, a stage, the parameters of a network, the network, the builders.

References:
    Radosavovic et al. 2020, Designing Network Design Spaces, arXiv:2003.13678.
    Singh et al. 2022, Revisiting Weakly Supervised Pre-Training of Visual Perception Models (SWAG), arXiv:2201.08371.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _make_divisible, build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from flambeau.vision.weights.regnet import (
    RegNet_X_1_6GF_Weights,
    RegNet_X_3_2GF_Weights,
    RegNet_X_8GF_Weights,
    RegNet_X_16GF_Weights,
    RegNet_X_32GF_Weights,
    RegNet_X_400MF_Weights,
    RegNet_X_800MF_Weights,
    RegNet_Y_1_6GF_Weights,
    RegNet_Y_3_2GF_Weights,
    RegNet_Y_8GF_Weights,
    RegNet_Y_16GF_Weights,
    RegNet_Y_32GF_Weights,
    RegNet_Y_128GF_Weights,
    RegNet_Y_400MF_Weights,
    RegNet_Y_800MF_Weights,
)

__all__ = [
    "RegNet",
    "RegNet_X_1_6GF_Weights",
    "RegNet_X_3_2GF_Weights",
    "RegNet_X_8GF_Weights",
    "RegNet_X_16GF_Weights",
    "RegNet_X_32GF_Weights",
    "RegNet_X_400MF_Weights",
    "RegNet_X_800MF_Weights",
    "RegNet_Y_1_6GF_Weights",
    "RegNet_Y_3_2GF_Weights",
    "RegNet_Y_8GF_Weights",
    "RegNet_Y_16GF_Weights",
    "RegNet_Y_32GF_Weights",
    "RegNet_Y_128GF_Weights",
    "RegNet_Y_400MF_Weights",
    "RegNet_Y_800MF_Weights",
    "regnet_x_1_6gf",
    "regnet_x_3_2gf",
    "regnet_x_8gf",
    "regnet_x_16gf",
    "regnet_x_32gf",
    "regnet_x_400mf",
    "regnet_x_800mf",
    "regnet_y_1_6gf",
    "regnet_y_3_2gf",
    "regnet_y_8gf",
    "regnet_y_16gf",
    "regnet_y_32gf",
    "regnet_y_128gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
]

Layer = Callable[..., nn.Module]


class SimpleStemIN(Conv2dNormActivation):
    """3x3 convolution with stride 2, normalization, activation."""

    def __init__(self, width_in: int, width_out: int, norm_layer: Layer, activation_layer: Layer) -> None:
        super().__init__(
            width_in, width_out, kernel_size=3, stride=2, norm_layer=norm_layer, activation_layer=activation_layer
        )


class BottleneckTransform(nn.Sequential):
    """1x1, grouped 3x3, an optional gate, 1x1 (figure 4 of the paper; the gate makes it a Y block).

    Args:
        width_in: channels of the input.
        width_out: channels of the output.
        stride: of the 3x3 convolution.
        norm_layer: makes a normalization from a number of channels.
        activation_layer: makes an activation.
        group_width: channels of each group of the 3x3 convolution.
        bottleneck_multiplier: channels between, in channels of the output.
        se_ratio: width of the gate's hidden layer, in channels of the input; None or 0 leaves the gate out.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        inner = round(width_out * bottleneck_multiplier)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer)
        layers = OrderedDict[str, nn.Module](
            a=conv(width_in, inner, kernel_size=1),
            b=conv(inner, inner, kernel_size=3, stride=stride, groups=inner // group_width),
        )
        if se_ratio:
            # The hidden layer is measured by the block's input, not by its inner channels.
            layers["se"] = SqueezeExcitation(inner, round(se_ratio * width_in), activation=activation_layer)
        layers["c"] = conv(inner, width_out, kernel_size=1, activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """Bottleneck with a shortcut, which is projected where the shape changes; arguments as `BottleneckTransform`."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int = 1,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> None:
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            self.proj = Conv2dNormActivation(
                width_in, width_out, kernel_size=1, stride=stride, norm_layer=norm_layer, activation_layer=None
            )
        self.f = BottleneckTransform(
            width_in,
            width_out,
            stride,
            norm_layer,
            activation_layer,
            group_width,
            bottleneck_multiplier,
            se_ratio,
        )
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, width_in, H, W) to (N, width_out, H', W')."""
        shortcut = x if self.proj is None else self.proj(x)
        out: Tensor = self.activation(shortcut + self.f(x))
        return out


class AnyStage(nn.Sequential):
    """Blocks of one resolution; the first changes width and resolution.

    Args:
        width_in: channels of the input.
        width_out: channels of the output.
        stride: of the first block.
        depth: number of blocks.
        block_constructor: makes a block.
        norm_layer: makes a normalization from a number of channels.
        activation_layer: makes an activation.
        group_width: channels of each group.
        bottleneck_multiplier: channels inside a block, in channels of its output.
        se_ratio: as in `BottleneckTransform`.
        stage_index: number of the stage, from 1, part of the blocks' names.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block_constructor: Layer,
        norm_layer: Layer,
        activation_layer: Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        for index in range(depth):
            block = block_constructor(
                width_in if index == 0 else width_out,
                width_out,
                stride if index == 0 else 1,
                norm_layer,
                activation_layer,
                group_width,
                bottleneck_multiplier,
                se_ratio,
            )
            self.add_module(f"block{stage_index}-{index}", block)


@dataclass
class BlockParams:
    """Sizes of the stages of a network, one list element per stage.

    Attributes:
        depths: number of blocks.
        widths: channels.
        group_widths: channels of each group of the 3x3 convolutions, a divisor of the channels inside a block.
        bottleneck_multipliers: channels inside a block, in channels of its output.
        strides: of the first block.
        se_ratio: as in `BottleneckTransform`, for all stages.
    """

    depths: list[int]
    widths: list[int]
    group_widths: list[int]
    bottleneck_multipliers: list[float]
    strides: list[int]
    se_ratio: float | None = None

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
        **kwargs: Any,
    ) -> BlockParams:
        """The stages of a network, from the few numbers that a design space consists of.

        Block j of `depth` asks for width `w_0 + w_a * j`. This is rounded to `w_0 * w_m ** s` for a whole s, then to a
        multiple of 8; blocks of equal width are a stage (equations 2 to 4 of the paper). At last widths are made
        multiples of the group width.

        Args:
            depth: number of blocks.
            w_0: width of the first block, a multiple of 8.
            w_a: slope of the width.
            w_m: factor between the widths of neighbouring stages, > 1.
            group_width: channels of each group.
            bottleneck_multiplier: channels inside a block, in channels of its output.
            se_ratio: as in `BottleneckTransform`.
            kwargs: ignored, for the sake of callers that pass on all they have.

        Raises:
            ValueError: the numbers are outside their ranges.

        Example:
            >>> BlockParams.from_init_params(depth=16, w_0=48, w_a=27.89, w_m=2.09, group_width=8).widths
            [48, 104, 208, 440]
        """
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError(
                f"Invalid RegNet settings: w_0={w_0}, w_a={w_a}, w_m={w_m}; expected w_0 a positive multiple of 8, w_a "
                "at least 0, w_m above 1."
            )
        # Plain floats, not tensors: a constructor runs on the meta device too.
        capacities = [round(math.log((w_0 + w_a * block) / w_0) / math.log(w_m)) for block in range(depth)]
        per_block = [int(round(w_0 * w_m**capacity / 8) * 8) for capacity in capacities]
        stages = [(width, len(list(blocks))) for width, blocks in groupby(per_block)]
        widths, group_widths = cls._adjust_widths_groups_compatibilty(
            [width for width, _ in stages],
            [bottleneck_multiplier] * len(stages),
            [group_width] * len(stages),
        )
        return cls(
            depths=[blocks for _, blocks in stages],
            widths=widths,
            group_widths=group_widths,
            bottleneck_multipliers=[bottleneck_multiplier] * len(stages),
            strides=[2] * len(stages),
            se_ratio=se_ratio,
        )

    def _get_expanded_params(self) -> Iterator[tuple[int, int, int, int, float]]:
        """Width, stride, depth, group width and bottleneck multiplier of each stage."""
        return zip(self.widths, self.strides, self.depths, self.group_widths, self.bottleneck_multipliers, strict=True)

    @staticmethod
    def _adjust_widths_groups_compatibilty(
        stage_widths: Sequence[int], bottleneck_ratios: Sequence[float], group_widths: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Widths whose inner channels are multiples of group widths, and group widths no larger than these."""
        inner = [int(width * ratio) for width, ratio in zip(stage_widths, bottleneck_ratios, strict=True)]
        groups = [min(group, width) for group, width in zip(group_widths, inner, strict=True)]
        inner = [_make_divisible(width, group) for width, group in zip(inner, groups, strict=True)]
        return [int(width / ratio) for width, ratio in zip(inner, bottleneck_ratios, strict=True)], groups


class RegNet(nn.Module):
    """A stem, four stages of blocks, pooling and one linear layer.

    Args:
        block_params: sizes of the stages.
        num_classes: size of the output.
        stem_width: channels of the stem.
        stem_type: makes the stem; `SimpleStemIN` by default.
        block_type: makes a block; `ResBottleneckBlock` by default.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.
        activation: makes an activation; ReLU by default.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on; the features before pooling
        have 1/32 of them, rounded up.
    """

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: Layer | None = None,
        block_type: Layer | None = None,
        norm_layer: Layer | None = None,
        activation: Layer | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        activation = activation or nn.ReLU
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, norm_layer, activation)
        stages = OrderedDict[str, nn.Module]()
        width = stem_width
        for number, sizes in enumerate(block_params._get_expanded_params(), start=1):
            width_out, stride, depth, group_width, bottleneck_multiplier = sizes
            stages[f"block{number}"] = AnyStage(
                width,
                width_out,
                stride,
                depth,
                block_type or ResBottleneckBlock,
                norm_layer,
                activation,
                group_width,
                bottleneck_multiplier,
                block_params.se_ratio,
                stage_index=number,
            )
            width = width_out
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # As the authors did: the fan out of a grouped convolution counts all groups.
                fan_out = math.prod(module.kernel_size) * module.out_channels
                nn.init.normal_(module.weight, mean=0.0, std=math.sqrt(2.0 / fan_out))
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0.0, std=0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        x = self.avgpool(self.trunk_output(self.stem(x)))
        logits: Tensor = self.fc(torch.flatten(x, 1))
        return logits


def _regnet(
    depth: int,
    w_0: int,
    w_a: float,
    w_m: float,
    group_width: int,
    weights: WeightsEnum | None,
    progress: bool,
    se_ratio: float | None = None,
    **kwargs: Any,
) -> RegNet:
    params = BlockParams.from_init_params(depth, w_0, w_a, w_m, group_width, se_ratio=se_ratio)
    kwargs.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return build_classifier(RegNet, weights, params, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_400MF_Weights.IMAGENET1K_V1))
def regnet_y_400mf(*, weights: RegNet_Y_400MF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 400 million multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(16, 48, 27.89, 2.09, 8, RegNet_Y_400MF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_800MF_Weights.IMAGENET1K_V1))
def regnet_y_800mf(*, weights: RegNet_Y_800MF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 800 million multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(14, 56, 38.84, 2.4, 16, RegNet_Y_800MF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_1_6GF_Weights.IMAGENET1K_V1))
def regnet_y_1_6gf(*, weights: RegNet_Y_1_6GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 1.6 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(27, 48, 20.71, 2.65, 24, RegNet_Y_1_6GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_3_2GF_Weights.IMAGENET1K_V1))
def regnet_y_3_2gf(*, weights: RegNet_Y_3_2GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 3.2 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(21, 80, 42.63, 2.66, 24, RegNet_Y_3_2GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_8GF_Weights.IMAGENET1K_V1))
def regnet_y_8gf(*, weights: RegNet_Y_8GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 8 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(17, 192, 76.82, 2.19, 56, RegNet_Y_8GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_16GF_Weights.IMAGENET1K_V1))
def regnet_y_16gf(*, weights: RegNet_Y_16GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 16 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(18, 200, 106.23, 2.48, 112, RegNet_Y_16GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_Y_32GF_Weights.IMAGENET1K_V1))
def regnet_y_32gf(*, weights: RegNet_Y_32GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 32 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(20, 232, 115.89, 2.53, 232, RegNet_Y_32GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", None))
def regnet_y_128gf(*, weights: RegNet_Y_128GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetY with 128 billion multiply-adds (Singh et al. 2022, arXiv:2201.08371).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(
        27, 456, 160.83, 2.52, 264, RegNet_Y_128GF_Weights.verify(weights), progress, se_ratio=0.25, **kwargs
    )


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_400MF_Weights.IMAGENET1K_V1))
def regnet_x_400mf(*, weights: RegNet_X_400MF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 400 million multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(22, 24, 24.48, 2.54, 16, RegNet_X_400MF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_800MF_Weights.IMAGENET1K_V1))
def regnet_x_800mf(*, weights: RegNet_X_800MF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 800 million multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(16, 56, 35.73, 2.28, 16, RegNet_X_800MF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_1_6GF_Weights.IMAGENET1K_V1))
def regnet_x_1_6gf(*, weights: RegNet_X_1_6GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 1.6 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(18, 80, 34.01, 2.25, 24, RegNet_X_1_6GF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_3_2GF_Weights.IMAGENET1K_V1))
def regnet_x_3_2gf(*, weights: RegNet_X_3_2GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 3.2 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(25, 88, 26.31, 2.25, 48, RegNet_X_3_2GF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_8GF_Weights.IMAGENET1K_V1))
def regnet_x_8gf(*, weights: RegNet_X_8GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 8 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(23, 80, 49.56, 2.88, 120, RegNet_X_8GF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_16GF_Weights.IMAGENET1K_V1))
def regnet_x_16gf(*, weights: RegNet_X_16GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 16 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(22, 216, 55.59, 2.1, 128, RegNet_X_16GF_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", RegNet_X_32GF_Weights.IMAGENET1K_V1))
def regnet_x_32gf(*, weights: RegNet_X_32GF_Weights | None = None, progress: bool = True, **kwargs: Any) -> RegNet:
    """RegNetX with 32 billion multiply-adds (Radosavovic et al. 2020, arXiv:2003.13678).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `RegNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _regnet(23, 320, 69.86, 2.0, 168, RegNet_X_32GF_Weights.verify(weights), progress, **kwargs)
