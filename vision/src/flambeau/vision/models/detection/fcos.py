"""FCOS: a detector in one stage without anchor boxes; every position inside an object tells the box around it.

References:
    Tian et al. 2019, FCOS: Fully Convolutional One-Stage Object Detection, arXiv:1904.01355, and with centre sampling
    arXiv:2006.09214.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
from flambeau.vision.models.detection._utils import BoxLinearCoder
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.faster_rcnn import channels_of, check_kind, pyramid_on_resnet50
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.ops.boxes import box_area
from flambeau.vision.ops.feature_pyramid_network import LastLevelP6P7
from flambeau.vision.ops.focal_loss import sigmoid_focal_loss
from flambeau.vision.ops.giou_loss import generalized_box_iou_loss
from flambeau.vision.weights.fcos import FCOS_ResNet50_FPN_Weights
from flambeau.vision.weights.resnet import ResNet50_Weights

__all__ = ["FCOS", "FCOS_ResNet50_FPN_Weights", "fcos_resnet50_fpn"]

Target = dict[str, Tensor]
Size = tuple[int, int]


def _convolutions(in_channels: int, count: int, norm_layer: Callable[..., nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(count):
        layers += [nn.Conv2d(in_channels, in_channels, 3, padding=1), norm_layer(in_channels), nn.ReLU()]
    return nn.Sequential(*layers)


def _initialize(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


class FCOSClassificationHead(nn.Module):
    """Logits of classes at every position.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        num_classes: of the output; background has no logit of its own.
        num_convs: convolutions before the last one.
        prior_probability: of an object, at the start of training.
        norm_layer: of the convolutions; None is group normalization.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        num_convs: int = 4,
        prior_probability: float = 0.01,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.num_anchors = num_anchors
        self.conv = _convolutions(in_channels, num_convs, norm_layer or partial(nn.GroupNorm, 32))
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, kernel_size=3, stride=1, padding=1)
        _initialize(self)
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - prior_probability) / prior_probability))  # type: ignore[arg-type]

    def forward(self, x: list[Tensor]) -> Tensor:
        """Maps (N, C, H_i, W_i) -> (N, positions of all maps, num_classes)."""
        return torch.cat([permuted(self.cls_logits(self.conv(features)), self.num_classes) for features in x], 1)


class FCOSRegressionHead(nn.Module):
    """Distances to the four sides of a box, and how close to its centre the position is.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        num_convs: convolutions before the last ones.
        norm_layer: of the convolutions; None is group normalization.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_convs: int = 4,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.conv = _convolutions(in_channels, num_convs, norm_layer or partial(nn.GroupNorm, 32))
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=3, stride=1, padding=1)
        self.bbox_ctrness = nn.Conv2d(in_channels, num_anchors * 1, kernel_size=3, stride=1, padding=1)
        _initialize(self)

    def forward(self, x: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Maps (N, C, H_i, W_i) -> distances (N, P, 4), none negative, and logits (N, P, 1), P positions."""
        seen = [self.conv(features) for features in x]
        distances = [permuted(F.relu(self.bbox_reg(features)), 4) for features in seen]
        closeness = [permuted(self.bbox_ctrness(features), 1) for features in seen]
        return torch.cat(distances, 1), torch.cat(closeness, 1)


