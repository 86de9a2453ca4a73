"""Inception v3: inception modules with large kernels factorized into small and asymmetric ones.

Reading order: the five kinds of modules, the auxiliary head, the network, the builder.

References:
    Szegedy et al. 2015, Rethinking the Inception Architecture for Computer Vision, arXiv:1512.00567.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface, without_layers
from flambeau.vision.models.googlenet import BasicConv2d, normalized_to_half
from flambeau.vision.weights.inception import Inception_V3_Weights

__all__ = ["Inception3", "InceptionOutputs", "Inception_V3_Weights", "inception_v3"]

ConvBlock = Callable[..., nn.Module]


class InceptionOutputs(NamedTuple):
    """What `Inception3` returns in train mode with an auxiliary head: logits (N, num_classes) of both heads."""

    logits: Tensor
    aux_logits: Tensor | None


_InceptionOutputs = InceptionOutputs


class InceptionA(nn.Module):
    """1x1; 5x5; two 3x3; average pooling (figure 5 of the paper).

    Args:
        in_channels: channels of the input.
        pool_features: channels of the branch that pools.
        conv_block: makes a convolution with normalization and activation; `BasicConv2d` by default.

    Shape:
        (N, in_channels, H, W) -> (N, 224 + pool_features, H, W).
    """

    def __init__(self, in_channels: int, pool_features: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1x1 = conv(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = conv(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = conv(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, padding=1)
        self.branch_pool = conv(in_channels, pool_features, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        return [
            self.branch1x1(x),
            self.branch5x5_2(self.branch5x5_1(x)),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            self.branch_pool(_smoothed(x)),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        return torch.cat(self._forward(x), 1)


class InceptionB(nn.Module):
    """Halve the resolution: 3x3 with stride; two 3x3, the second with stride; pooling (figure 10).

    Shape:
        (N, in_channels, H, W) -> (N, 480 + in_channels, (H - 1) // 2, (W - 1) // 2).
    """

    def __init__(self, in_channels: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3 = conv(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        return [
            self.branch3x3(x),
            self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))),
            F.max_pool2d(x, kernel_size=3, stride=2),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        return torch.cat(self._forward(x), 1)


class InceptionC(nn.Module):
    """1x1; 7x7 as 1x7 and 7x1; the same twice; average pooling (figure 6 with n = 7).

    Args:
        in_channels: channels of the input.
        channels_7x7: channels inside the factorized branches.
        conv_block: makes a convolution with normalization and activation; `BasicConv2d` by default.

    Shape:
        (N, in_channels, H, W) -> (N, 768, H, W).
    """

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        inner = channels_7x7
        self.branch1x1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = conv(in_channels, inner, kernel_size=1)
        self.branch7x7_2 = conv(inner, inner, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7_3 = conv(inner, 192, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7dbl_1 = conv(in_channels, inner, kernel_size=1)
        self.branch7x7dbl_2 = conv(inner, inner, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7dbl_3 = conv(inner, inner, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7dbl_4 = conv(inner, inner, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7dbl_5 = conv(inner, 192, kernel_size=(1, 7), padding=(0, 3))
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        return [
            self.branch1x1(x),
            self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
            self.branch7x7dbl_5(self.branch7x7dbl_4(self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x))))),
            self.branch_pool(_smoothed(x)),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        return torch.cat(self._forward(x), 1)


class InceptionD(nn.Module):
    """Halve the resolution: 3x3 with stride; factorized 7x7, then 3x3 with stride; pooling.

    Shape:
        (N, in_channels, H, W) -> (N, 512 + in_channels, (H - 1) // 2, (W - 1) // 2).
    """

    def __init__(self, in_channels: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = conv(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = conv(192, 192, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7x3_3 = conv(192, 192, kernel_size=(7, 1), padding=(3, 0))
        self.branch7x7x3_4 = conv(192, 192, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        return [
            self.branch3x3_2(self.branch3x3_1(x)),
            self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))),
            F.max_pool2d(x, kernel_size=3, stride=2),
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        return torch.cat(self._forward(x), 1)


class InceptionE(nn.Module):
    """1x1; 1x3 beside 3x1; 3x3, then 1x3 beside 3x1; average pooling (figure 7).

    Shape:
        (N, in_channels, H, W) -> (N, 2048, H, W).
    """

    def __init__(self, in_channels: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1x1 = conv(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = conv(in_channels, 384, kernel_size=1)
        self.branch3x3_2a = conv(384, 384, kernel_size=(1, 3), padding=(0, 1))
        self.branch3x3_2b = conv(384, 384, kernel_size=(3, 1), padding=(1, 0))
        self.branch3x3dbl_1 = conv(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = conv(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = conv(384, 384, kernel_size=(1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = conv(384, 384, kernel_size=(3, 1), padding=(1, 0))
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The outputs of the branches; a quantized module concatenates them in its own way."""
        whole = self.branch1x1(x)
        single = self.branch3x3_1(x)
        single = torch.cat([self.branch3x3_2a(single), self.branch3x3_2b(single)], 1)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        double = torch.cat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], 1)
        return [whole, single, double, self.branch_pool(_smoothed(x))]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        return torch.cat(self._forward(x), 1)


def _smoothed(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)


