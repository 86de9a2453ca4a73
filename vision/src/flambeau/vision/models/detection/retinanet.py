"""RetinaNet: a detector in one stage whose loss looks past the easy background.

References:
    Lin et al. 2017, Focal Loss for Dense Object Detection, arXiv:1708.02002;
    Zhang et al. 2019, Bridging the Gap Between Anchor-based and Anchor-free Detection, arXiv:1912.02424 (the "v2").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector
from flambeau.vision.models.detection._single_stage import (
    SingleStageDetector,
    anchors_per_level,
    best_of_level,
    permuted,
    suppressed,
)
from flambeau.vision.models.detection._utils import BoxCoder, Matcher, _box_loss
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.backbone_utils import _resnet_fpn_extractor, _validate_trainable_layers
from flambeau.vision.models.detection.faster_rcnn import channels_of, check_kind, pyramid_on_resnet50
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.models.resnet import resnet50
from flambeau.vision.ops.boxes import box_iou
from flambeau.vision.ops.feature_pyramid_network import LastLevelP6P7
from flambeau.vision.ops.focal_loss import sigmoid_focal_loss
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.weights.resnet import ResNet50_Weights
from flambeau.vision.weights.retinanet import RetinaNet_ResNet50_FPN_V2_Weights, RetinaNet_ResNet50_FPN_Weights

__all__ = [
    "RetinaNet",
    "RetinaNet_ResNet50_FPN_V2_Weights",
    "RetinaNet_ResNet50_FPN_Weights",
    "retinanet_resnet50_fpn",
    "retinanet_resnet50_fpn_v2",
]

Target = dict[str, Tensor]
Size = tuple[int, int]
Norm = Callable[..., nn.Module] | None


def _default_anchorgen() -> AnchorGenerator:
    """Three sizes, a third of an octave apart, and three ratios for each of the five levels."""
    sizes = tuple((x, int(x * 2 ** (1 / 3)), int(x * 2 ** (2 / 3))) for x in (32, 64, 128, 256, 512))
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


class _RetinaNetBranch(nn.Module):
    """Four 3x3 convolutions, with normalization if wanted; subclasses add the last one."""

    _version = 2

    def __init__(self, in_channels: int, norm_layer: Norm = None) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *(Conv2dNormActivation(in_channels, in_channels, norm_layer=norm_layer) for _ in range(4))
        )

    def _initialize(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:
            # Convolutions and activations used to be one flat sequence.
            for index in range(4):
                for name in ("weight", "bias"):
                    if (old := f"{prefix}conv.{2 * index}.{name}") in state_dict:
                        state_dict[f"{prefix}conv.{index}.0.{name}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)


class RetinaNetClassificationHead(_RetinaNetBranch):
    """Logits of classes for every anchor.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        num_classes: of the output; background has no logit of its own.
        prior_probability: of an object, at the start of training (section 4.1 of the paper).
        norm_layer: of the convolutions.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        prior_probability: float = 0.01,
        norm_layer: Norm = None,
    ) -> None:
        super().__init__(in_channels, norm_layer)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, kernel_size=3, stride=1, padding=1)
        self._initialize()
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - prior_probability) / prior_probability))  # type: ignore[arg-type]
        self.num_classes = num_classes
        self.num_anchors = num_anchors
        # Anchors that fit a target neither well nor badly do not count.
        self.BETWEEN_THRESHOLDS = Matcher.BETWEEN_THRESHOLDS

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], matched_idxs: list[Tensor]
    ) -> Tensor:
        """Focal loss, divided by the number of objects' anchors, mean over pictures."""
        losses = []
        for target, logits, matches in zip(targets, head_outputs["cls_logits"], matched_idxs, strict=True):
            objects = torch.where(matches >= 0)[0]
            wanted = torch.zeros_like(logits)
            wanted[objects, target["labels"][matches[objects]]] = 1.0
            counted = torch.where(matches != self.BETWEEN_THRESHOLDS)[0]
            loss = sigmoid_focal_loss(logits[counted], wanted[counted], reduction="sum")
            losses.append(loss / max(1, objects.numel()))
        return torch.stack(losses).sum() / len(targets)

    def forward(self, x: list[Tensor]) -> Tensor:
        """Maps (N, C, H_i, W_i) -> (N, anchors of all maps, num_classes)."""
        logits = [permuted(self.cls_logits(self.conv(features)), self.num_classes) for features in x]
        return torch.cat(logits, 1)


