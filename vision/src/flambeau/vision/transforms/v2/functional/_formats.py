"""Bounding boxes by their corners, which is how transforms move them, and back in their own format."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.vision.ops._box_formats import convert
from flambeau.vision.tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from flambeau.vision.tv_tensors._bounding_boxes import bounding_box_format


def converted(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    """Boxes of [..., K] in another format of the same kind, in the same dtype; themselves where it is the same format.

    Integers have no halves: the edges of CXCYWH are truncated, and a centre is rounded down.
    """
    if old == new:
        return boxes
    if not boxes.is_floating_point() and BoundingBoxFormat.CXCYWH in (old, new):
        if old == BoundingBoxFormat.CXCYWH:
            corners = convert(boxes.float(), "cxcywh", "xyxy").to(boxes.dtype)
            return converted(corners, BoundingBoxFormat.XYXY, new)
        boxes = converted(boxes, old, BoundingBoxFormat.XYWH)
        start, sides = boxes[..., :2], boxes[..., 2:]
        return torch.cat([start + sides // 2, sides], -1)
    return convert(boxes, old.value.lower(), new.value.lower())


def in_fractions(values: Tensor) -> Tensor:
    """Integers as float32; floating point as it is."""
    return values if values.is_floating_point() else values.float()


def corners_of(boxes: Tensor, format: BoundingBoxFormat | str) -> Tensor:
    """Boxes [..., K] as XYXY, those with an angle as XYXYXYXY."""
    format = bounding_box_format(format)
    return converted(boxes, format, corner_format(format))


def from_corners(corners: Tensor, format: BoundingBoxFormat | str) -> Tensor:
    """The inverse of `corners_of`."""
    format = bounding_box_format(format)
    return converted(corners, corner_format(format), format)


def corner_format(format: BoundingBoxFormat) -> BoundingBoxFormat:
    """XYXY, or XYXYXYXY for formats with an angle."""
    return BoundingBoxFormat.XYXYXYXY if is_rotated_bounding_format(format) else BoundingBoxFormat.XYXY


def points_of(corners: Tensor) -> Tensor:
    """The four corner points [..., 4, 2], clockwise from the first, of XYXY or XYXYXYXY."""
    if corners.shape[-1] == 8:
        return corners.reshape(*corners.shape[:-1], 4, 2)
    left, top, right, bottom = corners.unbind(-1)
    x, y = torch.stack([left, right, right, left], -1), torch.stack([top, top, bottom, bottom], -1)
    return torch.stack([x, y], -1)


def around_points(points: Tensor, format: BoundingBoxFormat | str) -> Tensor:
    """Corners of boxes around moved corner points [..., 4, 2].

    Returns:
        XYXY: the envelope; XYXYXYXY for formats with an angle: a rectangle again (see `rectangle`).
    """
    if is_rotated_bounding_format(format):
        return rectangle(points).flatten(-2)
    return torch.cat([points.amin(-2), points.amax(-2)], -1)


def rectangle(points: Tensor) -> Tensor:
    """Make parallelograms [..., 4, 2] rectangles that keep their longer diagonal, and the direction of the longer edge.

    Upstream: of quadrilaterals that are no parallelograms the middle of the diagonal 1-3 is kept, and the edges at 1.
    """
    first, second, third, fourth = points.unbind(-2)
    across, down = frame(points)
    center, top, left = (first + third) / 2, second - first, fourth - first
    wide = _length(top) >= _length(left)
    # The longer edge grows by what the shorter one leans along it.
    width = _along(top, across) + torch.where(wide, _along(left, across).abs(), 0)
    height = _along(left, down) + torch.where(wide, 0, _along(top, down).abs())
    right, below = width / 2 * across, height / 2 * down
    return torch.stack(
        [center - right - below, center + right - below, center + right + below, center - right + below], -2
    )


def _along(vector: Tensor, direction: Tensor) -> Tensor:
    return (vector * direction).sum(-1, keepdim=True)


def _length(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return length


def frame(points: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors [..., 2] along the edges 1-2 and 1-4 of a rectangle [..., 4, 2], right-angled by the longer edge.

    A rectangle without extent has the axes of the picture.
    """
    across, down = points[..., 1, :] - points[..., 0, :], points[..., 3, :] - points[..., 0, :]
    width, height = _length(across), _length(down)
    turned = torch.stack([down[..., 1], -down[..., 0]], -1)
    edge, length = torch.where(width >= height, across, turned), torch.maximum(width, height)
    axis = torch.stack([torch.ones_like(edge[..., 0]), torch.zeros_like(edge[..., 0])], -1)
    unit = torch.where(length > 0, edge / length.clamp(min=torch.finfo(points.dtype).tiny), axis)
    return unit, torch.stack([-unit[..., 1], unit[..., 0]], -1)
