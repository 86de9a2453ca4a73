"""SSD: a detector in one stage that answers from feature maps of six resolutions.

References:
    Liu et al. 2015, SSD: Single Shot MultiBox Detector, arXiv:1512.02325.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.detection._building import build_detector
from flambeau.vision.models.detection._single_stage import SingleStageDetector, permuted, suppressed
from flambeau.vision.models.detection._utils import BoxCoder, SSDMatcher, min_size, retrieve_out_channels
from flambeau.vision.models.detection.anchor_utils import DefaultBoxGenerator
from flambeau.vision.models.detection.backbone_utils import _validate_trainable_layers, freeze_before
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.models.vgg import VGG, vgg16
from flambeau.vision.ops.boxes import box_iou
from flambeau.vision.weights.ssd import SSD300_VGG16_Weights
from flambeau.vision.weights.vgg import VGG16_Weights

__all__ = ["SSD300_VGG16_Weights", "ssd300_vgg16"]

Target = dict[str, Tensor]
Size = tuple[int, int]


def _xavier_init(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class SSDScoringHead(nn.Module):
    """One predictor for each map, its outputs in the order of the anchors.

    Args:
        module_list: a convolution for each map.
        num_columns: values of each anchor.

    Shape:
        Maps (N, C_i, H_i, W_i) -> (N, anchors of all maps, num_columns).
    """

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list = module_list
        self.num_columns = num_columns

    def forward(self, x: list[Tensor]) -> Tensor:
        """Answers of all maps."""
        answers = [layer(features) for layer, features in zip(self.module_list, x, strict=True)]
        return torch.cat([permuted(answer, self.num_columns) for answer in answers], 1)


class SSDClassificationHead(SSDScoringHead):
    """Logits of classes, background first.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
        num_classes: background included.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        layers = nn.ModuleList(
            nn.Conv2d(channels, num_classes * anchors, kernel_size=3, padding=1)
            for channels, anchors in zip(in_channels, num_anchors, strict=True)
        )
        _xavier_init(layers)
        super().__init__(layers, num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Codes of boxes.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int]) -> None:
        layers = nn.ModuleList(
            nn.Conv2d(channels, 4 * anchors, kernel_size=3, padding=1)
            for channels, anchors in zip(in_channels, num_anchors, strict=True)
        )
        _xavier_init(layers)
        super().__init__(layers, 4)


