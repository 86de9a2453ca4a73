"""Cutting rotated boxes at the edges of the picture."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flambeau.vision.transforms.v2.functional._formats import frame, points_of


def clamp_rotated(corners: Tensor, canvas_size: tuple[int, int], mode: str) -> Tensor:
    """Boxes XYXYXYXY [..., 8], cut at the edges; their angles stay.

    Args:
        corners: floating point.
        canvas_size: (height, width).
        mode: "soft": the smallest box around what of a box is in the picture. "hard": of that box each corner outside
            is moved to the middle of the cut across it.

    Returns:
        Same shape. Boxes inside of the picture stay as they are, rectangles or not. Of a box that is entirely outside
        the point (0, height) is left.
    """
    points = points_of(corners)
    axes = frame(points)
    seen, valid = _visible(points, axes, canvas_size)
    box = _around(points[..., 0, :], axes, seen, valid)
    if mode == "hard":
        height, width = canvas_size
        for axis, limit, sign in ((0, 0, -1), (0, width, 1), (1, 0, -1), (1, height, 1)):
            box = _cut(box, axis, limit, sign)
    nothing = torch.stack([torch.zeros_like(points[..., 0]), torch.full_like(points[..., 1], canvas_size[0])], -1)
    cut = torch.where(valid.any(-1)[..., None, None], box.points(), nothing)
    inside = ((points >= 0) & (points <= points.new_tensor([canvas_size[1], canvas_size[0]]))).flatten(-2).all(-1)
    return torch.where(inside[..., None, None], points, cut).flatten(-2)


@dataclass(frozen=True)
class _Box:
    """Rectangles as ranges along the axes of a frame of their own."""

    origin: Tensor  # [..., 2]
    across: Tensor  # unit vectors [..., 2]
    down: Tensor
    left: Tensor  # [...], along `across` from the origin
    right: Tensor
    top: Tensor  # [...], along `down`
    bottom: Tensor

    def points(self) -> Tensor:
        """Corners [..., 4, 2], clockwise from the top left."""
        x = torch.stack([self.left, self.right, self.right, self.left], -1)[..., None]
        y = torch.stack([self.top, self.top, self.bottom, self.bottom], -1)[..., None]
        return self.origin[..., None, :] + x * self.across[..., None, :] + y * self.down[..., None, :]


def _around(origin: Tensor, axes: tuple[Tensor, Tensor], seen: Tensor, valid: Tensor) -> _Box:
    """The smallest boxes along `axes` around those points `seen` that are `valid`."""
    offset = seen - origin[..., None, :]
    far = torch.finfo(seen.dtype).max
    ranges = []
    for axis in axes:
        place = (offset * axis[..., None, :]).sum(-1)
        ranges += [torch.where(valid, place, far).amin(-1), torch.where(valid, place, -far).amax(-1)]
    return _Box(origin, *axes, *ranges)


def _visible(points: Tensor, axes: tuple[Tensor, Tensor], canvas_size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Points [..., 12, 2], among which are all corners of what of a box is in the picture, and which of them count.

    They are the ends of the parts of the box's edges that are in the picture (Liang and Barsky 1984), and the corners
    of the picture that are in the box.
    """
    height, width = canvas_size
    limits = points.new_tensor([width, height])
    step = points.roll(-1, -2) - points
    level = step == 0
    divisor = torch.where(level, 1, step)
    first, last = -points / divisor, (limits - points) / divisor
    far = torch.finfo(points.dtype).max
    always = torch.where((points >= 0) & (points <= limits), far, -far)  # of an edge along an edge of the picture
    start = torch.where(level, -always, torch.minimum(first, last)).amax(-1).clamp(min=0)
    stop = torch.where(level, always, torch.maximum(first, last)).amin(-1).clamp(max=1)
    crosses = start <= stop
    ends = [points + torch.where(crosses, end, 0)[..., None] * step for end in (start, stop)]

    canvas = points.new_tensor([[0, 0], [width, 0], [width, height], [0, height]])
    offset = canvas - points[..., :1, :]
    covers = torch.ones_like(crosses)
    size = points[..., 2:3, :] - points[..., :1, :]
    # A box may have been cut before, so that a corner of the picture is on its edge but for rounding.
    slack = 8 * torch.finfo(points.dtype).eps * (height + width)
    for axis in axes:
        place, extent = ((vector * axis[..., None, :]).sum(-1) for vector in (offset, size))
        covers = covers & (place >= -slack) & (place <= extent + slack)
    return torch.cat([*ends, canvas.expand_as(offset)], -2), torch.cat([crosses, crosses, covers], -1)


def _cut(box: _Box, axis: int, limit: int, sign: int) -> _Box:
    """Boxes with the corner that lies beyond a limit (sign * coordinate > sign * limit) moved onto it.

    Of a box around something visible one corner at most does. The limit cuts a triangle off there; the middle of the
    cut becomes the corner.
    """
    beyond = sign * (box.points()[..., axis] - limit)
    excess = beyond.amax(-1).clamp(min=0)
    outside = beyond.argmax(-1)
    shorter, narrower = (
        torch.where(excess > 0, excess / (2 * direction[..., axis].abs()), 0) for direction in (box.down, box.across)
    )
    at_left, at_top = (outside == 0) | (outside == 3), outside < 2
    return replace(
        box,
        left=torch.where(at_left, box.left + narrower, box.left),
        right=torch.where(at_left, box.right, box.right - narrower),
        top=torch.where(at_top, box.top + shorter, box.top),
        bottom=torch.where(at_top, box.bottom, box.bottom - shorter),
    )
