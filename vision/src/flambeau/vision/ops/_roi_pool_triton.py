"""`roi_pool` for CUDA and XPU, in Triton. Imported when first needed."""

# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._roi_bins import bounds, to_pixel
from flambeau.vision.ops._roi_pooling_triton import compute_type, images_of, launch, place, refuse_if_deterministic
from flambeau.vision.ops.roi_pool import _fake, _fake_backward


def roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int) -> tuple[Tensor, Tensor]:
    """`torch.ops.flambeau_vision.roi_pool` on tensors of an accelerator."""
    pooled, argmax = _fake(input, rois, spatial_scale, high, wide)
    compute, kind = compute_type(input.dtype)
    left, top, right, bottom = to_pixel(rois[:, 1:].to(compute) * spatial_scale).unbind(1)
    height, width = input.shape[2:]
    rows = bounds(top, bottom - top + 1, high, height, compute)
    columns = bounds(left, right - left + 1, wide, width, compute)
    maps = _roi_pooling.in_layout_of(input, input)
    launch(
        _pool, pooled.numel(), input.device,
        maps, images_of(rois, input.shape[0]), rows, columns, pooled, argmax, width, *maps.stride(), pooled.shape[1],
        HIGH=high, WIDE=wide, LAST=_roi_pooling.is_channels_last(pooled), KIND=kind,
    )  # fmt: skip
    return pooled, argmax


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """Its gradient."""
    refuse_if_deterministic("roi_pool backward")
    sizes = (images, channels, height, width)
    maps = _fake_backward(grad, rois, argmax, spatial_scale, high, wide, *sizes)
    sums = torch.zeros(maps.numel(), dtype=_roi_pooling.COMPUTE_DTYPE[grad.dtype], device=grad.device)
    image = images_of(rois, images).to(torch.int64)[:, None, None, None]
    channel = torch.arange(channels, device=grad.device)[:, None, None]
    there = (argmax >= 0) & (image >= 0)
    at = torch.where(there, (image * channels + channel) * (height * width) + argmax, 0)
    if maps.numel():
        sums.scatter_add_(0, at.flatten(), torch.where(there, grad, 0).flatten().to(sums.dtype))
    return _roi_pooling.as_layout_of(sums.view(sizes), grad)


@triton.jit
def _pool(
    maps, images, rows, columns, pooled, argmax, width, by_image, by_channel, by_row, by_column, outputs, total,
    HIGH: tl.constexpr, WIDE: tl.constexpr, LAST: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number, there, k, c, i, j = place(total, outputs, HIGH, WIDE, LAST, BLOCK)
    image = tl.load(images + k, mask=there, other=-1).to(tl.int64)
    there_too = there & (image >= 0)
    top = tl.load(rows + 2 * (k * HIGH + i), mask=there_too, other=0)
    bottom = tl.load(rows + 2 * (k * HIGH + i) + 1, mask=there_too, other=0)
    left = tl.load(columns + 2 * (k * WIDE + j), mask=there_too, other=0)
    right = tl.load(columns + 2 * (k * WIDE + j) + 1, mask=there_too, other=0)
    base = maps + image * by_image + c * by_channel
    largest = tl.zeros([BLOCK], dtype=KIND)
    at = tl.full([BLOCK], -1, dtype=tl.int32)
    for row in range(tl.max(bottom - top, 0)):
        y = top + row
        for column in range(tl.max(right - left, 0)):
            x = left + column
            valid = (y < bottom) & (x < right)
            value = tl.load(base + y * by_row + x * by_column, mask=valid, other=0).to(KIND)
            # A NaN counts as largest, as in torch's own pooling.
            wins = valid & ((at < 0) | (value > largest) | ((value != value) & (largest == largest)))
            largest = tl.where(wins, value, largest)
            at = tl.where(wins, (y * width + x).to(tl.int32), at)
    tl.store(pooled + number, largest.to(pooled.dtype.element_ty), mask=there)
    tl.store(argmax + number, at, mask=there)
