"""Parts of all detectors: coding of boxes, matching, sampling, and helpers of the builders."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.ops.ciou_loss import complete_box_iou_loss
from flambeau.vision.ops.diou_loss import distance_box_iou_loss
from flambeau.vision.ops.giou_loss import generalized_box_iou_loss
from flambeau.vision.ops.misc import FrozenBatchNorm2d

__all__ = [
    "BalancedPositiveNegativeSampler",
    "BoxCoder",
    "BoxLinearCoder",
    "Matcher",
    "SSDMatcher",
    "encode_boxes",
    "overwrite_eps",
    "retrieve_out_channels",
]


# --- sampling -----------------------------------------------------------------------------------------------------


class BalancedPositiveNegativeSampler:
    """Draws candidates for the loss, so that the many negatives do not drown the few positives.

    Args:
        batch_size_per_image: candidates drawn from each picture.
        positive_fraction: the largest part of them that is positive.
    """

    def __init__(self, batch_size_per_image: int, positive_fraction: float) -> None:
        self.batch_size_per_image = batch_size_per_image
        self.positive_fraction = positive_fraction

    def __call__(self, matched_idxs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Draw from every picture.

        Args:
            matched_idxs: per picture (N,): at least 1 is positive, 0 negative, below 0 ignored.

        Returns:
            Masks (N,) uint8 of the positives and of the negatives drawn, per picture.
        """
        drawn = [self._draw(labels) for labels in matched_idxs]
        return [positive for positive, _ in drawn], [negative for _, negative in drawn]

    def _draw(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        positive, negative = torch.where(labels >= 1)[0], torch.where(labels == 0)[0]
        positives = min(positive.numel(), int(self.batch_size_per_image * self.positive_fraction))
        negatives = min(negative.numel(), self.batch_size_per_image - positives)
        return _marked(labels, _some(positive, positives)), _marked(labels, _some(negative, negatives))


def _some(candidates: Tensor, count: int) -> Tensor:
    return candidates[torch.randperm(candidates.numel(), device=candidates.device)[:count]]


def _marked(labels: Tensor, indices: Tensor) -> Tensor:
    mask = torch.zeros_like(labels, dtype=torch.uint8)
    mask[indices] = 1
    return mask


# --- coding -------------------------------------------------------------------------------------------------------


def _as_center(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Centres and sides (..., 2) of boxes (..., 4)."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + 0.5 * sides, sides


def encode_boxes(reference_boxes: Tensor, proposals: Tensor, weights: Tensor) -> Tensor:
    """What a network has to answer for `proposals`, so that decoding gives `reference_boxes`.

    `(dx, dy, dw, dh)`: shift of the centre in units of the proposal's sides, logarithm of the sides' ratio, each times
    its weight (Girshick et al. 2013, arXiv:1311.2524, appendix C).

    Args:
        reference_boxes: (N, 4), xyxy.
        proposals: (N, 4), xyxy.
        weights: (4,).

    Returns:
        (N, 4).
    """
    center, sides = _as_center(proposals)
    target_center, target_sides = _as_center(reference_boxes)
    shift = (target_center - center) / sides
    return weights * torch.cat([shift, torch.log(target_sides / sides)], 1)


def _by_four(codes: Tensor) -> Tensor:
    """(N, 4 K) as (N, K, 4), for N = 0 too."""
    return codes.reshape(codes.shape[0], codes.shape[1] // 4, 4)


class BoxCoder:
    """Boxes as differences from proposals, see `encode_boxes`, and back.

    Args:
        weights: factors of dx, dy, dw and dh.
        bbox_xform_clip: largest dw and dh when decoding, so that exp does not overflow; by default sides grow at most
            62.5 times.
    """

    def __init__(
        self, weights: tuple[float, float, float, float], bbox_xform_clip: float = math.log(1000.0 / 16)
    ) -> None:
        self.weights = weights
        self.bbox_xform_clip = bbox_xform_clip

    def encode(self, reference_boxes: list[Tensor], proposals: list[Tensor]) -> list[Tensor]:
        """Encode the boxes of every picture, (N_i, 4) each."""
        sizes = [len(boxes) for boxes in reference_boxes]
        codes = self.encode_single(torch.cat(reference_boxes), torch.cat(proposals))
        return list(torch.split(codes, sizes))

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """Encode boxes (N, 4)."""
        return encode_boxes(reference_boxes, proposals, proposals.new_tensor(self.weights))

    def decode(self, rel_codes: Tensor, boxes: list[Tensor]) -> Tensor:
        """Decode (sum of the N_i, 4 K) codes for the proposals of all pictures, into (sum of the N_i, K, 4)."""
        return _by_four(self.decode_single(rel_codes, torch.cat(boxes)))

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """Decode K codes for each of N boxes: (N, 4 K) and (N, 4) into (N, 4 K)."""
        center, sides = _as_center(boxes.to(rel_codes.dtype))
        center, sides = center[:, None], sides[:, None]
        codes = _by_four(rel_codes) / rel_codes.new_tensor(self.weights)
        new_center = codes[..., :2] * sides + center
        half = 0.5 * codes[..., 2:].clamp(max=self.bbox_xform_clip).exp() * sides
        return torch.cat([new_center - half, new_center + half], -1).flatten(1)


class BoxLinearCoder:
    """Boxes as distances of their four sides from the centres of proposals (Tian et al. 2019, arXiv:1904.01355).

    Args:
        normalize_by_size: distances in units of the proposal's sides.
    """

    def __init__(self, normalize_by_size: bool = True) -> None:
        self.normalize_by_size = normalize_by_size

    def encode(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """Distances left, top, right, bottom (..., 4), of the sides of `proposals` from the centres of references.

        Upstream: the roles are those of `BoxCoder` exchanged: references are the anchors, proposals the targets.
        """
        center, unit = self._center_and_unit(reference_boxes)
        distances = torch.cat([center - proposals[..., :2], proposals[..., 2:] - center], -1)
        return distances / unit

    def decode(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """Boxes (..., 4) of distances (..., 4) from the centres of boxes (..., 4)."""
        center, unit = self._center_and_unit(boxes.to(rel_codes.dtype))
        distances = rel_codes * unit
        return torch.cat([center - distances[..., :2], center + distances[..., 2:]], -1)

    def _center_and_unit(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        sides = boxes[..., 2:] - boxes[..., :2]
        unit = sides if self.normalize_by_size else torch.ones_like(sides)
        return 0.5 * (boxes[..., :2] + boxes[..., 2:]), torch.cat([unit, unit], -1)


# --- matching -----------------------------------------------------------------------------------------------------


class Matcher:
    """Gives each prediction the target it fits best, or none.

    Args:
        high_threshold: a quality from here on is a match.
        low_threshold: a quality below is background; between the two it is neither.
        allow_low_quality_matches: also match, with its own best target, every prediction that is some target's best
            (of several equally good ones all). So each target has a prediction.

    Raises:
        ValueError: the low threshold is above the high one.
    """

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(self, high_threshold: float, low_threshold: float, allow_low_quality_matches: bool = False) -> None:
        if low_threshold > high_threshold:
            raise ValueError(
                f"Matcher: low_threshold is {low_threshold}, expected at most high_threshold, {high_threshold}."
            )
        self.high_threshold = high_threshold
        self.low_threshold = low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """Match.

        Args:
            match_quality_matrix: (M, N), such as the IoU of M > 0 targets and N predictions.

        Returns:
            (N,) int64: the target's index, `BELOW_LOW_THRESHOLD` or `BETWEEN_THRESHOLDS`.

        Raises:
            ValueError: there are no targets, or no predictions.
        """
        if match_quality_matrix.numel() == 0:
            raise ValueError(
                f"Matcher: match_quality_matrix has shape {tuple(match_quality_matrix.shape)}, expected at least one "
                "target and one prediction; a picture without targets has nothing to match."
            )
        quality, best = match_quality_matrix.max(dim=0)
        matches = best.masked_fill(quality < self.low_threshold, self.BELOW_LOW_THRESHOLD)
        between = (quality >= self.low_threshold) & (quality < self.high_threshold)
        matches = matches.masked_fill(between, self.BETWEEN_THRESHOLDS)
        if self.allow_low_quality_matches:
            self.set_low_quality_matches_(matches, best, match_quality_matrix)
        return matches

    def set_low_quality_matches_(self, matches: Tensor, all_matches: Tensor, match_quality_matrix: Tensor) -> None:
        """Write into `matches` (N,) those of `all_matches` (N,) whose prediction is some target's best."""
        best_of_target = match_quality_matrix == match_quality_matrix.amax(dim=1, keepdim=True)
        chosen = best_of_target.any(dim=0)
        matches.copy_(torch.where(chosen, all_matches, matches))


class SSDMatcher(Matcher):
    """A `Matcher` with one threshold, where each target also gets its best prediction, whatever the quality.

    Args:
        threshold: a quality from here on is a match.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """As of `Matcher`; of two targets with one best prediction the later one gets it."""
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.argmax(dim=1)
        matches[best] = torch.arange(best.shape[0], device=best.device)
        return matches


# --- losses and builders ------------------------------------------------------------------------------------------


def _box_loss(
    type: str,
    box_coder: BoxCoder,
    anchors_per_image: Tensor,
    matched_gt_boxes_per_image: Tensor,
    bbox_regression_per_image: Tensor,
    cnf: dict[str, float] | None = None,
) -> Tensor:
    """Sum of a regression loss over the boxes of a picture.

    Args:
        type: "l1" or "smooth_l1", between codes; "giou", "diou" or "ciou", between boxes.
        box_coder: of the network.
        anchors_per_image: (N, 4).
        matched_gt_boxes_per_image: (N, 4).
        bbox_regression_per_image: (N, 4), the network's codes.
        cnf: `beta` of smooth_l1 (1.0), `eps` of the others (1e-7).

    Raises:
        ValueError: there is no such loss.
    """
    options = cnf or {}
    if type in ("l1", "smooth_l1"):
        target = box_coder.encode_single(matched_gt_boxes_per_image, anchors_per_image)
        if type == "l1":
            return F.l1_loss(bbox_regression_per_image, target, reduction="sum")
        return F.smooth_l1_loss(bbox_regression_per_image, target, reduction="sum", beta=options.get("beta", 1.0))
    if type not in _OVERLAP_LOSSES:
        raise ValueError(f"Box loss {type!r} is unknown, expected l1, smooth_l1, {', '.join(_OVERLAP_LOSSES)}.")
    boxes = box_coder.decode_single(bbox_regression_per_image, anchors_per_image)
    loss = _OVERLAP_LOSSES[type]
    return loss(boxes, matched_gt_boxes_per_image, reduction="sum", eps=options.get("eps", 1e-7))


_OVERLAP_LOSSES = {
    "ciou": complete_box_iou_loss,
    "diou": distance_box_iou_loss,
    "giou": generalized_box_iou_loss,
}


def overwrite_eps(model: nn.Module, eps: float) -> None:
    """Set `eps` of all `FrozenBatchNorm2d` of a model.

    Upstream: checkpoints from before these layers had an `eps` were trained with 0.
    """
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


@torch.no_grad()
def retrieve_out_channels(model: nn.Module, size: tuple[int, int]) -> list[int]:
    """Numbers of channels of a backbone's feature maps, found by running it once in evaluation mode.

    Args:
        model: maps pictures (1, 3, height, width) to a map or a dict of maps.
        size: (width, height) of the picture.
    """
    training = model.training
    like = next(model.parameters())
    model.eval()
    try:
        features = model(torch.zeros(1, 3, size[1], size[0], device=like.device, dtype=like.dtype))
    finally:
        model.train(training)
    maps = [features] if isinstance(features, Tensor) else list(features.values())
    return [map.shape[1] for map in maps]


def _fake_cast_onnx(v: Tensor) -> int:
    """The tensor itself, typed as a number; tracing keeps it symbolic so."""
    return v  # type: ignore[return-value]


def _topk_min(input: Tensor, orig_kval: int, axis: int) -> int:
    """`orig_kval`, or the length of `input` along `axis` where that is shorter."""
    return min_size(orig_kval, input.shape[axis])


def min_size(limit: int, size: Any) -> int:
    """The smaller of a limit and a size, which may be symbolic."""
    return torch.sym_min(limit, size)  # type: ignore[no-any-return]
