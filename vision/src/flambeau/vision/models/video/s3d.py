"""S3D: Inception for video, whose convolutions in space and in time are separate.

Reading order: the separable convolution, the Inception block, the network, the builder.

References:
    Xie et al. 2017, Rethinking Spatiotemporal Feature Learning: Speed-Accuracy Trade-offs in Video Classification,
    arXiv:1712.04851.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.ops.misc import Conv3dNormActivation
from flambeau.vision.weights.s3d import S3D_Weights

__all__ = ["S3D", "S3D_Weights", "s3d"]

Layer = Callable[..., nn.Module]


class TemporalSeparableConv(nn.Sequential):
    """A convolution in space, then one in time, each with normalization and activation.

    Args:
        in_planes: channels of the input.
        out_planes: channels of the output.
        kernel_size: in each direction.
        stride: in each direction.
        padding: in each direction.
        norm_layer: makes a normalization from a number of channels.
    """

    def __init__(
        self, in_planes: int, out_planes: int, kernel_size: int, stride: int, padding: int, norm_layer: Layer
    ) -> None:
        super().__init__(
            Conv3dNormActivation(
                in_planes,
                out_planes,
                kernel_size=(1, kernel_size, kernel_size),
                stride=(1, stride, stride),
                padding=(0, padding, padding),
                bias=False,
                norm_layer=norm_layer,
            ),
            Conv3dNormActivation(
                out_planes,
                out_planes,
                kernel_size=(kernel_size, 1, 1),
                stride=(stride, 1, 1),
                padding=(padding, 0, 0),
                bias=False,
                norm_layer=norm_layer,
            ),
        )


class SepInceptionBlock3D(nn.Module):
    """Four branches side by side: 1x1x1; 3x3x3 after reduction, twice; 1x1x1 after pooling.

    Args:
        in_planes: channels of the input.
        b0_out: channels of the first branch.
        b1_mid: channels after reduction in the second one.
        b1_out: channels of the second branch.
        b2_mid: channels after reduction in the third one.
        b2_out: channels of the third branch.
        b3_out: channels of the fourth branch.
        norm_layer: makes a normalization from a number of channels.
    """

    def __init__(
        self,
        in_planes: int,
        b0_out: int,
        b1_mid: int,
        b1_out: int,
        b2_mid: int,
        b2_out: int,
        b3_out: int,
        norm_layer: Layer,
    ) -> None:
        super().__init__()
        pointwise = partial(Conv3dNormActivation, kernel_size=1, norm_layer=norm_layer)
        self.branch0 = pointwise(in_planes, b0_out)
        self.branch1 = nn.Sequential(
            pointwise(in_planes, b1_mid), TemporalSeparableConv(b1_mid, b1_out, 3, 1, 1, norm_layer)
        )
        self.branch2 = nn.Sequential(
            pointwise(in_planes, b2_mid), TemporalSeparableConv(b2_mid, b2_out, 3, 1, 1, norm_layer)
        )
        self.branch3 = nn.Sequential(nn.MaxPool3d(kernel_size=3, stride=1, padding=1), pointwise(in_planes, b3_out))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_planes, T, H, W) to all branches' channels, of the same sizes."""
        return torch.cat([self.branch0(x), self.branch1(x), self.branch2(x), self.branch3(x)], 1)


class S3D(nn.Module):
    """Separable convolutions, nine Inception blocks with pooling between, and a 1x1x1 convolution that classifies.

    Args:
        num_classes: size of the output.
        dropout: probability before the classifier.
        norm_layer: makes a normalization from channels; batch normalization with eps and momentum 0.001 by default.

    Shape:
        (N, 3, T, H, W), floating point, T at least 14, H and W at least 193 (made for 224) -> (N, num_classes), logits.
    """

    def __init__(self, num_classes: int = 400, dropout: float = 0.2, norm_layer: Layer | None = None) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm3d, eps=0.001, momentum=0.001)
        block = partial(SepInceptionBlock3D, norm_layer=norm)
        in_space = partial(nn.MaxPool3d, kernel_size=(1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1))
        self.features = nn.Sequential(
            TemporalSeparableConv(3, 64, 7, 2, 3, norm),
            in_space(),
            Conv3dNormActivation(64, 64, kernel_size=1, norm_layer=norm),
            TemporalSeparableConv(64, 192, 3, 1, 1, norm),
            in_space(),
            block(192, 64, 96, 128, 16, 32, 32),
            block(256, 128, 128, 192, 32, 96, 64),
            nn.MaxPool3d(kernel_size=3, stride=2, padding=1),
            block(480, 192, 96, 208, 16, 48, 64),
            block(512, 160, 112, 224, 24, 64, 64),
            block(512, 128, 128, 256, 24, 64, 64),
            block(512, 112, 144, 288, 32, 64, 64),
            block(528, 256, 160, 320, 32, 128, 128),
            nn.MaxPool3d(kernel_size=2, stride=2),
            block(832, 256, 160, 320, 32, 128, 128),
            block(832, 384, 192, 384, 48, 128, 128),
        )
        self.avgpool = nn.AvgPool3d(kernel_size=(2, 7, 7), stride=1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv3d(1024, num_classes, kernel_size=1, stride=1, bias=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map videos (N, 3, T, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)))
        return logits.mean(dim=(2, 3, 4))


@register_model(task="video-classification", tags=("kinetics",), head="classifier.1", stem="features.0.0.0")
@handle_legacy_interface(weights=("pretrained", S3D_Weights.KINETICS400_V1))
def s3d(*, weights: S3D_Weights | None = None, progress: bool = True, **kwargs: Any) -> S3D:
    """S3D (Xie et al. 2017, arXiv:1712.04851, section 4).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `S3D`; `device` and `dtype` place the weights without a copy in between.
    """
    return build_classifier(S3D, S3D_Weights.verify(weights), progress=progress, **kwargs)
