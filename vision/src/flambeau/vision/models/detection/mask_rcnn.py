"""Mask R-CNN: Faster R-CNN with a head that draws each object's outline.

References:
    He et al. 2017, Mask R-CNN, arXiv:1703.06870.
    Li et al. 2021, Benchmarking Detection Transfer Learning with Vision Transformers, arXiv:2111.11429 (the "v2").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.faster_rcnn import (
    FasterRCNN,
    channels_of,
    check_kind,
    check_one_of,
    parts_of_v2,
    pyramid_on_resnet50,
    pyramid_on_resnet50_v2,
    pyramid_pooling,
)
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.ops.poolers import MultiScaleRoIAlign
from flambeau.vision.weights.mask_rcnn import MaskRCNN_ResNet50_FPN_V2_Weights, MaskRCNN_ResNet50_FPN_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights

__all__ = [
    "MaskRCNN",
    "MaskRCNN_ResNet50_FPN_V2_Weights",
    "MaskRCNN_ResNet50_FPN_Weights",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
]


class MaskRCNN(FasterRCNN):
    """Mask R-CNN on any backbone; detections also have `masks` (K, 1, H, W), probabilities at the picture's size.

    Targets need `masks` (K, H, W), 0 or 1, and there is a further loss `loss_mask`.

    Args:
        backbone: see `FasterRCNN`, as all arguments up to `bbox_reg_weights`.
        num_classes: background included; None where `box_predictor` and `mask_predictor` are given.
        mask_roi_pool: None pools 14x14 from the maps "0" to "3".
        mask_head: None is four convolutions of 256 channels.
        mask_predictor: None is a `MaskRCNNPredictor`.
        **kwargs: for `GeneralizedRCNNTransform`; `masks="rle"` gives masks as COCO's run lengths.

    Raises:
        ValueError: as `FasterRCNN`; also for none or both of `num_classes` and `mask_predictor`.
        TypeError: a pooling is of another class.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        min_size: int | tuple[int, ...] = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        rpn_anchor_generator: AnchorGenerator | None = None,
        rpn_head: nn.Module | None = None,
        rpn_pre_nms_top_n_train: int = 2000,
        rpn_pre_nms_top_n_test: int = 1000,
        rpn_post_nms_top_n_train: int = 2000,
        rpn_post_nms_top_n_test: int = 1000,
        rpn_nms_thresh: float = 0.7,
        rpn_fg_iou_thresh: float = 0.7,
        rpn_bg_iou_thresh: float = 0.3,
        rpn_batch_size_per_image: int = 256,
        rpn_positive_fraction: float = 0.5,
        rpn_score_thresh: float = 0.0,
        box_roi_pool: nn.Module | None = None,
        box_head: nn.Module | None = None,
        box_predictor: nn.Module | None = None,
        box_score_thresh: float = 0.05,
        box_nms_thresh: float = 0.5,
        box_detections_per_img: int = 100,
        box_fg_iou_thresh: float = 0.5,
        box_bg_iou_thresh: float = 0.5,
        box_batch_size_per_image: int = 512,
        box_positive_fraction: float = 0.25,
        bbox_reg_weights: tuple[float, float, float, float] | None = None,
        mask_roi_pool: nn.Module | None = None,
        mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        check_kind("mask_roi_pool", mask_roi_pool, MultiScaleRoIAlign)
        check_one_of(num_classes=num_classes, mask_predictor=mask_predictor)
        if mask_head is None:
            mask_head = MaskRCNNHeads(channels_of(backbone), (256, 256, 256, 256), 1)
        if mask_predictor is None:
            assert num_classes is not None
            mask_predictor = MaskRCNNPredictor(256, 256, num_classes)
        super().__init__(
            backbone,
            num_classes,
            min_size,
            max_size,
            image_mean,
            image_std,
            rpn_anchor_generator,
            rpn_head,
            rpn_pre_nms_top_n_train,
            rpn_pre_nms_top_n_test,
            rpn_post_nms_top_n_train,
            rpn_post_nms_top_n_test,
            rpn_nms_thresh,
            rpn_fg_iou_thresh,
            rpn_bg_iou_thresh,
            rpn_batch_size_per_image,
            rpn_positive_fraction,
            rpn_score_thresh,
            box_roi_pool,
            box_head,
            box_predictor,
            box_score_thresh,
            box_nms_thresh,
            box_detections_per_img,
            box_fg_iou_thresh,
            box_bg_iou_thresh,
            box_batch_size_per_image,
            box_positive_fraction,
            bbox_reg_weights,
            **kwargs,
        )
        self.roi_heads.mask_roi_pool = mask_roi_pool or pyramid_pooling(14)
        self.roi_heads.mask_head = mask_head
        self.roi_heads.mask_predictor = mask_predictor