class RetinaNetRegressionHead(_RetinaNetBranch):
    """Codes of boxes for every anchor.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        norm_layer: of the convolutions.
    """

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: Norm = None) -> None:
        super().__init__(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=3, stride=1, padding=1)
        self._initialize()
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> Tensor:
        """Box loss, divided by the number of objects' anchors, mean over pictures."""
        losses = []
        each = zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs, strict=True)
        for target, codes, boxes, matches in each:
            objects = torch.where(matches >= 0)[0]
            wanted = target["boxes"][matches[objects]]
            loss = _box_loss(self._loss_type, self.box_coder, boxes[objects], wanted, codes[objects])
            losses.append(loss / max(1, objects.numel()))
        return torch.stack(losses).sum() / max(1, len(targets))

    def forward(self, x: list[Tensor]) -> Tensor:
        """Maps (N, C, H_i, W_i) -> (N, anchors of all maps, 4)."""
        return torch.cat([permuted(self.bbox_reg(self.conv(features)), 4) for features in x], 1)


class RetinaNetHead(nn.Module):
    """Both branches.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        num_classes: of the output.
        norm_layer: of the convolutions.
    """

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, norm_layer: Norm = None) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer=norm_layer
        )
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer=norm_layer)

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        """Losses `classification` and `bbox_regression`."""
        return {
            "classification": self.classification_head.compute_loss(targets, head_outputs, matched_idxs),
            "bbox_regression": self.regression_head.compute_loss(targets, head_outputs, anchors, matched_idxs),
        }

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """Maps -> `cls_logits` and `bbox_regression`."""
        return {"cls_logits": self.classification_head(x), "bbox_regression": self.regression_head(x)}


class RetinaNet(SingleStageDetector):
    """RetinaNet on any backbone; see the base class for inputs and outputs.

    Args:
        backbone: maps pictures to a dict of maps of `backbone.out_channels` channels each.
        num_classes: background, which has index 0 and is never answered, included.
        min_size: of the shorter side of pictures; see `GeneralizedRCNNTransform`.
        max_size: of the longer side.
        image_mean: of the pictures the backbone was trained with; None is ImageNet's.
        image_std: likewise.
        anchor_generator: None is one for pyramids of five levels.
        head: None is a `RetinaNetHead`.
        proposal_matcher: None is a `Matcher` of the thresholds below.
        score_thresh: boxes with a lower probability are dropped.
        nms_thresh: IoU above which the better box of a class suppresses the other.
        detections_per_img: the best that are kept of each picture.
        fg_iou_thresh: from this IoU with a target on an anchor is an object in training.
        bg_iou_thresh: below it is background.
        topk_candidates: the best of each level that go into suppression.
        **kwargs: for `GeneralizedRCNNTransform`.

    Raises:
        ValueError: the backbone has no `out_channels`.
        TypeError: the anchor generator is of another class.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int,
        min_size: int = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        anchor_generator: AnchorGenerator | None = None,
        head: nn.Module | None = None,
        proposal_matcher: Matcher | None = None,
        score_thresh: float = 0.05,
        nms_thresh: float = 0.5,
        detections_per_img: int = 300,
        fg_iou_thresh: float = 0.5,
        bg_iou_thresh: float = 0.4,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        channels = channels_of(backbone)
        check_kind("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        anchors = anchor_generator or _default_anchorgen()
        self.anchor_generator = anchors
        self.head: Any = head or RetinaNetHead(channels, anchors.num_anchors_per_location()[0], num_classes)
        self.proposal_matcher = proposal_matcher or Matcher(
            fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True
        )
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.transform = GeneralizedRCNNTransform(
            min_size, max_size, image_mean or [0.485, 0.456, 0.406], image_std or [0.229, 0.224, 0.225], **kwargs
        )
        self.score_thresh = score_thresh
        self.nms_thresh = nms_thresh
        self.detections_per_img = detections_per_img
        self.topk_candidates = topk_candidates

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor]
    ) -> dict[str, Tensor]:
        """Losses of the head, with targets that fit the batch."""
        matches = []
        for target, boxes in zip(targets, anchors, strict=True):
            if target["boxes"].numel() == 0:
                matches.append(torch.full((boxes.shape[0],), -1, dtype=torch.int64, device=boxes.device))
            else:
                matches.append(self.proposal_matcher(box_iou(target["boxes"], boxes)))
        return self.head.compute_loss(targets, head_outputs, anchors, matches)  # type: ignore[no-any-return]

    def postprocess_detections(
        self, head_outputs: dict[str, list[Tensor]], anchors: list[list[Tensor]], image_shapes: list[Size]
    ) -> list[Target]:
        """Detections, of outputs (N, A_i, ...) of each level and anchors (A_i, 4) of each picture and level."""
        found = []
        for index, (levels, shape) in enumerate(zip(anchors, image_shapes, strict=True)):
            logits = [level[index] for level in head_outputs["cls_logits"]]
            codes = [level[index] for level in head_outputs["bbox_regression"]]
            best = [self._best(*each) for each in zip(logits, codes, levels, strict=True)]
            boxes, scores, labels = (torch.cat(parts) for parts in zip(*best, strict=True))
            found.append(suppressed(boxes, scores, labels, shape, self.nms_thresh, self.detections_per_img))
        return found

    def _best(self, logits: Tensor, codes: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates of a level: boxes, scores, labels."""
        # The order of logits is that of probabilities, of which few are needed.
        limit = math.log(self.score_thresh / (1 - self.score_thresh)) if 0 < self.score_thresh < 1 else -math.inf
        scores, anchor, labels = best_of_level(logits, self.topk_candidates, limit)
        return self.box_coder.decode_single(codes[anchor], anchors[anchor]), scores.sigmoid(), labels

    def _losses(
        self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor]
    ) -> dict[str, Tensor]:
        return self.compute_loss(targets, outputs, anchors)

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor], batch: ImageList
    ) -> list[Target]:
        counts = anchors_per_level(anchors[0], maps)
        levels = {name: list(torch.split(output, counts, dim=1)) for name, output in outputs.items()}
        split = [list(torch.split(boxes, counts)) for boxes in anchors]
        return self.postprocess_detections(levels, split, batch.image_sizes)


