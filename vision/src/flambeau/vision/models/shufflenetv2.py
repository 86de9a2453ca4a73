"""ShuffleNet v2: half of the channels pass by each block, and a shuffle mixes the halves.

Reading order: the shuffle, the block, the network, the builders.

References:
    Ma et al. 2018, ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design, arXiv:1807.11164.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.shufflenetv2 import (
    ShuffleNet_V2_X0_5_Weights,
    ShuffleNet_V2_X1_0_Weights,
    ShuffleNet_V2_X1_5_Weights,
    ShuffleNet_V2_X2_0_Weights,
)

__all__ = [
    "ShuffleNetV2",
    "ShuffleNet_V2_X0_5_Weights",
    "ShuffleNet_V2_X1_0_Weights",
    "ShuffleNet_V2_X1_5_Weights",
    "ShuffleNet_V2_X2_0_Weights",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Interleave groups of channels: the first of each group, then the second of each, and so on.

    Args:
        x: (N, C, H, W).
        groups: a divisor of C.

    Returns:
        The shape and memory format of `x`.

    Example:
        >>> channel_shuffle(torch.arange(6).reshape(1, 6, 1, 1), 2).flatten()
        tensor([0, 3, 1, 4, 2, 5])
    """
    N, C, H, W = x.shape
    if x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous():
        grouped = x.permute(0, 2, 3, 1).reshape(N, H, W, groups, C // groups)
        return grouped.transpose(3, 4).reshape(N, H, W, C).permute(0, 3, 1, 2)
    return x.reshape(N, groups, C // groups, H, W).transpose(1, 2).reshape(N, C, H, W)


fx.wrap("channel_shuffle")  # it looks at the memory format, which a traced value has not


class InvertedResidual(nn.Module):
    """Split channels, transform one half, join, shuffle; with stride 2 both halves are the whole input (figure 3 c, d).

    Args:
        inp: channels of the input.
        oup: channels of the output, even; equal to `inp` at stride 1.
        stride: of the depthwise convolution, 1 or 2.

    Shape:
        (N, inp, H, W) -> (N, oup, ceil(H / stride), ceil(W / stride)).

    Raises:
        ValueError: `stride` is neither 1 nor 2, or the numbers of channels do not go with it.
    """

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride is {stride}, expected 1 or 2.")
        if oup % 2 or (stride == 1 and inp != oup):
            raise ValueError(
                f"inp is {inp} and oup {oup} at stride {stride}, expected an even oup, equal to inp at stride 1."
            )
        self.stride = stride
        half = oup // 2
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(
                self.depthwise_conv(inp, inp, kernel_size=3, stride=stride, padding=1),
                nn.BatchNorm2d(inp),
                nn.Conv2d(inp, half, kernel_size=1, bias=False),
                nn.BatchNorm2d(half),
                nn.ReLU(inplace=True),
            )
        self.branch2 = nn.Sequential(
            nn.Conv2d(inp if stride > 1 else half, half, kernel_size=1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
            self.depthwise_conv(half, half, kernel_size=3, stride=stride, padding=1),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, kernel_size=1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
        )

    @staticmethod
    def depthwise_conv(
        i: int, o: int, kernel_size: int, stride: int = 1, padding: int = 0, bias: bool = False
    ) -> nn.Conv2d:
        """A convolution that filters each channel by itself."""
        return nn.Conv2d(i, o, kernel_size, stride, padding, bias=bias, groups=i)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inp, H, W) to (N, oup, H', W')."""
        if self.stride == 1:
            kept, changed = x.chunk(2, dim=1)
            out = torch.cat((kept, self.branch2(changed)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


class ShuffleNetV2(nn.Module):
    """A stem, three stages of blocks, a 1x1 convolution, pooling and one linear layer.

    Args:
        stages_repeats: number of blocks in each of the three stages.
        stages_out_channels: channels of the stem, the three stages and the last convolution.
        num_classes: size of the output.
        inverted_residual: makes a block from channels in, channels out and stride.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on.

    Raises:
        ValueError: `stages_repeats` has not three elements, or `stages_out_channels` not five.
    """

    stage2: nn.Sequential
    stage3: nn.Sequential
    stage4: nn.Sequential

    def __init__(
        self,
        stages_repeats: Sequence[int],
        stages_out_channels: Sequence[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3 or len(stages_out_channels) != 5:
            raise ValueError(
                f"stages_repeats is {stages_repeats} and stages_out_channels {stages_out_channels}, expected three "
                "and five numbers."
            )
        first, *stages, last = stages_out_channels
        self._stage_out_channels = list(stages_out_channels)
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True)
        )
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        width = first
        for number, repeats, channels in zip((2, 3, 4), stages_repeats, stages, strict=True):
            blocks = [inverted_residual(width, channels, 2)]
            blocks += [inverted_residual(channels, channels, 1) for _ in range(repeats - 1)]
            setattr(self, f"stage{number}", nn.Sequential(*blocks))
            width = channels
        self.conv5 = nn.Sequential(
            nn.Conv2d(width, last, 1, 1, 0, bias=False), nn.BatchNorm2d(last), nn.ReLU(inplace=True)
        )
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        logits: Tensor = self.fc(x.mean([2, 3]))
        return logits


def _shufflenet_v2(
    stages_out_channels: tuple[int, ...], weights: WeightsEnum | None, progress: bool, **kwargs: Any
) -> ShuffleNetV2:
    return build_classifier(ShuffleNetV2, weights, (4, 8, 4), stages_out_channels, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1.0")
@handle_legacy_interface(weights=("pretrained", ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1))
def shufflenet_v2_x0_5(
    *, weights: ShuffleNet_V2_X0_5_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNet v2 of half complexity (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ShuffleNetV2`; `device` and `dtype` place the weights without a copy in between.
    """
    return _shufflenet_v2((24, 48, 96, 192, 1024), ShuffleNet_V2_X0_5_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1.0")
@handle_legacy_interface(weights=("pretrained", ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1))
def shufflenet_v2_x1_0(
    *, weights: ShuffleNet_V2_X1_0_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNet v2 of complexity 1.0 (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ShuffleNetV2`; `device` and `dtype` place the weights without a copy in between.
    """
    return _shufflenet_v2((24, 116, 232, 464, 1024), ShuffleNet_V2_X1_0_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1.0")
@handle_legacy_interface(weights=("pretrained", ShuffleNet_V2_X1_5_Weights.IMAGENET1K_V1))
def shufflenet_v2_x1_5(
    *, weights: ShuffleNet_V2_X1_5_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNet v2 of complexity 1.5 (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ShuffleNetV2`; `device` and `dtype` place the weights without a copy in between.
    """
    return _shufflenet_v2((24, 176, 352, 704, 1024), ShuffleNet_V2_X1_5_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1.0")
@handle_legacy_interface(weights=("pretrained", ShuffleNet_V2_X2_0_Weights.IMAGENET1K_V1))
def shufflenet_v2_x2_0(
    *, weights: ShuffleNet_V2_X2_0_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNet v2 of complexity 2.0 (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ShuffleNetV2`; `device` and `dtype` place the weights without a copy in between.
    """
    return _shufflenet_v2((24, 244, 488, 976, 2048), ShuffleNet_V2_X2_0_Weights.verify(weights), progress, **kwargs)