class MaskRCNNHeads(nn.Sequential):
    """3x3 convolutions on pooled features: (N, in_channels, H, W) -> (N, layers[-1], H, W).

    Args:
        in_channels: of the features.
        layers: channels of the convolutions.
        dilation: of the convolutions.
        norm_layer: of the convolutions.
    """

    _version = 2

    def __init__(
        self,
        in_channels: int,
        layers: tuple[int, ...] | list[int],
        dilation: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        blocks = []
        for channels in layers:
            blocks.append(
                Conv2dNormActivation(
                    in_channels, channels, kernel_size=3, padding=dilation, dilation=dilation, norm_layer=norm_layer
                )
            )
            in_channels = channels
        super().__init__(*blocks)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:
            for index in range(len(self)):
                for name in ("weight", "bias"):
                    if (old := f"{prefix}mask_fcn{index + 1}.{name}") in state_dict:
                        state_dict[f"{prefix}{index}.0.{name}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)


class MaskRCNNPredictor(nn.Sequential):
    """Doubles the resolution, then logits of a mask for each class: (N, C, H, W) -> (N, classes, 2 H, 2 W).

    Args:
        in_channels: C.
        dim_reduced: channels between.
        num_classes: background included.
    """

    def __init__(self, in_channels: int, dim_reduced: int, num_classes: int) -> None:
        super().__init__()
        self.conv5_mask = nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0)
        self.relu = nn.ReLU(inplace=True)
        self.mask_fcn_logits = nn.Conv2d(dim_reduced, num_classes, 1, 1, 0)
        for name, parameter in self.named_parameters():
            if "weight" in name:
                nn.init.kaiming_normal_(parameter, mode="fan_out", nonlinearity="relu")


def _maskrcnn(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> MaskRCNN:
    backbone = pyramid_on_resnet50(weights_backbone, is_trained, trainable_layers, progress)
    return MaskRCNN(backbone, num_classes=num_classes, **kwargs)


def _maskrcnn_v2(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> MaskRCNN:
    backbone = pyramid_on_resnet50_v2(weights_backbone, is_trained, trainable_layers, progress)
    mask_head = MaskRCNNHeads(channels_of(backbone), [256] * 4, 1, norm_layer=nn.BatchNorm2d)
    return MaskRCNN(backbone, num_classes=num_classes, mask_head=mask_head, **parts_of_v2(backbone), **kwargs)


@register_model(
    task="object-detection",
    tags=("coco", "masks"),
    head=(
        "roi_heads.box_predictor.cls_score",
        "roi_heads.box_predictor.bbox_pred",
        "roi_heads.mask_predictor.mask_fcn_logits",
    ),
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", MaskRCNN_ResNet50_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def maskrcnn_resnet50_fpn(
    *,
    weights: MaskRCNN_ResNet50_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> MaskRCNN:
    """Mask R-CNN with a ResNet-50 and a feature pyramid (He et al. 2017, arXiv:1703.06870).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `MaskRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = MaskRCNN_ResNet50_FPN_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _maskrcnn,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        old_epsilon=members[0] is MaskRCNN_ResNet50_FPN_Weights.COCO_V1,
        **kwargs,
    )


@register_model(
    task="object-detection",
    tags=("coco", "masks"),
    head=(
        "roi_heads.box_predictor.cls_score",
        "roi_heads.box_predictor.bbox_pred",
        "roi_heads.mask_predictor.mask_fcn_logits",
    ),
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", MaskRCNN_ResNet50_FPN_V2_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def maskrcnn_resnet50_fpn_v2(
    *,
    weights: MaskRCNN_ResNet50_FPN_V2_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = None,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> MaskRCNN:
    """Mask R-CNN with the improvements of Li et al. 2021 (arXiv:2111.11429).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `MaskRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = MaskRCNN_ResNet50_FPN_V2_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _maskrcnn_v2,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )
