"""What the losses on pairs of boxes share: overlap, enclosing box, centres, aspect ratio, reduction."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from flambeau.vision.ops._box_formats import check_boxes, widen

__all__ = ["Pairs", "aspect_penalty", "center_penalty", "pairs", "reduced"]


class Pairs(NamedTuple):
    """Predicted and target boxes, (..., 4) each, and what they enclose."""

    predicted: Tensor
    target: Tensor
    iou: Tensor
    union: Tensor
    enclosing: Tensor  # (..., 2), width and height of the smallest box around both


def pairs(op: str, boxes1: Tensor, boxes2: Tensor, eps: float) -> Pairs:
    """Overlaps of boxes with their counterparts, in float32 at least; `eps` keeps empty unions from dividing by zero.

    Raises:
        ValueError: boxes have not four values.
    """
    check_boxes(op, "boxes1", boxes1, "xyxy")
    check_boxes(op, "boxes2", boxes2, "xyxy")
    one, two = widen(boxes1), widen(boxes2)
    sides = torch.minimum(one[..., 2:], two[..., 2:]) - torch.maximum(one[..., :2], two[..., :2])
    # Boxes that only touch or are apart send no gradient through their intersection.
    overlap = torch.where((sides > 0).all(-1), sides[..., 0] * sides[..., 1], 0)
    union = _area(one) + _area(two) - overlap
    enclosing = torch.maximum(one[..., 2:], two[..., 2:]) - torch.minimum(one[..., :2], two[..., :2])
    return Pairs(one, two, overlap / (union + eps), union, enclosing)


def center_penalty(boxes: Pairs, eps: float) -> Tensor:
    """Squared distance of the centres, over the squared diagonal of the enclosing box."""
    between = (boxes.predicted[..., :2] + boxes.predicted[..., 2:] - boxes.target[..., :2] - boxes.target[..., 2:]) / 2
    return between.square().sum(-1) / (boxes.enclosing.square().sum(-1) + eps)


def aspect_penalty(boxes: Pairs, eps: float) -> Tensor:
    """`alpha * v` of the complete IoU: how far the aspect ratios are apart, weighed more the better boxes overlap."""
    v = 4 / math.pi**2 * (_aspect_angle(boxes.target) - _aspect_angle(boxes.predicted)) ** 2
    with torch.no_grad():
        alpha = v / (1 - boxes.iou + v + eps)
    return alpha * v


def reduced(op: str, loss: Tensor, reduction: str) -> Tensor:
    """The loss as asked for; the mean of nothing is 0, and still belongs to the graph.

    Raises:
        ValueError: `reduction` is none of "none", "mean", "sum".
    """
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() > 0 else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(f"{op}: reduction is {reduction!r}, expected 'none', 'mean' or 'sum'.")


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _aspect_angle(boxes: Tensor) -> Tensor:
    width, height = (boxes[..., 2:] - boxes[..., :2]).unbind(-1)
    return torch.atan(width / height)
