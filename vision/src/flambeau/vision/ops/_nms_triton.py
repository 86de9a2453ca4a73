"""Non-maximum suppression for CUDA and XPU, in Triton. Imported when it is first needed, because it needs Triton.

Sorted boxes are cut into blocks, and one launch settles one block: each program decides which of the block's boxes stay
(all programs come to the same answer), then removes what those cover from one later block. So N boxes take N / 64
launches, memory for N flags, and no word with the host until the end. The arithmetic is that of the reference: rounded
division, no fused multiply-add; the bits agree.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops.nms import COMPUTE_DTYPE, box_area, check, floor_to

# Two blocks make a tile of 64 x 64 quotients, which eight warps hold in registers; four spill on sm_80 and sm_90.
_BLOCK = 64
_WARPS = 8


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """`torch.ops.flambeau_vision.nms` on tensors of an accelerator."""
    check("nms", boxes, scores)
    return _select(boxes, scores, None, iou_threshold)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`torch.ops.flambeau_vision.batched_nms` on tensors of an accelerator."""
    check("batched_nms", boxes, scores, idxs)
    return _select(boxes, scores, idxs, iou_threshold)


def _select(boxes: Tensor, scores: Tensor, idxs: Tensor | None, iou_threshold: float) -> Tensor:
    count = boxes.shape[0]
    order = scores.sort(descending=True, stable=True).indices
    if count == 0:
        return order
    dtype = COMPUTE_DTYPE[boxes.dtype]
    sorted_boxes = boxes.to(dtype)[order]
    columns = sorted_boxes.t().contiguous()
    areas = box_area(sorted_boxes)
    classes = order if idxs is None else idxs[order]  # without classes the pointer is not read
    limit = torch.full((1,), floor_to(iou_threshold, dtype), dtype=dtype, device=boxes.device)
    open_ = torch.ones(count, dtype=torch.int8, device=boxes.device)
    stays = torch.empty_like(open_)
    blocks = triton.cdiv(count, _BLOCK)
    with _on(boxes.device):
        for block in range(blocks):
            _settle[(blocks - block,)](
                columns,
                areas,
                classes,
                limit,
                open_,
                stays,
                count,
                block,
                HAS_CLASSES=idxs is not None,
                WIDE=dtype == torch.float64,
                BLOCK=_BLOCK,
                num_warps=_WARPS,
                enable_fp_fusion=False,
            )
    return order[stays.bool()]


def _on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


@triton.jit
def _covers(
    x1, y1, x2, y2, area, group, other_x1, other_y1, other_x2, other_y2, other_area, other_group, limit,
    HAS_CLASSES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Whether box i (rows) overlaps box j (columns) too much."""
    width = tl.maximum(tl.minimum(x2[:, None], other_x2[None, :]) - tl.maximum(x1[:, None], other_x1[None, :]), 0.0)
    height = tl.maximum(tl.minimum(y2[:, None], other_y2[None, :]) - tl.maximum(y1[:, None], other_y1[None, :]), 0.0)
    both = width * height
    either = area[:, None] + other_area[None, :] - both
    if WIDE:
        above = both / either > limit
    else:
        above = tl.math.div_rn(both, either) > limit  # plain division of float32 is not rounded correctly
    if HAS_CLASSES:
        above = above & (group[:, None] == other_group[None, :])
    return above


@triton.jit
def _settle(
    columns, areas, classes, limit_pointer, open_pointer, stays_pointer, count, block,
    HAS_CLASSES: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Settle one block of boxes, and remove what its boxes cover from the block that is `program_id` further on."""
    limit = tl.load(limit_pointer)
    row = block * BLOCK + tl.arange(0, BLOCK)
    inside = row < count
    x1 = tl.load(columns + row, mask=inside, other=0)
    y1 = tl.load(columns + count + row, mask=inside, other=0)
    x2 = tl.load(columns + 2 * count + row, mask=inside, other=0)
    y2 = tl.load(columns + 3 * count + row, mask=inside, other=0)
    area = tl.load(areas + row, mask=inside, other=0)
    group = row.to(tl.int64)
    if HAS_CLASSES:
        group = tl.load(classes + row, mask=inside, other=0)
    candidates = tl.load(open_pointer + row, mask=inside, other=0).to(tl.int32)

    # A box stays when no staying box before it covers it. Repeating that rule settles at least one more box each time.
    covers = _covers(x1, y1, x2, y2, area, group, x1, y1, x2, y2, area, group, limit, HAS_CLASSES, WIDE)
    before = (covers & (row[:, None] < row[None, :])).to(tl.int32)
    stays = candidates
    changes = 1
    while changes > 0:
        covered = tl.max(before * stays[:, None], axis=0)
        following = candidates * (1 - covered)
        changes = tl.sum(tl.where(following != stays, 1, 0), axis=0)
        stays = following

    further = tl.program_id(0)
    if further == 0:
        # Into an array of its own: the other programs are still reading `open_pointer` here.
        tl.store(stays_pointer + row, stays.to(tl.int8), mask=inside)
    else:
        later = row + further * BLOCK
        inside_later = later < count
        later_group = later.to(tl.int64)
        if HAS_CLASSES:
            later_group = tl.load(classes + later, mask=inside_later, other=0)
        covers_later = _covers(
            x1, y1, x2, y2, area, group,
            tl.load(columns + later, mask=inside_later, other=0),
            tl.load(columns + count + later, mask=inside_later, other=0),
            tl.load(columns + 2 * count + later, mask=inside_later, other=0),
            tl.load(columns + 3 * count + later, mask=inside_later, other=0),
            tl.load(areas + later, mask=inside_later, other=0),
            later_group, limit, HAS_CLASSES, WIDE,
        )  # fmt: skip
        covered_later = tl.max(covers_later.to(tl.int32) * stays[:, None], axis=0)
        still_open = tl.load(open_pointer + later, mask=inside_later, other=0).to(tl.int32) * (1 - covered_later)
        tl.store(open_pointer + later, still_open.to(tl.int8), mask=inside_later)