class SSDHead(nn.Module):
    """Both heads.

    Args:
        in_channels: of each map.
        num_anchors: at each position of each map.
        num_classes: background included.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """Maps -> `bbox_regression` and `cls_logits`."""
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSD(SingleStageDetector):
    """SSD on any backbone; see the base class for inputs and outputs.

    Args:
        backbone: maps pictures to a dict of maps.
        anchor_generator: makes default boxes for these maps.
        size: (width, height) to which every picture is resized.
        num_classes: background included.
        image_mean: of the pictures the backbone was trained with; None is ImageNet's.
        image_std: likewise.
        head: None is an `SSDHead`.
        score_thresh: boxes with a lower probability are dropped.
        nms_thresh: IoU above which the better box of a class suppresses the other.
        detections_per_img: the best that are kept of each picture.
        iou_thresh: from this IoU with a target on a default box is an object in training.
        topk_candidates: the best of each class that go into suppression.
        positive_fraction: the part of objects among the boxes that count in training; the hardest negatives fill up.
        **kwargs: for `GeneralizedRCNNTransform`.

    Raises:
        ValueError: there are not as many maps as sets of default boxes.
    """

    def __init__(
        self,
        backbone: nn.Module,
        anchor_generator: DefaultBoxGenerator,
        size: tuple[int, int],
        num_classes: int,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        head: nn.Module | None = None,
        score_thresh: float = 0.01,
        nms_thresh: float = 0.45,
        detections_per_img: int = 200,
        iou_thresh: float = 0.5,
        topk_candidates: int = 400,
        positive_fraction: float = 0.25,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.anchor_generator = anchor_generator
        self.box_coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
        self.head = head or SSDHead(
            channels_of_maps(backbone, size, anchor_generator), anchor_generator.num_anchors_per_location(), num_classes
        )
        self.proposal_matcher = SSDMatcher(iou_thresh)
        self.transform = GeneralizedRCNNTransform(
            min(size),
            max(size),
            image_mean or [0.485, 0.456, 0.406],
            image_std or [0.229, 0.224, 0.225],
            size_divisible=1,
            fixed_size=size,
            **kwargs,
        )
        self.score_thresh = score_thresh
        self.nms_thresh = nms_thresh
        self.detections_per_img = detections_per_img
        self.topk_candidates = topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        """Losses `bbox_regression` and `classification`, divided by the number of objects' boxes."""
        logits, codes = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        labels, box_losses = [], []
        for target, code, boxes, matches in zip(targets, codes, anchors, matched_idxs, strict=True):
            objects = torch.where(matches >= 0)[0]
            matched = matches[objects]
            wanted = self.box_coder.encode_single(target["boxes"][matched], boxes[objects])
            box_losses.append(F.smooth_l1_loss(code[objects], wanted, reduction="sum"))
            label = torch.zeros_like(matches)
            label[objects] = target["labels"][matched]
            labels.append(label)
        class_loss = self._class_loss(logits, torch.stack(labels))
        objects_seen = max(1, sum(int((matches >= 0).sum()) for matches in matched_idxs))
        return {
            "bbox_regression": torch.stack(box_losses).sum() / objects_seen,
            "classification": class_loss / objects_seen,
        }

    def _class_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the objects and of each picture's hardest negatives (section 2.2 of the paper)."""
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
        objects = labels > 0
        negatives = self.neg_to_pos_ratio * objects.sum(1, keepdim=True)
        hardness = loss.detach().masked_fill(objects, -torch.inf)
        rank = hardness.argsort(dim=1, descending=True).argsort(dim=1)
        return loss[objects].sum() + loss[rank < negatives].sum()

    def postprocess_detections(
        self, head_outputs: dict[str, Tensor], image_anchors: list[Tensor], image_shapes: list[Size]
    ) -> list[Target]:
        """Detections, of outputs (N, A, ...) and anchors (A, 4) of each picture."""
        probabilities = head_outputs["cls_logits"].softmax(-1)
        each = zip(head_outputs["bbox_regression"], probabilities, image_anchors, image_shapes, strict=True)
        return [self._best(*one) for one in each]

    def _best(self, codes: Tensor, scores: Tensor, anchors: Tensor, shape: Size) -> Target:
        boxes = self.box_coder.decode_single(codes, anchors)
        # The best of every class but background, classes first.
        top, anchor = scores[:, 1:].T.topk(min_size(self.topk_candidates, scores.shape[0]), dim=1)
        labels = torch.arange(1, scores.shape[1], device=scores.device)[:, None].expand_as(top)
        keep = torch.where(top.flatten() > self.score_thresh)[0]
        top, anchor, labels = top.flatten()[keep], anchor.flatten()[keep], labels.flatten()[keep]
        return suppressed(boxes[anchor], top, labels, shape, self.nms_thresh, self.detections_per_img)

    def _losses(
        self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor]
    ) -> dict[str, Tensor]:
        matches = []
        for target, boxes in zip(targets, anchors, strict=True):
            if target["boxes"].numel() == 0:
                matches.append(torch.full((boxes.shape[0],), -1, dtype=torch.int64, device=boxes.device))
            else:
                matches.append(self.proposal_matcher(box_iou(target["boxes"], boxes)))
        return self.compute_loss(targets, outputs, anchors, matches)

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], maps: list[Tensor], batch: ImageList
    ) -> list[Target]:
        return self.postprocess_detections(outputs, anchors, batch.image_sizes)


def channels_of_maps(backbone: nn.Module, size: tuple[int, int], anchors: DefaultBoxGenerator) -> list[int]:
    """Channels of a backbone's maps: as `out_channels` says (a number is for all), else found by running it once.

    Raises:
        ValueError: there are not as many maps as sets of default boxes.
    """
    stated: Any = getattr(backbone, "out_channels", None)
    maps = len(anchors.num_anchors_per_location())
    if isinstance(stated, int):
        return [stated] * maps
    channels = list(stated) if stated is not None else retrieve_out_channels(backbone, size)
    if len(channels) != maps:
        raise ValueError(
            f"The backbone has {len(channels)} maps and the anchor generator boxes for {maps}, expected as many."
        )
    return channels


