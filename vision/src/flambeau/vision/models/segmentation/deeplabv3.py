"""DeepLab v3: dilated convolutions of several rates side by side see context at several scales.

References:
    Chen et al. 2017, Rethinking Atrous Convolution for Semantic Image Segmentation, arXiv:1706.05587.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._stages import stage_indices
from flambeau.vision.models._utils import IntermediateLayerGetter, handle_legacy_interface
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.models.resnet import resnet50, resnet101
from flambeau.vision.models.segmentation._utils import _SimpleSegmentationModel, aux_loss_of, build_segmentation
from flambeau.vision.models.segmentation.fcn import FCNHead, dilated_features
from flambeau.vision.weights.deeplabv3 import (
    DeepLabV3_MobileNet_V3_Large_Weights,
    DeepLabV3_ResNet50_Weights,
    DeepLabV3_ResNet101_Weights,
)
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights, ResNet101_Weights

__all__ = [
    "DeepLabV3",
    "DeepLabV3_MobileNet_V3_Large_Weights",
    "DeepLabV3_ResNet50_Weights",
    "DeepLabV3_ResNet101_Weights",
    "deeplabv3_mobilenet_v3_large",
    "deeplabv3_resnet50",
    "deeplabv3_resnet101",
]


class ASPPConv(nn.Sequential):
    """Dilated 3x3 convolution, normalization, ReLU; keeps height and width."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )


class ASPPPooling(nn.Sequential):
    """The mean of the whole picture through a 1x1 convolution, spread over all positions."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, in_channels, H, W) -> (N, out_channels, H, W), the same at every position."""
        size = input.shape[-2:]
        pooled = super().forward(input)  # type: ignore[no-untyped-call]
        return F.interpolate(pooled, size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: a 1x1 convolution, dilated ones and pooling side by side, then mixed.

    Args:
        in_channels: of the features.
        atrous_rates: dilations of the 3x3 convolutions.
        out_channels: of every branch, and of the result.

    Shape:
        (N, in_channels, H, W) -> (N, out_channels, H, W).
    """

    def __init__(self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256) -> None:
        super().__init__()
        plain = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU()
        )
        dilated = [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        self.convs = nn.ModuleList([plain, *dilated, ASPPPooling(in_channels, out_channels)])
        self.project = nn.Sequential(
            nn.Conv2d(len(self.convs) * out_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Dropout(0.5),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features that know their surroundings at several scales."""
        mixed: Tensor = self.project(torch.cat([branch(x) for branch in self.convs], 1))
        return mixed


class DeepLabHead(nn.Sequential):
    """Spatial pyramid pooling, a 3x3 convolution, and a classifier of pixels.

    Args:
        in_channels: of the features.
        num_classes: of the output.
        atrous_rates: dilations, for features of output stride 8.
    """

    def __init__(self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)) -> None:
        super().__init__(
            ASPP(in_channels, atrous_rates),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, num_classes, 1),
        )


class DeepLabV3(_SimpleSegmentationModel):
    """DeepLab v3 (section 3.3 of the paper); see the base class for arguments and shapes."""


def _on_resnet(
    resnet: Any, weights_backbone: WeightsEnum | None, *, num_classes: int, aux_loss: bool, progress: bool
) -> DeepLabV3:
    backbone = resnet(weights=weights_backbone, progress=progress, replace_stride_with_dilation=[False, True, True])
    aux_classifier = FCNHead(1024, num_classes) if aux_loss else None
    return DeepLabV3(dilated_features(backbone, aux_loss), DeepLabHead(2048, num_classes), aux_classifier)


def _on_mobilenet(
    weights_backbone: WeightsEnum | None, *, num_classes: int, aux_loss: bool, progress: bool
) -> DeepLabV3:
    features: Any = mobilenet_v3_large(weights=weights_backbone, progress=progress, dilated=True).features
    stages = stage_indices(features)
    out, aux = stages[-1], stages[-4]
    layers = {str(out): "out"} | ({str(aux): "aux"} if aux_loss else {})
    aux_classifier = FCNHead(features[aux].out_channels, num_classes) if aux_loss else None
    head = DeepLabHead(features[out].out_channels, num_classes)
    return DeepLabV3(IntermediateLayerGetter(features, layers), head, aux_classifier)


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc"),
    head=("classifier.4", "aux_classifier.4"),
    stem="backbone.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", DeepLabV3_ResNet50_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def deeplabv3_resnet50(
    *,
    weights: DeepLabV3_ResNet50_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> DeepLabV3:
    """DeepLab v3 with a ResNet-50 of output stride 8 (Chen et al. 2017, arXiv:1706.05587).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        aux_loss: add the auxiliary head; the weights have one.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.
    """
    members = DeepLabV3_ResNet50_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    aux = aux_loss_of(members[0], aux_loss)
    return build_segmentation(
        partial(_on_resnet, resnet50), *members, progress=progress, num_classes=num_classes, aux_loss=aux, **kwargs
    )


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc"),
    head=("classifier.4", "aux_classifier.4"),
    stem="backbone.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", DeepLabV3_ResNet101_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", ResNet101_Weights.IMAGENET1K_V1),
)
def deeplabv3_resnet101(
    *,
    weights: DeepLabV3_ResNet101_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: ResNet101_Weights | None = ResNet101_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> DeepLabV3:
    """DeepLab v3 with a ResNet-101 of output stride 8 (Chen et al. 2017, arXiv:1706.05587).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        aux_loss: add the auxiliary head; the weights have one.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.
    """
    members = DeepLabV3_ResNet101_Weights.verify(weights), ResNet101_Weights.verify(weights_backbone)
    aux = aux_loss_of(members[0], aux_loss)
    return build_segmentation(
        partial(_on_resnet, resnet101), *members, progress=progress, num_classes=num_classes, aux_loss=aux, **kwargs
    )


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc", "mobile"),
    head=("classifier.4", "aux_classifier.4"),
    stem="backbone.0.0",
)
@handle_legacy_interface(
    weights=("pretrained", DeepLabV3_MobileNet_V3_Large_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", MobileNet_V3_Large_Weights.IMAGENET1K_V1),
)
def deeplabv3_mobilenet_v3_large(
    *,
    weights: DeepLabV3_MobileNet_V3_Large_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: MobileNet_V3_Large_Weights | None = MobileNet_V3_Large_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> DeepLabV3:
    """DeepLab v3 with a dilated MobileNet v3 Large (Chen et al. 2017, arXiv:1706.05587).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        aux_loss: add the auxiliary head; the weights have one.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.
    """
    members = DeepLabV3_MobileNet_V3_Large_Weights.verify(weights), MobileNet_V3_Large_Weights.verify(weights_backbone)
    aux = aux_loss_of(members[0], aux_loss)
    return build_segmentation(
        _on_mobilenet, *members, progress=progress, num_classes=num_classes, aux_loss=aux, **kwargs
    )