class FCOSHead(nn.Module):
    """Both branches, and their losses.

    Args:
        in_channels: of the maps.
        num_anchors: at each position.
        num_classes: of the output.
        num_convs: convolutions of each branch before its last ones.
    """

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int | None = 4) -> None:
        super().__init__()
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        convolutions = 4 if num_convs is None else num_convs
        self.classification_head = FCOSClassificationHead(in_channels, num_anchors, num_classes, convolutions)
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, convolutions)

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        """Losses `classification`, `bbox_regression` and `bbox_ctrness`, divided by the positions inside objects."""
        matches, logits = torch.stack(matched_idxs), head_outputs["cls_logits"]
        picture, position = torch.where(matches >= 0)
        matched = [_matched(target, indices) for target, indices in zip(targets, matched_idxs, strict=True)]
        labels, boxes = torch.cat([label for label, _ in matched]), torch.cat([box for _, box in matched])
        wanted = torch.zeros_like(logits)
        wanted[picture, position, labels] = 1.0
        own = torch.stack(anchors)[picture, position]
        predicted = self.box_coder.decode(head_outputs["bbox_regression"][picture, position], own)
        closeness = head_outputs["bbox_ctrness"][picture, position, 0]
        distances = self.box_coder.encode(own, boxes.to(own.dtype))
        losses = {
            "classification": sigmoid_focal_loss(logits, wanted, reduction="sum"),
            "bbox_regression": generalized_box_iou_loss(predicted, boxes, reduction="sum"),
            "bbox_ctrness": F.binary_cross_entropy_with_logits(closeness, _centerness(distances), reduction="sum"),
        }
        objects = max(1, picture.numel())
        return {name: loss / objects for name, loss in losses.items()}

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """Maps -> `cls_logits`, `bbox_regression` and `bbox_ctrness`."""
        distances, closeness = self.regression_head(x)
        return {
            "cls_logits": self.classification_head(x),
            "bbox_regression": distances,
            "bbox_ctrness": closeness,
        }


def _matched(target: Target, matches: Tensor) -> tuple[Tensor, Tensor]:
    """Labels and boxes of the positions that lie in an object."""
    inside = matches[matches >= 0]
    return target["labels"][inside], target["boxes"][inside]


def _centerness(distances: Tensor) -> Tensor:
    """1 at the centre of a box, 0 at its sides (equation 3 of the paper)."""
    horizontal, vertical = distances[:, 0::2], distances[:, 1::2]
    shares = horizontal.amin(1) / horizontal.amax(1) * (vertical.amin(1) / vertical.amax(1))
    return shares.sqrt()


