"""MNASNet: inverted residuals arranged by a search that measures latency on a phone.

References:
    Tan et al. 2018, MnasNet: Platform-Aware Neural Architecture Search for Mobile, arXiv:1807.11626.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _make_divisible, build_classifier, handle_legacy_interface
from flambeau.vision.weights.mnasnet import (
    MNASNet0_5_Weights,
    MNASNet0_75_Weights,
    MNASNet1_0_Weights,
    MNASNet1_3_Weights,
)

__all__ = [
    "MNASNet",
    "MNASNet0_5_Weights",
    "MNASNet0_75_Weights",
    "MNASNet1_0_Weights",
    "MNASNet1_3_Weights",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
]

# The paper states 0.9997 for TensorFlow, where momentum is the weight of the past.
_BN_MOMENTUM = 1 - 0.9997
# Channels of the stem (two), then per stage (channels, kernel, stride, expansion, blocks): figure 7 of the paper.
_STEM = (32, 16)
_STAGES = ((24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1))


class _InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel, narrow by 1x1, with a shortcut where shapes allow it.

    Args:
        in_ch: channels of the input.
        out_ch: channels of the output.
        kernel_size: of the depthwise convolution, 3 or 5.
        stride: of the depthwise convolution, 1 or 2.
        expansion_factor: channels between, in channels of the input.
        bn_momentum: of the normalizations.

    Raises:
        ValueError: `kernel_size` or `stride` is another.
    """

    def __init__(
        self,
        in_ch: int,
        out_ch: int,
        kernel_size: int,
        stride: int,
        expansion_factor: int,
        bn_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        if stride not in (1, 2) or kernel_size not in (3, 5):
            raise ValueError(f"stride is {stride}, kernel_size {kernel_size}; expected 1 or 2, and 3 or 5.")
        mid_ch = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_ch, mid_ch, 1, bias=False),
            nn.BatchNorm2d(mid_ch, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_ch, mid_ch, kernel_size, padding=kernel_size // 2, stride=stride, groups=mid_ch, bias=False),
            nn.BatchNorm2d(mid_ch, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_ch, out_ch, 1, bias=False),
            nn.BatchNorm2d(out_ch, momentum=bn_momentum),
        )

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, in_ch, H, W) to (N, out_ch, H', W')."""
        out: Tensor = self.layers(input)
        return out + input if self.apply_residual else out


def _stack(
    in_ch: int, out_ch: int, kernel_size: int, stride: int, exp_factor: int, repeats: int, bn_momentum: float
) -> nn.Sequential:
    """Blocks of one stage: the first changes channels and resolution."""
    blocks = [_InvertedResidual(in_ch, out_ch, kernel_size, stride, exp_factor, bn_momentum)]
    for _ in range(1, repeats):
        blocks.append(_InvertedResidual(out_ch, out_ch, kernel_size, 1, exp_factor, bn_momentum))
    return nn.Sequential(*blocks)


def _stem(first: int, second: int) -> list[nn.Module]:
    """A convolution with stride, then a separable one."""
    return [
        nn.Conv2d(3, first, 3, padding=1, stride=2, bias=False),
        nn.BatchNorm2d(first, momentum=_BN_MOMENTUM),
        nn.ReLU(inplace=True),
        nn.Conv2d(first, first, 3, padding=1, stride=1, groups=first, bias=False),
        nn.BatchNorm2d(first, momentum=_BN_MOMENTUM),
        nn.ReLU(inplace=True),
        nn.Conv2d(first, second, 1, padding=0, stride=1, bias=False),
        nn.BatchNorm2d(second, momentum=_BN_MOMENTUM),
    ]


class MNASNet(nn.Module):
    """MNASNet-B1: a stem, six stages of inverted residuals, a 1x1 convolution, pooling and one linear layer.

    Checkpoints of the first version, whose stem kept its width whatever `alpha`, load too: the stem of the model is
    replaced by that of the checkpoint, with a warning.

    Args:
        alpha: scales the number of channels everywhere, > 0.
        num_classes: size of the output.
        dropout: probability to drop an input of the linear layer.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on.

    Raises:
        ValueError: `alpha` is not positive.
    """

    _version = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha is {alpha}, expected a positive number.")
        self.alpha = alpha
        self.num_classes = num_classes
        first, width = (self._channels(channels) for channels in _STEM)
        layers = _stem(first, width)
        for channels, kernel_size, stride, expansion, repeats in _STAGES:
            out = self._channels(channels)
            layers.append(_stack(width, out, kernel_size, stride, expansion, repeats, _BN_MOMENTUM))
            width = out
        layers += [
            nn.Conv2d(width, 1280, 1, padding=0, stride=1, bias=False),
            nn.BatchNorm2d(1280, momentum=_BN_MOMENTUM),
            nn.ReLU(inplace=True),
        ]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_uniform_(module.weight, mode="fan_out", nonlinearity="sigmoid")
                nn.init.zeros_(module.bias)

    def _channels(self, channels: int) -> int:
        return _make_divisible(channels * self.alpha, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(self.layers(x).mean([2, 3]))
        return logits

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        stem = state_dict.get(f"{prefix}layers.0.weight")
        if stem is not None and stem.shape[0] == _STEM[0] != self._channels(_STEM[0]):
            self._use_first_stem()
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _use_first_stem(self) -> None:
        """Give the model the stem of version 1, and its state dicts that version."""
        channels, kernel_size, stride, expansion, repeats = _STAGES[0]
        stage = _stack(_STEM[1], self._channels(channels), kernel_size, stride, expansion, repeats, _BN_MOMENTUM)
        kernel = next(self.classifier.parameters())
        for index, layer in enumerate([*_stem(*_STEM), stage]):
            self.layers[index] = layer.to(device=kernel.device, dtype=kernel.dtype).train(self.training)
        self._version = 1
        warnings.warn(
            f"This checkpoint has the stem of MNASNet's first version, {_STEM[0]} channels wide; the model of width "
            f"{self.alpha} was given that stem.",
            UserWarning,
            stacklevel=2,
        )


def _mnasnet(alpha: float, weights: WeightsEnum | None, progress: bool, **kwargs: Any) -> MNASNet:
    return build_classifier(MNASNet, weights, alpha, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="layers.0")
@handle_legacy_interface(weights=("pretrained", MNASNet0_5_Weights.IMAGENET1K_V1))
def mnasnet0_5(*, weights: MNASNet0_5_Weights | None = None, progress: bool = True, **kwargs: Any) -> MNASNet:
    """MNASNet of half width (Tan et al. 2018, arXiv:1807.11626).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MNASNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mnasnet(0.5, MNASNet0_5_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="layers.0")
