"""Fully convolutional networks on a dilated ResNet.

References:
    Long et al. 2014, Fully Convolutional Networks for Semantic Segmentation, arXiv:1411.4038.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import IntermediateLayerGetter, handle_legacy_interface
from flambeau.vision.models.resnet import ResNet, resnet50, resnet101
from flambeau.vision.models.segmentation._utils import _SimpleSegmentationModel, aux_loss_of, build_segmentation
from flambeau.vision.weights.fcn import FCN_ResNet50_Weights, FCN_ResNet101_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights, ResNet101_Weights

__all__ = ["FCN", "FCN_ResNet50_Weights", "FCN_ResNet101_Weights", "fcn_resnet50", "fcn_resnet101"]


class FCN(_SimpleSegmentationModel):
    """A 3x3 convolution and a classifier of pixels on dilated features; see the base class for arguments and shapes."""


class FCNHead(nn.Sequential):
    """3x3 convolution to a quarter of the channels, normalization, ReLU, dropout of 0.1, 1x1 convolution to classes.

    Args:
        in_channels: of the features.
        channels: number of classes.
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        inner = in_channels // 4
        super().__init__(
            nn.Conv2d(in_channels, inner, 3, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(inner, channels, 1),
        )


def dilated_features(backbone: ResNet, aux: bool) -> IntermediateLayerGetter:
    """The last stage of a ResNet as "out", and the one before it as "aux"."""
    return IntermediateLayerGetter(backbone, {"layer4": "out"} | ({"layer3": "aux"} if aux else {}))


def _fcn(resnet: Any, weights_backbone: WeightsEnum | None, *, num_classes: int, aux_loss: bool, progress: bool) -> FCN:
    backbone = resnet(weights=weights_backbone, progress=progress, replace_stride_with_dilation=[False, True, True])
    aux_classifier = FCNHead(1024, num_classes) if aux_loss else None
    return FCN(dilated_features(backbone, aux_loss), FCNHead(2048, num_classes), aux_classifier)


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc"),
    head=("classifier.4", "aux_classifier.4"),
    stem="backbone.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", FCN_ResNet50_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def fcn_resnet50(
    *,
    weights: FCN_ResNet50_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> FCN:
    """FCN with a ResNet-50 of output stride 8 (Long et al. 2014, arXiv:1411.4038).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        aux_loss: add the auxiliary head; the weights have one.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.
    """
    members = FCN_ResNet50_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    aux = aux_loss_of(members[0], aux_loss)
    return build_segmentation(
        partial(_fcn, resnet50), *members, progress=progress, num_classes=num_classes, aux_loss=aux, **kwargs
    )


@register_model(
    task="semantic-segmentation",
    tags=("coco", "voc"),
    head=("classifier.4", "aux_classifier.4"),
    stem="backbone.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", FCN_ResNet101_Weights.COCO_WITH_VOC_LABELS_V1),
    weights_backbone=("pretrained_backbone", ResNet101_Weights.IMAGENET1K_V1),
)
def fcn_resnet101(
    *,
    weights: FCN_ResNet101_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    aux_loss: bool | None = None,
    weights_backbone: ResNet101_Weights | None = ResNet101_Weights.IMAGENET1K_V1,
    **kwargs: Any,
) -> FCN:
    """FCN with a ResNet-101 of output stride 8 (Long et al. 2014, arXiv:1411.4038).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: of the output, background included; 21 where neither this nor weights say otherwise.
        aux_loss: add the auxiliary head; the weights have one.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        **kwargs: `device` and `dtype` place the weights without a copy in between.
    """
    members = FCN_ResNet101_Weights.verify(weights), ResNet101_Weights.verify(weights_backbone)
    aux = aux_loss_of(members[0], aux_loss)
    return build_segmentation(
        partial(_fcn, resnet101), *members, progress=progress, num_classes=num_classes, aux_loss=aux, **kwargs
    )
