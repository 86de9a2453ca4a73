"""Region proposal network: where in a picture there might be something.

References:
    Ren et al. 2015, Faster R-CNN, arXiv:1506.01497, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.models.detection._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher, min_size
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.ops.boxes import batched_nms, box_iou, clip_boxes_to_image
from flambeau.vision.ops.misc import Conv2dNormActivation

__all__ = ["RPNHead", "RegionProposalNetwork", "concat_box_prediction_layers", "permute_and_flatten"]

Target = dict[str, Tensor]


class RPNHead(nn.Module):
    """For every anchor, whether it is an object, and how the object's box differs from it.

    Args:
        in_channels: of every feature map.
        num_anchors: anchors at each position.
        conv_depth: number of 3x3 convolutions before.

    Shape:
        Maps (N, in_channels, H_i, W_i) -> logits (N, num_anchors, H_i, W_i) and codes (N, 4 * num_anchors, H_i, W_i)
        of each.
    """

    _version = 2

    def __init__(self, in_channels: int, num_anchors: int, conv_depth: int = 1) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *(Conv2dNormActivation(in_channels, in_channels, kernel_size=3, norm_layer=None) for _ in range(conv_depth))
        )
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, kernel_size=1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:
            for name in ("weight", "bias"):
                if (old := f"{prefix}conv.{name}") in state_dict:
                    state_dict[f"{prefix}conv.0.0.{name}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Logits and codes of every map."""
        seen = [self.conv(features) for features in x]
        return [self.cls_logits(features) for features in seen], [self.bbox_pred(features) for features in seen]


def permute_and_flatten(layer: Tensor, N: int, A: int, C: int, H: int, W: int) -> Tensor:
    """Answers of a convolution, (N, A * C, H, W), in the order of the anchors, (N, H * W * A, C)."""
    return layer.reshape(N, -1, C, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, C)


