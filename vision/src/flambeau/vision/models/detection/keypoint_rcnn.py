"""Keypoint R-CNN: Faster R-CNN with a head that finds an object's keypoints, such as a person's joints.

References:
    He et al. 2017, Mask R-CNN, arXiv:1703.06870, section 5.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_value_param, handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.faster_rcnn import (
    FasterRCNN,
    channels_of,
    check_kind,
    check_one_of,
    pyramid_on_resnet50,
    pyramid_pooling,
)
from flambeau.vision.ops.poolers import MultiScaleRoIAlign
from flambeau.vision.weights.keypoint_rcnn import KeypointRCNN_ResNet50_FPN_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights

__all__ = ["KeypointRCNN", "KeypointRCNN_ResNet50_FPN_Weights", "keypointrcnn_resnet50_fpn"]


class KeypointRCNN(FasterRCNN):
    """Keypoint R-CNN on any backbone.

    Detections also have `keypoints` (K, P, 3), x, y and 1, and `keypoints_scores` (K, P), logits. Targets need
    `keypoints` (K, P, 3), x, y and visible if above 0, and there is a further loss `loss_keypoint`.

    Args:
        backbone: see `FasterRCNN`, as all arguments up to `bbox_reg_weights`.
        num_classes: background included; None where `box_predictor` is given.
        min_size: None draws one of 640 to 800 in training, and is 800 otherwise.
        keypoint_roi_pool: None pools 14x14 from the maps "0" to "3".
        keypoint_head: None is eight convolutions of 512 channels.
        keypoint_predictor: None is a `KeypointRCNNPredictor`.
        num_keypoints: None is 17, or what `keypoint_predictor` has.
        **kwargs: for `GeneralizedRCNNTransform`.

    Raises:
        ValueError: as `FasterRCNN`; also for both of `num_keypoints` and `keypoint_predictor`.
        TypeError: a pooling is of another class.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int | None = None,
        min_size: int | tuple[int, ...] | None = None,
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
        keypoint_roi_pool: nn.Module | None = None,
        keypoint_head: nn.Module | None = None,
        keypoint_predictor: nn.Module | None = None,
        num_keypoints: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_kind("keypoint_roi_pool", keypoint_roi_pool, MultiScaleRoIAlign)
        min_size = min_size or (640, 672, 704, 736, 768, 800)
        if keypoint_predictor is None:
            keypoint_predictor = KeypointRCNNPredictor(512, 17 if num_keypoints is None else num_keypoints)
        else:
            check_one_of(num_keypoints=num_keypoints, keypoint_predictor=keypoint_predictor)
        if keypoint_head is None:
            keypoint_head = KeypointRCNNHeads(channels_of(backbone), (512,) * 8)
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
        self.roi_heads.keypoint_roi_pool = keypoint_roi_pool or pyramid_pooling(14)
        self.roi_heads.keypoint_head = keypoint_head
        self.roi_heads.keypoint_predictor = keypoint_predictor


class KeypointRCNNHeads(nn.Sequential):
    """3x3 convolutions with ReLU on pooled features: (N, in_channels, H, W) -> (N, layers[-1], H, W).

    Args:
        in_channels: of the features.
        layers: channels of the convolutions.
    """

    def __init__(self, in_channels: int, layers: tuple[int, ...]) -> None:
        blocks: list[nn.Module] = []
        for channels in layers:
            blocks += [nn.Conv2d(in_channels, channels, 3, stride=1, padding=1), nn.ReLU(inplace=True)]
            in_channels = channels
        super().__init__(*blocks)
        for layer in self:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


class KeypointRCNNPredictor(nn.Module):
    """Heat maps at four times the resolution: (N, in_channels, H, W) -> (N, num_keypoints, 4 H, 4 W).

    Args:
        in_channels: of the features.
        num_keypoints: of an object.
    """

    def __init__(self, in_channels: int, num_keypoints: int) -> None:
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(in_channels, num_keypoints, 4, stride=2, padding=1)
        nn.init.kaiming_normal_(self.kps_score_lowres.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.kps_score_lowres.bias)  # type: ignore[arg-type]
        self.up_scale = 2
        self.out_channels = num_keypoints

    def forward(self, x: Tensor) -> Tensor:
        """Logits of positions."""
        x = self.kps_score_lowres(x)
        size = [side * self.up_scale for side in x.shape[-2:]]
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def _keypointrcnn(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> KeypointRCNN:
    backbone = pyramid_on_resnet50(weights_backbone, is_trained, trainable_layers, progress)
    return KeypointRCNN(backbone, num_classes, **kwargs)


def _older_or_newer(keywords: dict[str, Any]) -> KeypointRCNN_ResNet50_FPN_Weights:
    """What `pretrained` meant: "legacy" the older weights, True the newer ones."""
    if keywords["pretrained"] == "legacy":
        return KeypointRCNN_ResNet50_FPN_Weights.COCO_LEGACY
    return KeypointRCNN_ResNet50_FPN_Weights.COCO_V1


@register_model(
    task="object-detection",
    tags=("coco", "keypoints"),
    head=("roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", _older_or_newer),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def keypointrcnn_resnet50_fpn(
    *,
    weights: KeypointRCNN_ResNet50_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    num_keypoints: int | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> KeypointRCNN:
    """Keypoint R-CNN with a ResNet-50 and a feature pyramid (He et al. 2017, arXiv:1703.06870).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 2 where neither this nor weights say otherwise.
        num_keypoints: of an object; 17 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `KeypointRCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    members = KeypointRCNN_ResNet50_FPN_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    if members[0] is not None:
        num_keypoints = _ovewrite_value_param("num_keypoints", num_keypoints, len(members[0].meta["keypoint_names"]))
    elif num_classes is None:
        num_classes = 2
    return build_detector(
        _keypointrcnn,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        num_keypoints=num_keypoints,
        old_epsilon=members[0] is not None,
        **kwargs,
    )