def _retinanet(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> RetinaNet:
    backbone = pyramid_on_resnet50(
        weights_backbone,
        is_trained,
        trainable_layers,
        progress,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(256, 256),
    )
    return RetinaNet(backbone, num_classes, **kwargs)


def _retinanet_v2(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> RetinaNet:
    layers = _validate_trainable_layers(is_trained, trainable_layers, 5, 3)
    backbone = _resnet_fpn_extractor(
        resnet50(weights=weights_backbone, progress=progress),
        layers,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(2048, 256),
    )
    anchors = _default_anchorgen()
    head = RetinaNetHead(
        backbone.out_channels,
        anchors.num_anchors_per_location()[0],
        num_classes,
        norm_layer=partial(nn.GroupNorm, 32),
    )
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, num_classes, anchor_generator=anchors, head=head, **kwargs)


@register_model(
    task="object-detection",
    tags=("coco",),
    head="head.classification_head.cls_logits",
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", RetinaNet_ResNet50_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def retinanet_resnet50_fpn(
    *,
    weights: RetinaNet_ResNet50_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> RetinaNet:
    """RetinaNet with a ResNet-50 and a feature pyramid (Lin et al. 2017, arXiv:1708.02002).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `RetinaNet`; `device` and `dtype` place the weights without a copy in between.
    """
    members = RetinaNet_ResNet50_FPN_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _retinanet,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        old_epsilon=members[0] is RetinaNet_ResNet50_FPN_Weights.COCO_V1,
        **kwargs,
    )


@register_model(
    task="object-detection",
    tags=("coco",),
    head="head.classification_head.cls_logits",
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", RetinaNet_ResNet50_FPN_V2_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def retinanet_resnet50_fpn_v2(
    *,
    weights: RetinaNet_ResNet50_FPN_V2_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = None,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> RetinaNet:
    """RetinaNet with group normalization and an overlap loss (Zhang et al. 2019, arXiv:1912.02424).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `RetinaNet`; `device` and `dtype` place the weights without a copy in between.
    """
    members = RetinaNet_ResNet50_FPN_V2_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _retinanet_v2,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )
