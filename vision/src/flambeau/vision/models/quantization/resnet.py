"""Residual networks for 8-bit integers.

Reading order: the two blocks, the network, the builders. Networks and papers are those of `models/resnet.py`.

References:
    Krishnamoorthi 2018, Quantizing deep convolutional networks for efficient inference, arXiv:1806.08342.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_named_param, handle_legacy_interface
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub, fuse
from flambeau.vision.models.resnet import (
    BasicBlock,
    Bottleneck,
    ResNet,
    ResNet18_Weights,
    ResNet50_Weights,
    ResNeXt101_32X8D_Weights,
    ResNeXt101_64X4D_Weights,
)
from flambeau.vision.weights.quantized_resnet import (
    ResNet18_QuantizedWeights,
    ResNet50_QuantizedWeights,
    ResNeXt101_32X8D_QuantizedWeights,
    ResNeXt101_64X4D_QuantizedWeights,
)

__all__ = [
    "QuantizableResNet",
    "ResNeXt101_32X8D_QuantizedWeights",
    "ResNeXt101_64X4D_QuantizedWeights",
    "ResNet18_QuantizedWeights",
    "ResNet50_QuantizedWeights",
    "resnet18",
    "resnet50",
    "resnext101_32x8d",
    "resnext101_64x4d",
]


class QuantizableBasicBlock(BasicBlock):
    """`BasicBlock` whose addition is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_relu = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, H, W) to (N, planes, H', W')."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        joined: Tensor = self.add_relu.add_relu(out, x if self.downsample is None else self.downsample(x))
        return joined

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge convolutions with what follows, in place."""
        fuse(self, [["conv1", "bn1", "relu"], ["conv2", "bn2"]], is_qat, inplace=True)
        _fuse_shortcut(self.downsample, is_qat)


class QuantizableBottleneck(Bottleneck):
    """`Bottleneck` whose addition is a module, and that has an activation for each convolution to merge with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.skip_add_relu = FloatFunctional()
        self.relu1 = nn.ReLU(inplace=False)
        self.relu2 = nn.ReLU(inplace=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inplanes, H, W) to (N, 4 * planes, H', W')."""
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        joined: Tensor = self.skip_add_relu.add_relu(out, x if self.downsample is None else self.downsample(x))
        return joined

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge convolutions with what follows, in place."""
        fuse(self, [["conv1", "bn1", "relu1"], ["conv2", "bn2", "relu2"], ["conv3", "bn3"]], is_qat, inplace=True)
        _fuse_shortcut(self.downsample, is_qat)


def _fuse_shortcut(downsample: nn.Module | None, is_qat: bool | None) -> None:
    if downsample is not None:
        fuse(downsample, ["0", "1"], is_qat, inplace=True)


class QuantizableResNet(ResNet):
    """`ResNet` that torch can quantize.

    Args:
        args: for `ResNet`; the block is `QuantizableBasicBlock` or `QuantizableBottleneck`.
        kwargs: for `ResNet`.

    Shape:
        (N, 3, H, W), float32 -> (N, num_classes), logits in float32, in int8 too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.quant = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.dequant(super().forward(self.quant(x)))
        return logits

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge each convolution with the normalization and activation behind it, in place.

        Args:
            is_qat: for training with simulated quantization; None: where the model is in train mode.
        """
        fuse(self, ["conv1", "bn1", "relu"], is_qat, inplace=True)
        for module in self.modules():
            if isinstance(module, (QuantizableBasicBlock, QuantizableBottleneck)):
                module.fuse_model(is_qat)


_build = partial(build_quantizable, QuantizableResNet, backend="fbgemm")


@register_model("quantized_resnet18", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1")
@handle_legacy_interface(
    weights=meant_before(ResNet18_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ResNet18_Weights.IMAGENET1K_V1)
)
def resnet18(
    *,
    weights: ResNet18_QuantizedWeights | ResNet18_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableResNet:
    """ResNet-18 for 8-bit integers (He et al. 2015, arXiv:1512.03385, table 1).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableResNet`.
    """
    chosen, quantize = meant(ResNet18_QuantizedWeights, ResNet18_Weights, weights, quantize)
    return _build(chosen, QuantizableBasicBlock, [2, 2, 2, 2], quantize=quantize, progress=progress, **kwargs)


@register_model("quantized_resnet50", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1")
@handle_legacy_interface(
    weights=meant_before(ResNet50_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ResNet50_Weights.IMAGENET1K_V1)
)
def resnet50(
    *,
    weights: ResNet50_QuantizedWeights | ResNet50_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableResNet:
    """ResNet-50 v1.5 for 8-bit integers (He et al. 2015, arXiv:1512.03385, table 1).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableResNet`.
    """
    chosen, quantize = meant(ResNet50_QuantizedWeights, ResNet50_Weights, weights, quantize)
    return _build(chosen, QuantizableBottleneck, [3, 4, 6, 3], quantize=quantize, progress=progress, **kwargs)


@register_model(
    "quantized_resnext101_32x8d", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1"
)
@handle_legacy_interface(
    weights=meant_before(ResNeXt101_32X8D_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ResNeXt101_32X8D_Weights.IMAGENET1K_V1)
)
def resnext101_32x8d(
    *,
    weights: ResNeXt101_32X8D_QuantizedWeights | ResNeXt101_32X8D_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableResNet:
    """ResNeXt-101 with 32 groups of width 8, for 8-bit integers (Xie et al. 2016, arXiv:1611.05431).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableResNet`.
    """
    _ovewrite_named_param(kwargs, "groups", 32)
    _ovewrite_named_param(kwargs, "width_per_group", 8)
    chosen, quantize = meant(ResNeXt101_32X8D_QuantizedWeights, ResNeXt101_32X8D_Weights, weights, quantize)
    return _build(chosen, QuantizableBottleneck, [3, 4, 23, 3], quantize=quantize, progress=progress, **kwargs)


@register_model(
    "quantized_resnext101_64x4d", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1"
)
@handle_legacy_interface(
    weights=meant_before(ResNeXt101_64X4D_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ResNeXt101_64X4D_Weights.IMAGENET1K_V1)
)
def resnext101_64x4d(
    *,
    weights: ResNeXt101_64X4D_QuantizedWeights | ResNeXt101_64X4D_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableResNet:
    """ResNeXt-101 with 64 groups of width 4, for 8-bit integers (Xie et al. 2016, arXiv:1611.05431).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableResNet`.
    """
    _ovewrite_named_param(kwargs, "groups", 64)
    _ovewrite_named_param(kwargs, "width_per_group", 4)
    chosen, quantize = meant(ResNeXt101_64X4D_QuantizedWeights, ResNeXt101_64X4D_Weights, weights, quantize)
    return _build(chosen, QuantizableBottleneck, [3, 4, 23, 3], quantize=quantize, progress=progress, **kwargs)