@handle_legacy_interface(weights=("pretrained", MNASNet0_75_Weights.IMAGENET1K_V1))
def mnasnet0_75(*, weights: MNASNet0_75_Weights | None = None, progress: bool = True, **kwargs: Any) -> MNASNet:
    """MNASNet of width 0.75 (Tan et al. 2018, arXiv:1807.11626).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MNASNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mnasnet(0.75, MNASNet0_75_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="layers.0")
@handle_legacy_interface(weights=("pretrained", MNASNet1_0_Weights.IMAGENET1K_V1))
def mnasnet1_0(*, weights: MNASNet1_0_Weights | None = None, progress: bool = True, **kwargs: Any) -> MNASNet:
    """MNASNet-B1 of width 1.0 (Tan et al. 2018, arXiv:1807.11626, figure 7).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MNASNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mnasnet(1.0, MNASNet1_0_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="classifier.1", stem="layers.0")
@handle_legacy_interface(weights=("pretrained", MNASNet1_3_Weights.IMAGENET1K_V1))
def mnasnet1_3(*, weights: MNASNet1_3_Weights | None = None, progress: bool = True, **kwargs: Any) -> MNASNet:
    """MNASNet of width 1.3 (Tan et al. 2018, arXiv:1807.11626).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `MNASNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _mnasnet(1.3, MNASNet1_3_Weights.verify(weights), progress, **kwargs)