def concat_box_prediction_layers(box_cls: list[Tensor], box_regression: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Answers of all maps, (N, A * C, H_i, W_i) and (N, 4 * A, H_i, W_i), as rows (..., C) and (..., 4) by picture."""
    logits, codes = [], []
    for classes, boxes in zip(box_cls, box_regression, strict=True):
        N, _, H, W = classes.shape
        A = boxes.shape[1] // 4
        C = classes.shape[1] // A
        logits.append(permute_and_flatten(classes, N, A, C, H, W))
        codes.append(permute_and_flatten(boxes, N, A, 4, H, W))
    return torch.cat(logits, 1).flatten(0, -2), torch.cat(codes, 1).reshape(-1, 4)


class RegionProposalNetwork(nn.Module):
    """Proposals of boxes, and in training the losses of those who made them.

    Args:
        anchor_generator: makes the anchors.
        head: `RPNHead`, or something like it.
        fg_iou_thresh: from this IoU with a target on an anchor is an object.
        bg_iou_thresh: below it is background; between the two it does not count.
        batch_size_per_image: anchors of each picture that count in the loss.
        positive_fraction: the largest part of them that is objects.
        pre_nms_top_n: {"training": n, "testing": n}: the best of each map that go into suppression.
        post_nms_top_n: likewise: the best of each picture that come out of it.
        nms_thresh: IoU above which the better proposal suppresses the other.
        score_thresh: proposals with a lower probability are dropped.
    """

    def __init__(
        self,
        anchor_generator: AnchorGenerator,
        head: nn.Module,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        pre_nms_top_n: dict[str, int],
        post_nms_top_n: dict[str, int],
        nms_thresh: float,
        score_thresh: float = 0.0,
    ) -> None:
        super().__init__()
        self.anchor_generator = anchor_generator
        self.head = head
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self._pre_nms_top_n = pre_nms_top_n
        self._post_nms_top_n = post_nms_top_n
        self.nms_thresh = nms_thresh
        self.score_thresh = score_thresh
        self.min_size = 1e-3

    def pre_nms_top_n(self) -> int:
        """How many proposals of each map go into suppression."""
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self) -> int:
        """How many proposals of each picture come out of suppression."""
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[Target]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """What each anchor should have answered.

        Returns:
            Per picture labels (A,), 1 object, 0 background, -1 neither, and the boxes (A, 4) of the objects.
        """
        pairs = [self._assign(*pair) for pair in zip(anchors, targets, strict=True)]
        return [labels for labels, _ in pairs], [boxes for _, boxes in pairs]

    def _assign(self, anchors: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        boxes = target["boxes"]
        if boxes.numel() == 0:
            return anchors.new_zeros(anchors.shape[0], dtype=torch.float32), torch.zeros_like(anchors)
        matches = self.proposal_matcher(self.box_similarity(boxes, anchors))
        labels = (matches >= 0).float()
        labels[matches == Matcher.BETWEEN_THRESHOLDS] = -1.0
        return labels, boxes[matches.clamp(min=0)]

    def filter_proposals(
        self,
        proposals: Tensor,
        objectness: Tensor,
        image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The best proposals of every picture that do not overlap too much.

        Args:
            proposals: (N, A, 4).
            objectness: logits, N * A of them.
            image_shapes: (height, width) of each picture.
            num_anchors_per_level: how the A anchors divide into maps.

        Returns:
            Boxes (K_i, 4) and probabilities (K_i,), best first, per picture.
        """
        logits = objectness.detach().reshape(proposals.shape[0], -1)
        best, start = [], 0
        for count in num_anchors_per_level:
            top = logits[:, start : start + count].topk(min_size(self.pre_nms_top_n(), count), dim=1).indices
            best.append(top + start)
            start += count
        levels = torch.cat([torch.full_like(top[0], level) for level, top in enumerate(best)])
        chosen = torch.cat(best, 1)
        scores = logits.gather(1, chosen).sigmoid()
        boxes = proposals.gather(1, chosen[..., None].expand(-1, -1, 4))
        kept = [self._filter(boxes[index], scores[index], levels, shape) for index, shape in enumerate(image_shapes)]
        return [boxes for boxes, _ in kept], [scores for _, scores in kept]

    def _filter(
        self, boxes: Tensor, scores: Tensor, levels: Tensor, image_shape: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        boxes = clip_boxes_to_image(boxes, image_shape)
        large = ((boxes[:, 2:] - boxes[:, :2]) >= self.min_size).all(1)
        keep = torch.where(large & (scores >= self.score_thresh))[0]
        boxes, scores, levels = boxes[keep], scores[keep], levels[keep]
        keep = batched_nms(boxes, scores, levels, self.nms_thresh)[: self.post_nms_top_n()]
        return boxes[keep], scores[keep]

    def compute_loss(
        self,
        objectness: Tensor,
        pred_bbox_deltas: Tensor,
        labels: list[Tensor],
        regression_targets: list[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Losses of a sample of the anchors: binary cross-entropy, and smooth L1 of the objects' codes."""
        positive, negative = (torch.where(torch.cat(masks))[0] for masks in self.fg_bg_sampler(labels))
        sampled = torch.cat([positive, negative])
        box_loss = F.smooth_l1_loss(
            pred_bbox_deltas[positive], torch.cat(regression_targets)[positive], beta=1 / 9, reduction="sum"
        )
        object_loss = F.binary_cross_entropy_with_logits(objectness.flatten()[sampled], torch.cat(labels)[sampled])
        return object_loss, box_loss / sampled.numel()

    def forward(
        self, images: ImageList, features: dict[str, Tensor], targets: list[Target] | None = None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Propose.

        Args:
            images: the batch.
            features: maps of the backbone, finest first.
            targets: of each picture `boxes` (K, 4); needed in training.

        Returns:
            Boxes (K_i, 4) of every picture; losses `loss_objectness` and `loss_rpn_box_reg` in training, else none.

        Raises:
            ValueError: in training, without targets.
        """
        maps = list(features.values())
        objectness, codes = self.head(maps)
        anchors = self.anchor_generator(images, maps)
        per_level = [logits.shape[1] * logits.shape[2] * logits.shape[3] for logits in objectness]
        logits, deltas = concat_box_prediction_layers(objectness, codes)
        # Proposals are inputs to what follows: the codes learn from the losses here alone.
        proposals = self.box_coder.decode(deltas.detach(), anchors).view(len(anchors), -1, 4)
        boxes, _ = self.filter_proposals(proposals, logits, images.image_sizes, per_level)
        if not self.training:
            return boxes, {}
        if targets is None:
            raise ValueError("RegionProposalNetwork: targets is None, expected boxes of every picture in training.")
        labels, matched_boxes = self.assign_targets_to_anchors(anchors, targets)
        regression_targets = self.box_coder.encode(matched_boxes, anchors)
        loss_objectness, loss_box = self.compute_loss(logits, deltas, labels, regression_targets)
        return boxes, {"loss_objectness": loss_objectness, "loss_rpn_box_reg": loss_box}