class FCOS(SingleStageDetector):
    """FCOS on any backbone; see the base class for inputs and outputs.

    Args:
        backbone: maps pictures to a dict of maps of `backbone.out_channels` channels each.
        num_classes: background, which has index 0 and is never answered, included.
        min_size: of the shorter side of pictures; see `GeneralizedRCNNTransform`.
        max_size: of the longer side.
        image_mean: of the pictures the backbone was trained with; None is ImageNet's.
        image_std: likewise.
        anchor_generator: one square of the stride's size at each position; None is one for strides 8 to 128.
        head: None is an `FCOSHead`.
        center_sampling_radius: positions count as inside an object up to this many strides from its centre.
        score_thresh: boxes with a lower score are dropped.
        nms_thresh: IoU above which the better box of a class suppresses the other.
        detections_per_img: the best that are kept of each picture.
        topk_candidates: the best of each level that go into suppression.
        **kwargs: for `GeneralizedRCNNTransform`.

    Raises:
        ValueError: the backbone has no `out_channels`, or there is not one anchor at each position.
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
        center_sampling_radius: float = 1.5,
        score_thresh: float = 0.2,
        nms_thresh: float = 0.6,
        detections_per_img: int = 100,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        channels = channels_of(backbone)
        check_kind("anchor_generator", anchor_generator, AnchorGenerator)
        anchors = anchor_generator or AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)
        if anchors.num_anchors_per_location()[0] != 1:
            raise ValueError(
                f"anchor_generator has {anchors.num_anchors_per_location()[0]} anchors at each position, expected 1."
            )
        self.backbone = backbone
        self.anchor_generator = anchors
        self.head: Any = head or FCOSHead(channels, 1, num_classes)
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.transform = GeneralizedRCNNTransform(
            min_size, max_size, image_mean or [0.485, 0.456, 0.406], image_std or [0.229, 0.224, 0.225], **kwargs
        )
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh = score_thresh
        self.nms_thresh = nms_thresh
        self.detections_per_img = detections_per_img
        self.topk_candidates = topk_candidates

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        num_anchors_per_level: list[int],
    ) -> dict[str, Tensor]:
        """Losses of the head, with targets that fit the batch."""
        matches = [
            self._match(boxes, target["boxes"], num_anchors_per_level)
            for boxes, target in zip(anchors, targets, strict=True)
        ]
        return self.head.compute_loss(targets, head_outputs, anchors, matches)  # type: ignore[no-any-return]

    def _match(self, anchors: Tensor, boxes: Tensor, per_level: list[int]) -> Tensor:
        """The target each position is responsible for, or -1: the smallest of those it is near the centre of, inside
        of, and on the level of (section 3.2 of the paper).
        """
        if boxes.numel() == 0:
            return torch.full((anchors.shape[0],), -1, dtype=torch.int64, device=anchors.device)
        position, size = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2] - anchors[:, 0]
        center = (boxes[:, :2] + boxes[:, 2:]) / 2
        offset = (position[:, None] - center).abs().amax(-1)
        to_sides = torch.cat([position[:, None] - boxes[:, :2], boxes[:, 2:] - position[:, None]], -1)
        smallest, largest = size * 4, size * 8
        smallest[: per_level[0]] = 0
        largest[-per_level[-1] :] = math.inf
        reach = to_sides.amax(-1)
        responsible = (
            (offset < self.center_sampling_radius * size[:, None])
            & (to_sides.amin(-1) > 0)
            & (reach > smallest[:, None])
            & (reach < largest[:, None])
        )
        area, match = torch.where(responsible, box_area(boxes), math.inf).min(1)
        return torch.where(area.isinf(), -1, match)

    def postprocess_detections(
        self, head_outputs: dict[str, list[Tensor]], anchors: list[list[Tensor]], image_shapes: list[Size]
    ) -> list[Target]:
        """Detections, of outputs (N, A_i, ...) of each level and anchors (A_i, 4) of each picture and level."""
        found = []
        for index, (levels, shape) in enumerate(zip(anchors, image_shapes, strict=True)):
            names = ("cls_logits", "bbox_regression", "bbox_ctrness")
            outputs = [[level[index] for level in head_outputs[name]] for name in names]
            best = [self._best(*each) for each in zip(*outputs, levels, strict=True)]
            boxes, scores, labels = (torch.cat(parts) for parts in zip(*best, strict=True))
            found.append(suppressed(boxes, scores, labels, shape, self.nms_thresh, self.detections_per_img))
        return found

    def _best(
        self, logits: Tensor, distances: Tensor, closeness: Tensor, anchors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates of a level: boxes, scores, labels."""
        combined = (logits.sigmoid() * closeness.sigmoid()).sqrt()
        scores, anchor, labels = best_of_level(combined, self.topk_candidates, self.score_thresh)
        return self.box_coder.decode(distances[anchor], anchors[anchor]), scores, labels

    def _losses(
        self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor]
    ) -> dict[str, Tensor]:
        return self.compute_loss(targets, outputs, anchors, anchors_per_level(anchors[0], maps))

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor], batch: ImageList
    ) -> list[Target]:
        counts = anchors_per_level(anchors[0], maps)
        levels = {name: list(torch.split(output, counts, dim=1)) for name, output in outputs.items()}
        split = [list(torch.split(boxes, counts)) for boxes in anchors]
        return self.postprocess_detections(levels, split, batch.image_sizes)


def _fcos(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> FCOS:
    backbone = pyramid_on_resnet50(
        weights_backbone,
        is_trained,
        trainable_layers,
        progress,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(256, 256),
    )
    return FCOS(backbone, num_classes, **kwargs)


@register_model(
    task="object-detection",
    tags=("coco",),
    head="head.classification_head.cls_logits",
    stem="backbone.body.conv1",
)
@handle_legacy_interface(
    weights=("pretrained", FCOS_ResNet50_FPN_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", ResNet50_Weights.IMAGENET1K_V1),
)
def fcos_resnet50_fpn(
    *,
    weights: FCOS_ResNet50_FPN_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: ResNet50_Weights | None = ResNet50_Weights.IMAGENET1K_V1,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> FCOS:
    """FCOS with a ResNet-50 and a feature pyramid (Tian et al. 2019, arXiv:1904.01355).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 3 by default, all
            without pretrained weights.
        **kwargs: for `FCOS`; `device` and `dtype` place the weights without a copy in between.
    """
    members = FCOS_ResNet50_FPN_Weights.verify(weights), ResNet50_Weights.verify(weights_backbone)
    return build_detector(
        _fcos,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )
