"""Heads that look at each proposal: what it is and where exactly, its mask, its keypoints.

Reading order: boxes, masks, keypoints, each with its loss and its inference; then the module that runs the heads.

References:
    Ren et al. 2015, Faster R-CNN, arXiv:1506.01497; He et al. 2017, Mask R-CNN, arXiv:1703.06870.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.models.detection._masks import (
    expand_boxes,
    expand_masks,
    expand_masks_tracing_scale,
    paste_mask_in_image,
    paste_masks_in_image,
)
from flambeau.vision.models.detection._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher
from flambeau.vision.ops._heatmaps import heatmap_peaks
from flambeau.vision.ops.boxes import batched_nms, box_iou, clip_boxes_to_image
from flambeau.vision.ops.roi_align import roi_align

__all__ = [
    "RoIHeads",
    "expand_boxes",
    "expand_masks",
    "expand_masks_tracing_scale",
    "fastrcnn_loss",
    "heatmaps_to_keypoints",
    "keypointrcnn_inference",
    "keypointrcnn_loss",
    "keypoints_to_heatmap",
    "maskrcnn_inference",
    "maskrcnn_loss",
    "paste_mask_in_image",
    "paste_masks_in_image",
    "project_masks_on_boxes",
]

Target = dict[str, Tensor]
Size = tuple[int, int]


# --- boxes --------------------------------------------------------------------------------------------------------


def fastrcnn_loss(
    class_logits: Tensor, box_regression: Tensor, labels: list[Tensor], regression_targets: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Losses of the box head: cross-entropy, and smooth L1 of the codes that belong to the right class.

    Args:
        class_logits: (N, classes), background first.
        box_regression: (N, 4 * classes).
        labels: of each picture (N_i,), 0 is background.
        regression_targets: of each picture (N_i, 4).

    Returns:
        Two scalars; the second is divided by N, not by the number of objects.
    """
    label = torch.cat(labels)
    objects = torch.where(label > 0)[0]
    codes = box_regression.reshape(len(label), box_regression.shape[1] // 4, 4)[objects, label[objects]]
    box_loss = F.smooth_l1_loss(codes, torch.cat(regression_targets)[objects], beta=1 / 9, reduction="sum")
    return F.cross_entropy(class_logits, label), box_loss / label.numel()


# --- masks --------------------------------------------------------------------------------------------------------


def maskrcnn_inference(x: Tensor, labels: list[Tensor]) -> list[Tensor]:
    """Probabilities of the masks of the classes found.

    Args:
        x: logits (N, classes, M, M).
        labels: of each picture (N_i,).

    Returns:
        Of each picture (N_i, 1, M, M), in [0, 1].
    """
    label = torch.cat(labels)
    masks = x.sigmoid()[torch.arange(label.shape[0], device=x.device), label][:, None]
    return list(torch.split(masks, [each.shape[0] for each in labels]))


def project_masks_on_boxes(gt_masks: Tensor, boxes: Tensor, matched_idxs: Tensor, M: int) -> Tensor:
    """What the mask head should have answered for boxes.

    Args:
        gt_masks: (G, H, W), 0 or 1.
        boxes: (N, 4), xyxy.
        matched_idxs: (N,), the mask of each box.
        M: side of the result.

    Returns:
        (N, M, M), in [0, 1], in the dtype of the boxes.
    """
    rois = torch.cat([matched_idxs[:, None].to(boxes), boxes], 1)
    return roi_align(gt_masks[:, None].to(rois), rois, (M, M), 1.0)[:, 0]


def maskrcnn_loss(
    mask_logits: Tensor,
    proposals: list[Tensor],
    gt_masks: list[Tensor],
    gt_labels: list[Tensor],
    mask_matched_idxs: list[Tensor],
) -> Tensor:
    """Binary cross-entropy of the masks of the right classes; 0 where there are no proposals.

    Args:
        mask_logits: (N, classes, M, M).
        proposals: of each picture (N_i, 4), objects only.
        gt_masks: of each picture (G_i, H, W).
        gt_labels: of each picture (G_i,).
        mask_matched_idxs: of each picture (N_i,), the target of each proposal.
    """
    matched = list(zip(gt_labels, mask_matched_idxs, strict=True))
    label = torch.cat([labels[indices] for labels, indices in matched])
    if label.numel() == 0:
        return mask_logits.sum() * 0
    side = mask_logits.shape[-1]
    wanted = torch.cat(
        [
            project_masks_on_boxes(masks, boxes, indices, side)
            for masks, boxes, indices in zip(gt_masks, proposals, mask_matched_idxs, strict=True)
        ]
    )
    rows = torch.arange(label.shape[0], device=label.device)
    return F.binary_cross_entropy_with_logits(mask_logits[rows, label], wanted)


# --- keypoints ----------------------------------------------------------------------------------------------------


def keypoints_to_heatmap(keypoints: Tensor, rois: Tensor, heatmap_size: int) -> tuple[Tensor, Tensor]:
    """Where in the heat maps of boxes their keypoints lie.

    Args:
        keypoints: (N, K, 3): x, y, and visible if above 0.
        rois: (N, 4), xyxy.
        heatmap_size: side of the maps.

    Returns:
        (N, K) int64: row * side + column, 0 where there is none; and whether there is one, 0 or 1.
    """
    start, end = rois[:, None, :2], rois[:, None, 2:]
    points = keypoints[..., :2]
    cell = ((points - start) * (heatmap_size / (end - start))).floor().long()
    # A point on the right or lower side belongs to the last cell.
    cell = torch.where(points == end, heatmap_size - 1, cell)
    inside = ((cell >= 0) & (cell < heatmap_size)).all(-1)
    valid = (inside & (keypoints[..., 2] > 0)).long()
    return (cell[..., 1] * heatmap_size + cell[..., 0]) * valid, valid


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable position of each keypoint.

    Each map is enlarged to its box's size, in pixels rounded up, by bicubic interpolation; the middle of the highest
    pixel is the answer.

    Args:
        maps: logits (N, K, M, M).
        rois: (N, 4), xyxy.

    Returns:
        (N, K, 3): x, y and 1; and (N, K): the logits there.
    """
    return heatmap_peaks(maps, rois)


def keypointrcnn_loss(
    keypoint_logits: Tensor,
    proposals: list[Tensor],
    gt_keypoints: list[Tensor],
    keypoint_matched_idxs: list[Tensor],
) -> Tensor:
    """Cross-entropy over the positions of a heat map; 0 where no keypoint is visible in its box.

    Args:
        keypoint_logits: (N, K, M, M).
        proposals: of each picture (N_i, 4), objects only.
        gt_keypoints: of each picture (G_i, K, 3).
        keypoint_matched_idxs: of each picture (N_i,), the target of each proposal.
    """
    matched = zip(gt_keypoints, proposals, keypoint_matched_idxs, strict=True)
    side = keypoint_logits.shape[-1]
    pairs = [keypoints_to_heatmap(points[indices], boxes, side) for points, boxes, indices in matched]
    position = torch.cat([positions.flatten() for positions, _ in pairs])
    valid = torch.where(torch.cat([visible.flatten() for _, visible in pairs]))[0]
    if valid.numel() == 0:
        return keypoint_logits.sum() * 0
    return F.cross_entropy(keypoint_logits.flatten(2).flatten(0, 1)[valid], position[valid])


def keypointrcnn_inference(x: Tensor, boxes: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Keypoints (N_i, K, 3) and their logits (N_i, K) of each picture, of heat maps (N, K, M, M)."""
    maps = torch.split(x, [each.shape[0] for each in boxes])
    pairs = [heatmaps_to_keypoints(*pair) for pair in zip(maps, boxes, strict=True)]
    return [points for points, _ in pairs], [scores for _, scores in pairs]


# --- the heads together -------------------------------------------------------------------------------------------


class RoIHeads(nn.Module):
    """Runs the heads on the proposals of a batch, and in training draws the samples for their losses.

    Args:
        box_roi_pool: pools maps inside boxes.
        box_head: maps pooled features to vectors.
        box_predictor: maps vectors to logits of classes, background first, and codes of boxes for each class.
        fg_iou_thresh: from this IoU with a target on a proposal is an object in training.
        bg_iou_thresh: below it is background.
        batch_size_per_image: proposals drawn from each picture in training.
        positive_fraction: the largest part of them that is objects.
        bbox_reg_weights: of the `BoxCoder`; None is (10, 10, 5, 5).
        score_thresh: boxes with a lower probability are dropped.
        nms_thresh: IoU above which the better box of a class suppresses the other.
        detections_per_img: the best that are kept of each picture.
        mask_roi_pool: as for boxes; None for no masks.
        mask_head: maps pooled features to features.
        mask_predictor: maps them to logits of masks for each class.
        keypoint_roi_pool: as for boxes; None for no keypoints.
        keypoint_head: maps pooled features to features.
        keypoint_predictor: maps them to heat maps.
    """

    def __init__(
        self,
        box_roi_pool: nn.Module,
        box_head: nn.Module,
        box_predictor: nn.Module,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        bbox_reg_weights: tuple[float, float, float, float] | None,
        score_thresh: float,
        nms_thresh: float,
        detections_per_img: int,
        mask_roi_pool: nn.Module | None = None,
        mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None,
        keypoint_roi_pool: nn.Module | None = None,
        keypoint_head: nn.Module | None = None,
        keypoint_predictor: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.box_similarity = box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=False)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self.box_coder = BoxCoder(bbox_reg_weights or (10.0, 10.0, 5.0, 5.0))
        self.box_roi_pool = box_roi_pool
        self.box_head = box_head
        self.box_predictor = box_predictor
        self.score_thresh = score_thresh
        self.nms_thresh = nms_thresh
        self.detections_per_img = detections_per_img
        self.mask_roi_pool = mask_roi_pool
        self.mask_head = mask_head
        self.mask_predictor = mask_predictor
        self.keypoint_roi_pool = keypoint_roi_pool
        self.keypoint_head = keypoint_head
        self.keypoint_predictor = keypoint_predictor

    def has_mask(self) -> bool:
        """Whether there are all parts of a mask head."""
        return None not in (self.mask_roi_pool, self.mask_head, self.mask_predictor)

    def has_keypoint(self) -> bool:
        """Whether there are all parts of a keypoint head."""
        return None not in (self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor)

    # Training samples

    def assign_targets_to_proposals(
        self, proposals: list[Tensor], gt_boxes: list[Tensor], gt_labels: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The target of each proposal, and its label: 0 for background, -1 for neither, per picture."""
        pairs = [self._assign(*each) for each in zip(proposals, gt_boxes, gt_labels, strict=True)]
        return [matched for matched, _ in pairs], [labels for _, labels in pairs]

    def _assign(self, proposals: Tensor, boxes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if boxes.numel() == 0:
            nothing = torch.zeros(proposals.shape[0], dtype=torch.int64, device=proposals.device)
            return nothing, nothing
        matches = self.proposal_matcher(self.box_similarity(boxes, proposals))
        matched = matches.clamp(min=0)
        label = labels[matched].to(torch.int64)
        label[matches == Matcher.BELOW_LOW_THRESHOLD] = 0
        label[matches == Matcher.BETWEEN_THRESHOLDS] = -1
        return matched, label

    def subsample(self, labels: list[Tensor]) -> list[Tensor]:
        """Indices of the proposals drawn, ascending, per picture."""
        drawn = zip(*self.fg_bg_sampler(labels), strict=True)
        return [torch.where(positive | negative)[0] for positive, negative in drawn]

    def add_gt_proposals(self, proposals: list[Tensor], gt_boxes: list[Tensor]) -> list[Tensor]:
        """Proposals and targets together: early in training proposals are too bad to learn from alone."""
        return [torch.cat(pair) for pair in zip(proposals, gt_boxes, strict=True)]

    def check_targets(self, targets: list[Target] | None) -> None:
        """Refuse targets without what the heads learn from.

        Raises:
            ValueError: they are missing, or an entry of one is.
        """
        if targets is None:
            raise ValueError("RoIHeads: targets is None, expected boxes and labels of every picture in training.")
        needed = ["boxes", "labels", *(["masks"] if self.has_mask() else [])]
        needed += ["keypoints"] if self.has_keypoint() else []
        for index, target in enumerate(targets):
            if missing := [name for name in needed if name not in target]:
                raise ValueError(f"targets[{index}] has no {', '.join(missing)}, expected {', '.join(needed)}.")

    def select_training_samples(
        self, proposals: list[Tensor], targets: list[Target] | None
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Draw proposals.

        Returns:
            Per picture: boxes, the index of each one's target, labels, codes of the targets.
        """
        self.check_targets(targets)
        assert targets is not None
        gt_boxes = [target["boxes"].to(proposals[0].dtype) for target in targets]
        proposals = self.add_gt_proposals(proposals, gt_boxes)
        matched, labels = self.assign_targets_to_proposals(
            proposals, gt_boxes, [target["labels"] for target in targets]
        )
        chosen = self.subsample(labels)
        proposals = [boxes[index] for boxes, index in zip(proposals, chosen, strict=True)]
        labels = [label[index] for label, index in zip(labels, chosen, strict=True)]
        matched = [match[index] for match, index in zip(matched, chosen, strict=True)]
        wanted = [
            boxes[index] if boxes.numel() else boxes.new_zeros(index.shape[0], 4)
            for boxes, index in zip(gt_boxes, matched, strict=True)
        ]
        return proposals, matched, labels, self.box_coder.encode(wanted, proposals)

    # Inference

    def postprocess_detections(
        self,
        class_logits: Tensor,
        box_regression: Tensor,
        proposals: list[Tensor],
        image_shapes: list[Size],
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Boxes (K, 4), scores (K,) and labels (K,) of each picture, best first."""
        counts = [boxes.shape[0] for boxes in proposals]
        boxes = torch.split(self.box_coder.decode(box_regression, proposals), counts)
        scores = torch.split(class_logits.softmax(-1), counts)
        found = [self._best(*each) for each in zip(boxes, scores, image_shapes, strict=True)]
        return [boxes for boxes, _, _ in found], [score for _, score, _ in found], [label for _, _, label in found]

    def _best(self, boxes: Tensor, scores: Tensor, image_shape: Size) -> tuple[Tensor, Tensor, Tensor]:
        """The best of boxes (N, classes, 4) with probabilities (N, classes); every class is a detection of its own."""
        boxes = clip_boxes_to_image(boxes, image_shape)[:, 1:]
        labels = torch.arange(1, scores.shape[1], device=scores.device).expand(scores.shape[0], -1).reshape(-1)
        boxes, scores = boxes.reshape(-1, 4), scores[:, 1:].reshape(-1)
        large = ((boxes[:, 2:] - boxes[:, :2]) >= 1e-2).all(1)
        keep = torch.where(large & (scores > self.score_thresh))[0]
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        keep = batched_nms(boxes, scores, labels, self.nms_thresh)[: self.detections_per_img]
        return boxes[keep], scores[keep], labels[keep]

    def forward(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[Size],
        targets: list[Target] | None = None,
    ) -> tuple[list[Target], dict[str, Tensor]]:
        """Look at proposals.

        Args:
            features: maps of the backbone.
            proposals: of each picture (N_i, 4).
            image_shapes: (height, width) of each picture.
            targets: of each picture `boxes` and `labels`, and `masks` or `keypoints`; needed in training.

        Returns:
            Detections in evaluation mode, losses in training.

        Raises:
            TypeError: boxes are no floating point, or labels no int64.
            ValueError: targets, or parts of them, are missing in training.
        """
        if targets is not None:
            _check_dtypes(targets)
        if self.training:
            return [], self._losses(features, proposals, image_shapes, targets)
        result = self._detect_boxes(features, proposals, image_shapes)
        boxes = [found["boxes"] for found in result]
        if self.has_mask():
            logits = self._mask_logits(features, boxes, image_shapes)
            for found, masks in zip(result, maskrcnn_inference(logits, [r["labels"] for r in result]), strict=True):
                found["masks"] = masks
        if self.has_keypoint():
            logits = self._keypoint_logits(features, boxes, image_shapes)
            for found, points, scores in zip(result, *keypointrcnn_inference(logits, boxes), strict=True):
                found["keypoints"], found["keypoints_scores"] = points, scores
        return result, {}

    def _predict(
        self, features: dict[str, Tensor], proposals: list[Tensor], image_shapes: list[Size]
    ) -> tuple[Tensor, Tensor]:
        pooled = self.box_roi_pool(features, proposals, image_shapes)
        return self.box_predictor(_run(self.box_head, pooled))  # type: ignore[no-any-return]

    def _detect_boxes(
        self, features: dict[str, Tensor], proposals: list[Tensor], image_shapes: list[Size]
    ) -> list[Target]:
        found = self.postprocess_detections(*self._predict(features, proposals, image_shapes), proposals, image_shapes)
        return [
            {"boxes": boxes, "labels": labels, "scores": scores} for boxes, scores, labels in zip(*found, strict=True)
        ]

    def _mask_logits(self, features: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[Size]) -> Tensor:
        pooled = self.mask_roi_pool(features, boxes, image_shapes)  # type: ignore[misc]
        return self.mask_predictor(_run(self.mask_head, pooled))  # type: ignore[misc,no-any-return]

    def _keypoint_logits(self, features: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[Size]) -> Tensor:
        pooled = self.keypoint_roi_pool(features, boxes, image_shapes)  # type: ignore[misc]
        return self.keypoint_predictor(_run(self.keypoint_head, pooled))  # type: ignore[misc,no-any-return]

    def _losses(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[Size],
        targets: list[Target] | None,
    ) -> dict[str, Tensor]:
        proposals, matched, labels, codes = self.select_training_samples(proposals, targets)
        assert targets is not None
        logits, regression = self._predict(features, proposals, image_shapes)
        class_loss, box_loss = fastrcnn_loss(logits, regression, labels, codes)
        losses = {"loss_classifier": class_loss, "loss_box_reg": box_loss}
        if not (self.has_mask() or self.has_keypoint()):
            return losses
        # Masks and keypoints are learned from objects only.
        objects = [torch.where(label > 0)[0] for label in labels]
        boxes = [box[index] for box, index in zip(proposals, objects, strict=True)]
        matched = [match[index] for match, index in zip(matched, objects, strict=True)]

        def of(name: str) -> list[Tensor]:
            return [target[name] for target in targets]

        if self.has_mask():
            masks = self._mask_logits(features, boxes, image_shapes)
            losses["loss_mask"] = maskrcnn_loss(masks, boxes, of("masks"), of("labels"), matched)
        if self.has_keypoint():
            heat = self._keypoint_logits(features, boxes, image_shapes)
            losses["loss_keypoint"] = keypointrcnn_loss(heat, boxes, of("keypoints"), matched)
        return losses


def _run(head: nn.Module | None, pooled: Tensor) -> Tensor:
    """The head's answers. There may be no boxes, which normalization cannot be traced with: one of zeros is added."""
    assert head is not None
    if torch.compiler.is_compiling():
        return head(torch.cat([pooled.new_zeros(1, *pooled.shape[1:]), pooled]))[1:]  # type: ignore[no-any-return]
    return head(pooled)  # type: ignore[no-any-return]


def _check_dtypes(targets: list[Target]) -> None:
    for index, target in enumerate(targets):
        expected: dict[str, Any] = {"boxes": "floating point", "labels": "int64", "keypoints": "float32"}
        for name in expected.keys() & target.keys():
            dtype = target[name].dtype
            fits = {"boxes": dtype.is_floating_point, "labels": dtype == torch.int64}
            if not fits.get(name, dtype == torch.float32):
                raise TypeError(f"targets[{index}][{name!r}] has dtype {dtype}, expected {expected[name]}.")
