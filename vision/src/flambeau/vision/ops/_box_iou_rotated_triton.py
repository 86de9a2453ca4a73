"""`box_iou_rotated` for CUDA and XPU, in Triton, by the formula of `_rotated_iou.py`. Imported when first needed."""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops._roi_pooling_triton import on
from flambeau.vision.ops.box_iou_rotated import check

_BLOCK = 256


def box_iou_rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """`torch.ops.flambeau_vision.box_iou_rotated` on tensors of an accelerator."""
    check(boxes1, boxes2)
    ious = boxes1.new_empty(len(boxes1), len(boxes2))
    if ious.numel():
        with on(boxes1.device):
            _pairs[(triton.cdiv(ious.numel(), _BLOCK),)](
                _prepared(boxes1), _prepared(boxes2), ious, len(boxes2), ious.numel(), BLOCK=_BLOCK
            )
    return ious


def _prepared(boxes: Tensor) -> Tensor:
    """Centre, half the sides, cosine and sine, (N, 6) float64."""
    boxes = boxes.double()
    angle = torch.deg2rad(boxes[:, 4])
    return torch.cat([boxes[:, :2], boxes[:, 2:4] / 2, torch.stack([angle.cos(), angle.sin()], 1)], 1).contiguous()


@triton.jit
def _clamp(value, limit):
    return tl.minimum(tl.maximum(value, -limit), limit)


@triton.jit
def _mean_of_clamped_line(start, end, limit):
    low, high = tl.minimum(start, end), tl.maximum(start, end)
    length = high - low
    below = tl.minimum(tl.maximum(-limit - low, 0.0), length)
    above = tl.minimum(tl.maximum(high - limit, 0.0), length)
    inside = (_clamp(low, limit) + _clamp(high, limit)) / 2
    total = (length - below - above) * inside + (above - below) * limit
    return tl.where(length > 0, total / tl.where(length > 0, length, 1.0), _clamp(low, limit))


@triton.jit
def _corner(across, along, x, y, half_width, half_height, cos, sin, other_x, other_y, other_cos, other_sin):
    """A corner of the first box, seen from the second."""
    right = x + across * half_width * cos + along * half_height * sin - other_x
    down = y - across * half_width * sin + along * half_height * cos - other_y
    return right * other_cos - down * other_sin, right * other_sin + down * other_cos


@triton.jit
def _pairs(first, second, ious, count, total, BLOCK: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = number < total
    one, two = first + number // count * 6, second + number % count * 6
    x, y = tl.load(one, mask=there, other=0), tl.load(one + 1, mask=there, other=0)
    w, h = tl.load(one + 2, mask=there, other=0), tl.load(one + 3, mask=there, other=0)
    cos, sin = tl.load(one + 4, mask=there, other=0), tl.load(one + 5, mask=there, other=0)
    other_x, other_y = tl.load(two, mask=there, other=0), tl.load(two + 1, mask=there, other=0)
    other_w, other_h = tl.load(two + 2, mask=there, other=0), tl.load(two + 3, mask=there, other=0)
    other_cos, other_sin = tl.load(two + 4, mask=there, other=0), tl.load(two + 5, mask=there, other=0)
    both = x * 0
    for edge in tl.static_range(4):
        # Corners in turn: top left, top right, bottom right, bottom left.
        x_start, y_start = _corner(
            -1 if edge == 0 or edge == 3 else 1, -1 if edge < 2 else 1,
            x, y, w, h, cos, sin, other_x, other_y, other_cos, other_sin,
        )  # fmt: skip
        x_end, y_end = _corner(
            1 if edge < 2 else -1, -1 if edge == 0 or edge == 3 else 1,
            x, y, w, h, cos, sin, other_x, other_y, other_cos, other_sin,
        )  # fmt: skip
        run = x_end - x_start
        slope = (y_end - y_start) / tl.where(run != 0, run, 1.0)
        start, end = _clamp(x_start, other_w), _clamp(x_end, other_w)
        both += (end - start) * _mean_of_clamped_line(
            y_start + (start - x_start) * slope, y_start + (end - x_start) * slope, other_h
        )
    both = tl.abs(both)
    area, other_area = 4 * w * h, 4 * other_w * other_h
    solid = (area > 0) & (other_area > 0)
    iou = tl.where(solid, both / tl.where(solid, area + other_area - both, 1.0), 0.0)
    tl.store(ious + number, _clamp(iou - 0.5, 0.5) + 0.5, mask=there)
