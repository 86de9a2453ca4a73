"""Residual networks for video: convolutions in space and time, in space alone, or in one after the other.

Reading order: kinds of convolution, blocks, stems, the network, the builders.

References:
    Tran et al. 2017, A Closer Look at Spatiotemporal Convolutions for Action Recognition, arXiv:1711.11248.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.video_resnet import MC3_18_Weights, R2Plus1D_18_Weights, R3D_18_Weights

__all__ = [
    "MC3_18_Weights",
    "R2Plus1D_18_Weights",
    "R3D_18_Weights",
    "VideoResNet",
    "mc3_18",
    "r2plus1d_18",
    "r3d_18",
]


class Conv3DSimple(nn.Conv3d):
    """3x3x3 convolution; `midplanes` is not used."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1, padding: int = 1
    ) -> None:
        super().__init__(in_planes, out_planes, kernel_size=3, stride=stride, padding=padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """Stride of a shortcut beside this convolution."""
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """1x3x3 convolution, normalization, activation, 3x1x1 convolution.

    Args:
        in_planes: channels of the input.
        out_planes: channels of the output.
        midplanes: channels between.
        stride: in space by the first, in time by the second convolution.
        padding: alike.
    """

    def __init__(self, in_planes: int, out_planes: int, midplanes: int, stride: int = 1, padding: int = 1) -> None:
        super().__init__(
            nn.Conv3d(
                in_planes,
                midplanes,
                kernel_size=(1, 3, 3),
                stride=(1, stride, stride),
                padding=(0, padding, padding),
                bias=False,
            ),
            nn.BatchNorm3d(midplanes),
            nn.ReLU(inplace=True),
            nn.Conv3d(
                midplanes, out_planes, kernel_size=(3, 1, 1), stride=(stride, 1, 1), padding=(padding, 0, 0), bias=False
            ),
        )

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """Stride of a shortcut beside this convolution."""
        return stride, stride, stride


class Conv3DNoTemporal(nn.Conv3d):
    """1x3x3 convolution, which leaves time alone; `midplanes` is not used."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1, padding: int = 1
    ) -> None:
        super().__init__(
            in_planes,
            out_planes,
            kernel_size=(1, 3, 3),
            stride=(1, stride, stride),
            padding=(0, padding, padding),
            bias=False,
        )

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """Stride of a shortcut beside this convolution."""
        return 1, stride, stride


Conv = type[Conv3DSimple | Conv3DNoTemporal | Conv2Plus1D]


def _between(inplanes: int, planes: int) -> int:
    """Channels that give a factorized convolution as many parameters as the 3x3x3 one has (section 3.5)."""
    return (inplanes * planes * 27) // (inplanes * 9 + 3 * planes)


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut.

    Args:
        inplanes: channels of the input.
        planes: channels of the output.
        conv_builder: kind of convolution.
        stride: of the first convolution.
        downsample: brings the shortcut to the shape of the output.
    """

    expansion = 1

    def __init__(
        self, inplanes: int, planes: int, conv_builder: Conv, stride: int = 1, downsample: nn.Module | None = None
    ) -> None:
        super().__init__()
        between = _between(inplanes, planes)
        self.conv1 = nn.Sequential(
            conv_builder(inplanes, planes, between, stride), nn.BatchNorm3d(planes), nn.ReLU(inplace=True)
        )
        self.conv2 = nn.Sequential(conv_builder(planes, planes, between), nn.BatchNorm3d(planes))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, T, H, W) to (N, planes, T', H', W')."""
        out = self.conv2(self.conv1(x))
        out += x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out)
        return activated


class Bottleneck(nn.Module):
    """1x1x1, a convolution in between, 1x1x1 to four times the channels, and a shortcut; arguments as `BasicBlock`."""

    expansion = 4

    def __init__(
        self, inplanes: int, planes: int, conv_builder: Conv, stride: int = 1, downsample: nn.Module | None = None
    ) -> None:
        super().__init__()
        between = _between(inplanes, planes)
        self.conv1 = nn.Sequential(
            nn.Conv3d(inplanes, planes, kernel_size=1, bias=False), nn.BatchNorm3d(planes), nn.ReLU(inplace=True)
        )
        self.conv2 = nn.Sequential(
            conv_builder(planes, planes, between, stride), nn.BatchNorm3d(planes), nn.ReLU(inplace=True)
        )
        width = planes * self.expansion
        self.conv3 = nn.Sequential(nn.Conv3d(planes, width, kernel_size=1, bias=False), nn.BatchNorm3d(width))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, T, H, W) to (N, 4 * planes, T', H', W')."""
        out = self.conv3(self.conv2(self.conv1(x)))
        out += x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out)
        return activated