class InceptionAux(nn.Module):
    """Classifier of features halfway; it regularizes training (section 4 of the paper).

    Args:
        in_channels: channels of the input.
        num_classes: size of the output.
        conv_block: makes a convolution with normalization and activation; `BasicConv2d` by default.
    """

    def __init__(self, in_channels: int, num_classes: int, conv_block: ConvBlock | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.conv0 = conv(in_channels, 128, kernel_size=1)
        self.conv1 = conv(128, 768, kernel_size=5)
        self.fc = nn.Linear(768, num_classes)
        # Deviations of the initialization, which the network reads.
        for layer in [*self.conv1.modules()]:
            layer.stddev = 0.01  # type: ignore[assignment]
        self.fc.stddev = 0.001  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        """Map features (N, in_channels, 17, 17) to logits (N, num_classes)."""
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        logits: Tensor = self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))
        return logits


# What `inception_blocks` holds, in this order.
_BLOCKS = (BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD, InceptionE, InceptionAux)


class Inception3(nn.Module):
    """A stem, eleven inception modules, pooling and one linear layer, with an auxiliary head for training.

    Args:
        num_classes: size of the output.
        aux_logits: whether there is an auxiliary head.
        transform_input: expect pictures normalized with ImageNet's mean and standard deviation, as presets give them,
            and change that to mean and deviation 0.5, which the published weights were trained with.
        inception_blocks: what makes convolutions, the modules A to E, and the auxiliary head, in this order.
        init_weights: truncated normal initialization with deviation 0.1 (less in the auxiliary head); None means
            True, False leaves what torch gives.
        dropout: probability to drop an input of the linear layer.

    Shape:
        (N, 3, H, W), floating point, H and W at least 75 -> (N, num_classes), logits; in train mode with the auxiliary
        head `InceptionOutputs`. The published weights saw 299x299.

    Raises:
        ValueError: `inception_blocks` has not seven elements.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: Sequence[Callable[..., nn.Module]] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        blocks = _BLOCKS if inception_blocks is None else inception_blocks
        if len(blocks) != len(_BLOCKS):
            raise ValueError(f"inception_blocks has {len(blocks)} elements, expected 7: convolution, A to E, head.")
        conv, block_a, block_b, block_c, block_d, block_e, aux = blocks
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.Conv2d_1a_3x3 = conv(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = conv(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = conv(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = conv(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = conv(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b = block_a(192, pool_features=32)
        self.Mixed_5c = block_a(256, pool_features=64)
        self.Mixed_5d = block_a(288, pool_features=64)
        self.Mixed_6a = block_b(288)
        self.Mixed_6b = block_c(768, channels_7x7=128)
        self.Mixed_6c = block_c(768, channels_7x7=160)
        self.Mixed_6d = block_c(768, channels_7x7=160)
        self.Mixed_6e = block_c(768, channels_7x7=192)
        self.AuxLogits = aux(768, num_classes) if aux_logits else None
        self.Mixed_7a = block_d(768)
        self.Mixed_7b = block_e(1280)
        self.Mixed_7c = block_e(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is None or init_weights:
            self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                deviation = getattr(module, "stddev", 0.1)
                nn.init.trunc_normal_(module.weight, mean=0.0, std=float(deviation), a=-2, b=2)

    def _transform_input(self, x: Tensor) -> Tensor:
        return normalized_to_half(x) if self.transform_input else x

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits, and those of the auxiliary head or None. Sizes in comments are for pictures of 299x299."""
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))  # 147
        x = self.maxpool1(x)  # 73
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x))  # 71
        x = self.maxpool2(x)  # 35
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x)))
        x = self.Mixed_6a(x)  # 17
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.Mixed_7a(x)  # 8
        x = self.Mixed_7c(self.Mixed_7b(x))
        x = self.fc(torch.flatten(self.dropout(self.avgpool(x)), 1))
        return x, aux

    def eager_outputs(self, x: Tensor, aux: Tensor | None) -> Tensor | InceptionOutputs:
        """What `forward` returns for these logits: both in train mode with an auxiliary head, else the first."""
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        """Map images (N, 3, H, W) to logits (N, num_classes), in train mode together with those of the other head."""
        return self.eager_outputs(*self._forward(self._transform_input(x)))


@register_model(task="image-classification", tags=("imagenet",), head=("fc", "AuxLogits.fc"), stem="Conv2d_1a_3x3.conv")
@handle_legacy_interface(weights=("pretrained", Inception_V3_Weights.IMAGENET1K_V1))
def inception_v3(*, weights: Inception_V3_Weights | None = None, progress: bool = True, **kwargs: Any) -> Inception3:
    """Inception v3 for pictures of 299x299 (Szegedy et al. 2015, arXiv:1512.00567, table 1).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `Inception3`; `device` and `dtype` place the weights without a copy in between.
    """
    chosen = Inception_V3_Weights.verify(weights)
    if chosen is not None:
        kwargs.setdefault("transform_input", True)
        kwargs.setdefault("aux_logits", True)
        if not kwargs["aux_logits"]:
            kwargs["convert"] = partial(without_layers, prefix="AuxLogits.")
    return build_classifier(Inception3, chosen, progress=progress, **kwargs)