class SSDFeatureExtractorVGG(nn.Module):
    """VGG16 up to its fourth pooling, and further convolutions, as six maps (figure 2 of the paper).

    Args:
        backbone: the convolutional part of VGG16; its third pooling is changed to round up.
        highres: one more map, for pictures of 512x512.

    Attributes:
        out_channels: of each map.
    """

    def __init__(self, backbone: nn.Sequential, highres: bool) -> None:
        super().__init__()
        layers = list(backbone)
        pools = [index for index, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
        third, fourth, last = pools[2], pools[3], pools[4]
        layers[third].ceil_mode = True  # type: ignore[assignment]
        # Activations of the first map are larger than those of the others: their norm is learned (section 3.1).
        self.scale_weight = nn.Parameter(torch.ones(512) * 20)
        self.features = nn.Sequential(*layers[:fourth])
        dilated = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(512, 1024, kernel_size=3, padding=6, dilation=6),
            nn.ReLU(inplace=True),
            nn.Conv2d(1024, 1024, kernel_size=1),
            nn.ReLU(inplace=True),
        )
        further = [
            _narrowing(1024, 256, 512, kernel_size=3, padding=1, stride=2),
            _narrowing(512, 128, 256, kernel_size=3, padding=1, stride=2),
            _narrowing(256, 128, 256, kernel_size=3),
            _narrowing(256, 128, 256, kernel_size=3),
        ]
        self.out_channels = [512, 1024, 512, 256, 256, 256]
        if highres:
            further.append(_narrowing(256, 128, 256, kernel_size=4))
            self.out_channels.append(256)
        for part in (dilated, *further):
            _xavier_init(part)
        self.extra = nn.ModuleList([nn.Sequential(*layers[fourth:last], dilated), *further])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Maps "0" to "5", finest first."""
        x = self.features(x)
        maps = [self.scale_weight.view(1, -1, 1, 1) * F.normalize(x)]
        for part in self.extra:
            x = part(x)
            maps.append(x)
        return {str(index): features for index, features in enumerate(maps)}


def _narrowing(in_channels: int, inner: int, out_channels: int, **options: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, inner, kernel_size=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, out_channels, **options),  # type: ignore[arg-type]
        nn.ReLU(inplace=True),
    )


def _vgg_extractor(backbone: VGG, highres: bool, trainable_layers: int) -> SSDFeatureExtractorVGG:
    """A given VGG16 as SSD's backbone.

    Args:
        backbone: the whole network.
        highres: see `SSDFeatureExtractorVGG`.
        trainable_layers: how many of the five parts between poolings learn, from the last on.

    Raises:
        ValueError: there are not so many parts.
    """
    features: Any = backbone.features
    pools = [index for index, layer in enumerate(features) if isinstance(layer, nn.MaxPool2d)]
    freeze_before(features, [0, *pools[:-1]], trainable_layers)
    return SSDFeatureExtractorVGG(features, highres)


def _ssd300(
    weights_backbone: WeightsEnum | None,
    *,
    is_trained: bool,
    trainable_layers: int | None,
    num_classes: int,
    progress: bool,
    **kwargs: Any,
) -> SSD:
    layers = _validate_trainable_layers(is_trained, trainable_layers, 5, 4)
    backbone = _vgg_extractor(vgg16(weights=weights_backbone, progress=progress), False, layers)
    boxes = DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps=[8, 16, 32, 64, 100, 300],
    )
    # Only the mean is subtracted, in steps of 1 / 255, as for the published VGG.
    values = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1 / 255] * 3}
    return SSD(backbone, boxes, (300, 300), num_classes, **{**values, **kwargs})


@register_model(
    task="object-detection",
    tags=("coco",),
    head=tuple(f"head.classification_head.module_list.{index}" for index in range(6)),
    stem="backbone.features.0",
)
@handle_legacy_interface(
    weights=("pretrained", SSD300_VGG16_Weights.COCO_V1),
    weights_backbone=("pretrained_backbone", VGG16_Weights.IMAGENET1K_FEATURES),
)
def ssd300_vgg16(
    *,
    weights: SSD300_VGG16_Weights | None = None,
    progress: bool = True,
    num_classes: int | None = None,
    weights_backbone: VGG16_Weights | None = VGG16_Weights.IMAGENET1K_FEATURES,
    trainable_backbone_layers: int | None = None,
    **kwargs: Any,
) -> SSD:
    """SSD with a VGG16, for pictures of 300x300 (Liu et al. 2015, arXiv:1512.02325).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        num_classes: background included; 91 where neither this nor weights say otherwise.
        weights_backbone: weights of the backbone, or None; not used where `weights` are given.
        trainable_backbone_layers: how many of the backbone's five parts learn, from the last on; 4 by default, all
            without pretrained weights.
        **kwargs: for `SSD`; `device` and `dtype` place the weights without a copy in between.
    """
    members = SSD300_VGG16_Weights.verify(weights), VGG16_Weights.verify(weights_backbone)
    return build_detector(
        _ssd300,
        *members,
        progress=progress,
        num_classes=num_classes,
        trainable_layers=trainable_backbone_layers,
        **kwargs,
    )