class BasicStem(nn.Sequential):
    """3x7x7 convolution that halves height and width, normalization, activation."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv3d(3, 64, kernel_size=(3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False),
            nn.BatchNorm3d(64),
            nn.ReLU(inplace=True),
        )


class R2Plus1dStem(nn.Sequential):
    """1x7x7 convolution that halves height and width, then one in time, each with normalization and activation."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv3d(3, 45, kernel_size=(1, 7, 7), stride=(1, 2, 2), padding=(0, 3, 3), bias=False),
            nn.BatchNorm3d(45),
            nn.ReLU(inplace=True),
            nn.Conv3d(45, 64, kernel_size=(3, 1, 1), stride=(1, 1, 1), padding=(1, 0, 0), bias=False),
            nn.BatchNorm3d(64),
            nn.ReLU(inplace=True),
        )


class VideoResNet(nn.Module):
    """A stem, four stages of blocks, pooling and one linear layer.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        conv_makers: kind of convolution per stage.
        layers: number of blocks per stage.
        stem: makes the stem.
        num_classes: size of the output.
        zero_init_residual: let every block begin as its shortcut: the last normalization of a branch starts with zeros.

    Shape:
        (N, 3, T, H, W), floating point -> (N, num_classes), logits. Any T, H and W from 1 on.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        conv_makers: Sequence[Conv],
        layers: list[int],
        stem: Callable[..., nn.Module],
        num_classes: int = 400,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        self.layer1 = self._make_layer(block, conv_makers[0], 64, layers[0], stride=1)
        self.layer2 = self._make_layer(block, conv_makers[1], 128, layers[1], stride=2)
        self.layer3 = self._make_layer(block, conv_makers[2], 256, layers[2], stride=2)
        self.layer4 = self._make_layer(block, conv_makers[3], 512, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, (BasicBlock, Bottleneck)):
                    branch = module.conv2 if isinstance(module, BasicBlock) else module.conv3
                    nn.init.zeros_(branch[1].weight)  # type: ignore[arg-type]

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], conv_builder: Conv, planes: int, blocks: int, stride: int
    ) -> nn.Sequential:
        width = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != width:
            steps = conv_builder.get_downsample_stride(stride)
            downsample = nn.Sequential(
                nn.Conv3d(self.inplanes, width, kernel_size=1, stride=steps, bias=False), nn.BatchNorm3d(width)
            )
        stage = [block(self.inplanes, planes, conv_builder, stride, downsample)]
        self.inplanes = width
        stage += [block(width, planes, conv_builder) for _ in range(1, blocks)]
        return nn.Sequential(*stage)

    def forward(self, x: Tensor) -> Tensor:
        """Map videos (N, 3, T, H, W) to logits (N, num_classes)."""
        x = self.stem(x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


def _video_resnet(
    conv_makers: Sequence[Conv],
    stem: Callable[..., nn.Module],
    weights: WeightsEnum | None,
    progress: bool,
    **kwargs: Any,
) -> VideoResNet:
    return build_classifier(
        VideoResNet, weights, BasicBlock, conv_makers, [2, 2, 2, 2], stem, progress=progress, **kwargs
    )


@register_model(task="video-classification", tags=("kinetics",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", R3D_18_Weights.KINETICS400_V1))
def r3d_18(*, weights: R3D_18_Weights | None = None, progress: bool = True, **kwargs: Any) -> VideoResNet:
    """Video ResNet of 18 layers of convolutions in space and time (Tran et al. 2017, arXiv:1711.11248).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VideoResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _video_resnet([Conv3DSimple] * 4, BasicStem, R3D_18_Weights.verify(weights), progress, **kwargs)


@register_model(task="video-classification", tags=("kinetics",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", MC3_18_Weights.KINETICS400_V1))
def mc3_18(*, weights: MC3_18_Weights | None = None, progress: bool = True, **kwargs: Any) -> VideoResNet:
    """Video ResNet of 18 layers, of which the first few convolve in time (Tran et al. 2017, arXiv:1711.11248).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VideoResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _video_resnet(
        [Conv3DSimple, Conv3DNoTemporal, Conv3DNoTemporal, Conv3DNoTemporal],
        BasicStem,
        MC3_18_Weights.verify(weights),
        progress,
        **kwargs,
    )


@register_model(task="video-classification", tags=("kinetics",), head="fc", stem="stem.0")
@handle_legacy_interface(weights=("pretrained", R2Plus1D_18_Weights.KINETICS400_V1))
def r2plus1d_18(*, weights: R2Plus1D_18_Weights | None = None, progress: bool = True, **kwargs: Any) -> VideoResNet:
    """Video ResNet of 18 layers of convolutions in space, then in time (Tran et al. 2017, arXiv:1711.11248).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `VideoResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _video_resnet([Conv2Plus1D] * 4, R2Plus1dStem, R2Plus1D_18_Weights.verify(weights), progress, **kwargs)
