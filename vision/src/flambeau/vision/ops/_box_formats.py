"""Formats of bounding boxes, and the way from one to another.

Axis-aligned boxes meet in their corners, xyxy; rotated ones in corner, sides and angle, xywhr. Rotation is
counter-clockwise as seen on the screen, where y points down, in degrees.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["AXIS_ALIGNED", "ROTATED", "check_boxes", "check_format", "convert", "widen"]

AXIS_ALIGNED = ("xyxy", "xywh", "cxcywh")
ROTATED = ("xywhr", "cxcywhr", "xyxyxyxy")
_NUMBERS = {"xyxy": 4, "xywh": 4, "cxcywh": 4, "xywhr": 5, "cxcywhr": 5, "xyxyxyxy": 8}


def check_format(op: str, fmt: str) -> None:
    """Refuse an unknown format.

    Raises:
        ValueError: `fmt` is none of the six.
    """
    if fmt not in _NUMBERS:
        raise ValueError(f"{op}: format {fmt!r} is unknown, expected one of {', '.join(_NUMBERS)}.")


def check_boxes(op: str, name: str, boxes: Tensor, fmt: str) -> None:
    """Refuse an unknown format, and boxes that have not its number of values.

    Raises:
        ValueError: either.
    """
    check_format(op, fmt)
    if boxes.dim() == 0 or boxes.shape[-1] != _NUMBERS[fmt]:
        raise ValueError(
            f"{op}: {name} has shape {tuple(boxes.shape)}, expected (..., {_NUMBERS[fmt]}) for format {fmt!r}."
        )


def widen(boxes: Tensor) -> Tensor:
    """Boxes in a dtype in which products of coordinates fit: float32, float64, int32 or int64."""
    if boxes.is_floating_point():
        return boxes if boxes.dtype in (torch.float32, torch.float64) else boxes.float()
    return boxes if boxes.dtype in (torch.int32, torch.int64) else boxes.int()


def convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes of a known format in another one of the same kind; `in_fmt` differs from `out_fmt`."""
    if in_fmt in AXIS_ALIGNED:
        return _from_corners(_to_corners(boxes, in_fmt), out_fmt)
    # Angles need fractions: integers are rounded once, at the end.
    values = boxes if boxes.is_floating_point() else boxes.float()
    result = _from_sides(_to_sides(values, in_fmt), out_fmt)
    return result if boxes.is_floating_point() else result.round().to(boxes.dtype)


# --- axis-aligned -------------------------------------------------------------------------------------------------


def _to_corners(boxes: Tensor, fmt: str) -> Tensor:
    if fmt == "xyxy":
        return boxes
    start, sides = boxes[..., :2], boxes[..., 2:]
    if fmt == "cxcywh":
        start = start - 0.5 * sides
    return torch.cat([start, start + sides], -1)


def _from_corners(boxes: Tensor, fmt: str) -> Tensor:
    if fmt == "xyxy":
        return boxes
    start, end = boxes[..., :2], boxes[..., 2:]
    sides = end - start
    return torch.cat([start if fmt == "xywh" else (start + end) / 2, sides], -1)


# --- rotated ------------------------------------------------------------------------------------------------------


def _to_sides(boxes: Tensor, fmt: str) -> Tensor:
    """Any rotated format as (x, y, w, h, r), x and y those of the corner that was top left before rotation."""
    if fmt == "xywhr":
        return boxes
    if fmt == "cxcywhr":
        return _moved_to_center(boxes, -1)
    x1, y1, x2, y2, x3, y3 = boxes[..., :6].unbind(-1)
    width, height = torch.hypot(x2 - x1, y2 - y1), torch.hypot(x3 - x2, y3 - y2)
    angle = torch.rad2deg(torch.atan2(y1 - y2, x2 - x1))
    return torch.stack([x1, y1, width, height, angle], -1)


def _from_sides(boxes: Tensor, fmt: str) -> Tensor:
    if fmt == "xywhr":
        return boxes
    if fmt == "cxcywhr":
        return _moved_to_center(boxes, 1)
    x, y, width, height, angle = boxes.unbind(-1)
    cos, sin = _direction(angle)
    right = (width * cos, -width * sin)
    down = (height * sin, height * cos)
    corners = [
        x,
        y,
        x + right[0],
        y + right[1],
        x + right[0] + down[0],
        y + right[1] + down[1],
        x + down[0],
        y + down[1],
    ]
    return torch.stack(corners, -1)


def _moved_to_center(boxes: Tensor, sign: int) -> Tensor:
    """The position moved from the corner to the centre, or with sign -1 from the centre to the corner."""
    x, y, width, height, angle = boxes.unbind(-1)
    cos, sin = _direction(angle)
    along, across = (width * cos + height * sin) / 2, (height * cos - width * sin) / 2
    return torch.stack([x + sign * along, y + sign * across, width, height, angle], -1)


def _direction(angle: Tensor) -> tuple[Tensor, Tensor]:
    radians = torch.deg2rad(angle)
    return radians.cos(), radians.sin()
