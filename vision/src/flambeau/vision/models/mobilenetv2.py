"""MobileNet v2: blocks that widen their input, filter it by depth, and narrow it again without a nonlinearity.

Reading order: the block, the network, the builder.

References:
    Sandler et al. 2018, MobileNetV2: Inverted Residuals and Linear Bottlenecks, arXiv:1801.04381.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _make_divisible, build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.weights.mobilenetv2 import MobileNet_V2_Weights

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

# Table 2 of the paper: expansion t, channels c, blocks n, stride s of the first block.
_SETTING = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel by 3x3, narrow by 1x1, with a shortcut between the narrow ends (figure 4).

    Args:
        inp: channels of the input.
        oup: channels of the output.
        stride: of the 3x3 convolution, 1 or 2.
        expand_ratio: channels between, in channels of the input; 1 leaves the first convolution out.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.

    Shape:
        (N, inp, H, W) -> (N, oup, ceil(H / stride), ceil(W / stride)).

    Raises:
        ValueError: `stride` is neither 1 nor 2.
    """

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride is {stride}, expected 1 or 2.")
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        self.out_channels = oup
        self._is_cn = stride > 1
        norm_layer = norm_layer or nn.BatchNorm2d
        hidden = round(inp * expand_ratio)
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(conv(inp, hidden, kernel_size=1))
        layers += [
            conv(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, kernel_size=1, bias=False),
            norm_layer(oup),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inp, H, W) to (N, oup, H', W')."""
        out: Tensor = self.conv(x)
        return x + out if self.use_res_connect else out


class MobileNetV2(nn.Module):
    """A stem, seventeen inverted residuals, a 1x1 convolution, pooling and one linear layer.

    Args:
        num_classes: size of the output.
        width_mult: scales the number of channels everywhere (the paper's width multiplier).
        inverted_residual_setting: expansion, channels, number of blocks and first stride of each stage; None is table
            2 of the paper.
        round_nearest: numbers of channels become multiples of this.
        block: makes a block; `InvertedResidual` by default.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.
        dropout: probability to drop an input of the linear layer.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on.

    Raises:
        ValueError: `inverted_residual_setting` is empty, or an element has not four numbers.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block = block or InvertedResidual
        norm_layer = norm_layer or nn.BatchNorm2d
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not setting or any(len(stage) != 4 for stage in setting):
            raise ValueError(
                f"inverted_residual_setting is {setting!r}, expected four numbers per stage: expansion, channels, "
                "number of blocks, stride."
            )
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        width = _make_divisible(32 * width_mult, round_nearest)
        features: list[nn.Module] = [conv(3, width, stride=2)]
        for expansion, channels, repeats, stride in setting:
            out = _make_divisible(channels * width_mult, round_nearest)
            for index in range(repeats):
                first = stride if index == 0 else 1
                features.append(block(width, out, first, expand_ratio=expansion, norm_layer=norm_layer))
                width = out
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features.append(conv(width, self.last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
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
        features = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        logits: Tensor = self.classifier(torch.flatten(features, 1))
        return logits


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="features.0.0")
@handle_legacy_interface(weights=("pretrained", MobileNet_V2_Weights.IMAGENET1K_V1))
def mobilenet_v2(*, weights: MobileNet_V2_Weights | None = None, progress: bool = True, **kwargs: Any) -> MobileNetV2:
    """MobileNet v2 of width 1.0 (Sandler et al. 2018, arXiv:1801.04381, table 2).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MobileNetV2`; `device` and `dtype` place the weights without a copy in between.
    """
    return build_classifier(MobileNetV2, MobileNet_V2_Weights.verify(weights), progress=progress, **kwargs)
