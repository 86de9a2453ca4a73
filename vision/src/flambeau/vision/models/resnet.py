"""Residual networks: ResNet, ResNeXt and Wide ResNet.

Reading order: convolutions, the two blocks, the network, the builders. Pretrained weights are in `weights/resnet.py`.

References:
    He et al. 2015, Deep Residual Learning for Image Recognition, arXiv:1512.03385.
    Xie et al. 2016, Aggregated Residual Transformations (ResNeXt), arXiv:1611.05431.
    Zagoruyko and Komodakis 2016, Wide Residual Networks, arXiv:1605.07146.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_named_param, build_classifier, handle_legacy_interface
from flambeau.vision.weights.resnet import (
    ResNet18_Weights,
    ResNet34_Weights,
    ResNet50_Weights,
    ResNet101_Weights,
    ResNet152_Weights,
    ResNeXt50_32X4D_Weights,
    ResNeXt101_32X8D_Weights,
    ResNeXt101_64X4D_Weights,
    Wide_ResNet50_2_Weights,
    Wide_ResNet101_2_Weights,
)

__all__ = [
    "ResNeXt50_32X4D_Weights",
    "ResNeXt101_32X8D_Weights",
    "ResNeXt101_64X4D_Weights",
    "ResNet",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "Wide_ResNet50_2_Weights",
    "Wide_ResNet101_2_Weights",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "wide_resnet50_2",
    "wide_resnet101_2",
]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """3x3 convolution without bias that keeps height and width at stride 1, whatever the dilation."""
    return nn.Conv2d(
        in_planes,
        out_planes,
        kernel_size=3,
        stride=stride,
        padding=dilation,
        dilation=dilation,
        groups=groups,
        bias=False,
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al. 2015, figure 5 left).

    Args:
        inplanes: channels of the input.
        planes: channels of both convolutions, and of the output.
        stride: of the first convolution.
        downsample: what the shortcut does to the input where its shape changes; None is the identity.
        groups: 1, the only value this block has.
        base_width: 64, the only value this block has.
        dilation: 1, the only value this block has.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.

    Shape:
        (N, inplanes, H, W) -> (N, planes, ceil(H / stride), ceil(W / stride)).

    Raises:
        ValueError: `groups` or `base_width` differ from 1 and 64.
        NotImplementedError: `dilation` is larger than 1.
    """

    expansion: ClassVar[int] = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError(
                f"BasicBlock has groups=1 and base_width=64, got groups={groups}, base_width={base_width}; "
                "use Bottleneck for grouped or wide networks."
            )
        if dilation > 1:
            raise NotImplementedError(
                f"BasicBlock has dilation 1, got {dilation}; use Bottleneck for dilated networks."
            )
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, H, W) to (N, planes, H', W')."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out)
        return activated


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution and a shortcut (He et al. 2015, figure 5 right).

    The stride is on the 3x3 convolution, not on the first 1x1 as in the paper ("ResNet v1.5"): about half a percent
    more accurate, about five percent slower.

    Args:
        inplanes: channels of the input.
        planes: channels before widening; the output has `planes * expansion`.
        stride: of the 3x3 convolution.
        downsample: what the shortcut does to the input where its shape changes; None is the identity.
        groups: groups of the 3x3 convolution (the cardinality of ResNeXt).
        base_width: channels per group of the 3x3 convolution, for `planes` = 64.
        dilation: of the 3x3 convolution.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.

    Shape:
        (N, inplanes, H, W) -> (N, 4 * planes, ceil(H / stride), ceil(W / stride)).
    """

    expansion: ClassVar[int] = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, H, W) to (N, 4 * planes, H', W')."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out)
        return activated


class ResNet(nn.Module):
    """Residual network: a 7x7 stem, four stages of blocks, global average pooling and one linear layer.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: number of blocks in each of the four stages.
        num_classes: size of the output.
        zero_init_residual: start each block as the identity by zeroing the scale of its last normalization
            (Goyal et al. 2017, arXiv:1706.02677, section 5.1); about 0.2 percent more accurate.
        groups: groups of the 3x3 convolutions, `Bottleneck` only.
        width_per_group: channels per group in the first stage, `Bottleneck` only.
        replace_stride_with_dilation: for stages 2 to 4, whether to dilate where the stage would halve the
            resolution; used by segmentation and detection.
        norm_layer: makes a normalization from a number of channels; batch normalization by default.

    Shape:
        (N, 3, H, W), floating point -> (N, num_classes), logits. Any H and W from 1 on; the features before pooling
        have 1/32 of them, rounded up.

    Raises:
        ValueError: `replace_stride_with_dilation` has not three elements.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        dilate = (False, False, False) if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilate) != 3:
            raise ValueError(
                f"replace_stride_with_dilation is {dilate!r}, expected None or three booleans (stages 2, 3 and 4)."
            )
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialize(zero_init_residual)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        """One stage: its first block changes resolution and width, the others keep them."""
        first_dilation = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                conv1x1(self.inplanes, planes * block.expansion, stride), self._norm_layer(planes * block.expansion)
            )
        stage = []
        for index in range(blocks):
            stage.append(
                block(
                    self.inplanes,
                    planes,
                    stride if index == 0 else 1,
                    downsample if index == 0 else None,
                    self.groups,
                    self.base_width,
                    first_dilation if index == 0 else self.dilation,
                    self._norm_layer,
                )
            )
            self.inplanes = planes * block.expansion
        return nn.Sequential(*stage)

    def _initialize(self, zero_init_residual: bool) -> None:
        """He normal initialization by fan out for convolutions (arXiv:1502.01852), identity for normalizations."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)) and module.affine:
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, BasicBlock | Bottleneck):
                    last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                    if isinstance(last.weight, Tensor):  # None for a normalization without scale
                        nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


def _resnet(
    block: type[BasicBlock | Bottleneck], layers: list[int], weights: WeightsEnum | None, progress: bool, **kwargs: Any
) -> ResNet:
    return build_classifier(ResNet, weights, block, layers, progress=progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNet18_Weights.IMAGENET1K_V1))
def resnet18(*, weights: ResNet18_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-18 (He et al. 2015, arXiv:1512.03385, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _resnet(BasicBlock, [2, 2, 2, 2], ResNet18_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNet34_Weights.IMAGENET1K_V1))
def resnet34(*, weights: ResNet34_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-34 (He et al. 2015, arXiv:1512.03385, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _resnet(BasicBlock, [3, 4, 6, 3], ResNet34_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNet50_Weights.IMAGENET1K_V1))
def resnet50(*, weights: ResNet50_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-50 v1.5 (He et al. 2015, arXiv:1512.03385, table 1; see `Bottleneck` for the stride).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _resnet(Bottleneck, [3, 4, 6, 3], ResNet50_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNet101_Weights.IMAGENET1K_V1))
def resnet101(*, weights: ResNet101_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-101 v1.5 (He et al. 2015, arXiv:1512.03385, table 1; see `Bottleneck` for the stride).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _resnet(Bottleneck, [3, 4, 23, 3], ResNet101_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNet152_Weights.IMAGENET1K_V1))
def resnet152(*, weights: ResNet152_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-152 v1.5 (He et al. 2015, arXiv:1512.03385, table 1; see `Bottleneck` for the stride).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return _resnet(Bottleneck, [3, 8, 36, 3], ResNet152_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNeXt50_32X4D_Weights.IMAGENET1K_V1))
def resnext50_32x4d(*, weights: ResNeXt50_32X4D_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNeXt-50 with 32 groups of width 4 (Xie et al. 2016, arXiv:1611.05431, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    _ovewrite_named_param(kwargs, "groups", 32)
    _ovewrite_named_param(kwargs, "width_per_group", 4)
    return _resnet(Bottleneck, [3, 4, 6, 3], ResNeXt50_32X4D_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNeXt101_32X8D_Weights.IMAGENET1K_V1))
def resnext101_32x8d(
    *, weights: ResNeXt101_32X8D_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ResNet:
    """ResNeXt-101 with 32 groups of width 8 (Xie et al. 2016, arXiv:1611.05431).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    _ovewrite_named_param(kwargs, "groups", 32)
    _ovewrite_named_param(kwargs, "width_per_group", 8)
    return _resnet(Bottleneck, [3, 4, 23, 3], ResNeXt101_32X8D_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", ResNeXt101_64X4D_Weights.IMAGENET1K_V1))
def resnext101_64x4d(
    *, weights: ResNeXt101_64X4D_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ResNet:
    """ResNeXt-101 with 64 groups of width 4 (Xie et al. 2016, arXiv:1611.05431, section 5.1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    _ovewrite_named_param(kwargs, "groups", 64)
    _ovewrite_named_param(kwargs, "width_per_group", 4)
    return _resnet(Bottleneck, [3, 4, 23, 3], ResNeXt101_64X4D_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", Wide_ResNet50_2_Weights.IMAGENET1K_V1))
def wide_resnet50_2(*, weights: Wide_ResNet50_2_Weights | None = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet-50 with the inner channels of each block doubled (Zagoruyko and Komodakis 2016, arXiv:1605.07146).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    _ovewrite_named_param(kwargs, "width_per_group", 128)
    return _resnet(Bottleneck, [3, 4, 6, 3], Wide_ResNet50_2_Weights.verify(weights), progress, **kwargs)


@register_model(task="image-classification", tags=("imagenet",), head="fc", stem="conv1")
@handle_legacy_interface(weights=("pretrained", Wide_ResNet101_2_Weights.IMAGENET1K_V1))
def wide_resnet101_2(
    *, weights: Wide_ResNet101_2_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ResNet:
    """ResNet-101 with the inner channels of each block doubled (Zagoruyko and Komodakis 2016, arXiv:1605.07146).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `ResNet`; `device` and `dtype` place the weights without a copy in between.
    """
    _ovewrite_named_param(kwargs, "width_per_group", 128)
    return _resnet(Bottleneck, [3, 4, 23, 3], Wide_ResNet101_2_Weights.verify(weights), progress, **kwargs)
