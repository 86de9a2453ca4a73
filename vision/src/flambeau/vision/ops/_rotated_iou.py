"""Intersection over union of rotated boxes, in plain tensor operations.

No vertices are computed and none are sorted. Seen from the second box, that box is a rectangle [-a, a] x [-b, b]. The
part of the first box inside it has the area

    integral over x in [-a, a] of (clamp(top(x), -b, b) - clamp(bottom(x), -b, b)),

and top and bottom are the edges of the first box, walked once around: each edge adds its own integral, the sign comes
from its direction. The integral of a clamped line has a closed form (`_mean_of_clamped_line`). It is exact for
touching, nested and identical boxes, where clipping polygons vertex by vertex needs tolerances.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.vision.ops._box_formats import convert

__all__ = ["rotated_iou"]


def rotated_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs of rotated boxes.

    Args:
        boxes1: (..., N, 5), centre x, centre y, width, height, degrees counter-clockwise; floating point.
        boxes2: (..., M, 5), likewise.

    Returns:
        (..., N, M), in [0, 1], computed in float64 and returned in the dtype of `boxes1`; 0 where a box has no area.
    """
    first, second = boxes1.double(), boxes2.double()
    area1, area2 = first[..., 2] * first[..., 3], second[..., 2] * second[..., 3]
    both = _intersection(first, second)
    union = area1[..., :, None] + area2[..., None, :] - both
    solid = (area1[..., :, None] > 0) & (area2[..., None, :] > 0)
    return torch.where(solid, both / union.where(solid, 1.0), 0.0).clamp(0, 1).to(boxes1.dtype)


def _intersection(first: Tensor, second: Tensor) -> Tensor:
    """Areas (..., N, M)."""
    corners = convert(first, "cxcywhr", "xyxyxyxy")
    corners = corners.reshape(*corners.shape[:-1], 1, 4, 2)
    x, y = _seen_from(second[..., None, :, None, :], corners)
    half_width, half_height = second[..., None, :, 2:3] / 2, second[..., None, :, 3:4] / 2
    x_next, y_next = x.roll(-1, -1), y.roll(-1, -1)
    # The part of each edge between x = -a and x = a, and the heights at its two ends.
    x_from, x_to = _clamp(x, half_width), _clamp(x_next, half_width)
    run = x_next - x
    slope = (y_next - y) / run.where(run != 0, 1.0)
    y_from, y_to = y + (x_from - x) * slope, y + (x_to - x) * slope
    return ((x_to - x_from) * _mean_of_clamped_line(y_from, y_to, half_height)).sum(-1).abs()


def _seen_from(boxes: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates of points (..., 2) along the width and the height of boxes (..., 5), from their centres."""
    radians = torch.deg2rad(boxes[..., 4])
    cos, sin = radians.cos(), radians.sin()
    x, y = points[..., 0] - boxes[..., 0], points[..., 1] - boxes[..., 1]
    return x * cos - y * sin, x * sin + y * cos


def _mean_of_clamped_line(start: Tensor, end: Tensor, limit: Tensor) -> Tensor:
    """Mean of clamp(y, -limit, limit) while y goes from start to end in a straight line."""
    low, high = torch.minimum(start, end), torch.maximum(start, end)
    length = high - low
    below = torch.minimum((-limit - low).clamp(min=0), length)
    above = torch.minimum((high - limit).clamp(min=0), length)
    inside_mean = (_clamp(low, limit) + _clamp(high, limit)) / 2
    total = (length - below - above) * inside_mean + (above - below) * limit
    return torch.where(length > 0, total / length.where(length > 0, 1.0), _clamp(low, limit))


def _clamp(values: Tensor, limit: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(values, -limit), limit)
