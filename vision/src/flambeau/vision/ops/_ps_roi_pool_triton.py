"""`ps_roi_pool` for CUDA and XPU, in Triton. Imported when first needed."""

# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._roi_bins import bounds, to_pixel
from flambeau.vision.ops._roi_pooling_triton import compute_type, images_of, launch, place, refuse_if_deterministic
from flambeau.vision.ops.ps_roi_pool import _channels, _fake, _fake_backward


def ps_roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int) -> tuple[Tensor, Tensor]:
    """`torch.ops.flambeau_vision.ps_roi_pool` on tensors of an accelerator."""
    pooled, mapping = _fake(input, rois, spatial_scale, high, wide)
    mapping.copy_(_channels(pooled.shape[1], (high, wide), input.device))
    maps = _roi_pooling.in_layout_of(input, input)
    launch(
        _pool, pooled.numel(), input.device,
        maps, images_of(rois, input.shape[0]), *_bounds(rois, spatial_scale, (high, wide), maps), pooled,
        *maps.stride(), pooled.shape[1],
        HIGH=high, WIDE=wide, LAST=_roi_pooling.is_channels_last(pooled), KIND=compute_type(input.dtype)[1],
    )  # fmt: skip
    return pooled, mapping


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """Its gradient."""
    refuse_if_deterministic("ps_roi_pool backward")
    sizes = (images, channels, height, width)
    _fake_backward(grad, rois, channel_mapping, spatial_scale, high, wide, *sizes)
    compute, kind = compute_type(grad.dtype)
    grad = _roi_pooling.in_layout_of(grad, grad)
    maps = _roi_pooling.empty_maps(grad, sizes, dtype=compute).zero_()
    launch(
        _spread, grad.numel(), grad.device,
        maps, images_of(rois, images), *_bounds(rois, spatial_scale, (high, wide), maps), grad,
        *maps.stride(), grad.shape[1],
        HIGH=high, WIDE=wide, LAST=_roi_pooling.is_channels_last(grad), KIND=kind,
    )  # fmt: skip
    return maps.to(grad.dtype)


def _bounds(rois: Tensor, scale: float, bins: tuple[int, int], maps: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of each bin."""
    compute = _roi_pooling.COMPUTE_DTYPE[rois.dtype]
    left, top, right, bottom = to_pixel(rois[:, 1:].to(compute) * scale).unbind(1)
    height, width = maps.shape[2:]
    return (
        bounds(top, bottom - top, bins[0], height - 1, compute),
        bounds(left, right - left, bins[1], width - 1, compute),
    )


@triton.jit
def _bin(images, rows, columns, k, i, j, there, HIGH: tl.constexpr, WIDE: tl.constexpr):
    image = tl.load(images + k, mask=there, other=-1).to(tl.int64)
    there = there & (image >= 0)
    top = tl.load(rows + 2 * (k * HIGH + i), mask=there, other=0)
    bottom = tl.load(rows + 2 * (k * HIGH + i) + 1, mask=there, other=0)
    left = tl.load(columns + 2 * (k * WIDE + j), mask=there, other=0)
    right = tl.load(columns + 2 * (k * WIDE + j) + 1, mask=there, other=0)
    area = tl.maximum(tl.maximum(bottom - top, 0) * tl.maximum(right - left, 0), 1)
    return image, top, bottom, left, right, area


@triton.jit
def _pool(
    maps, images, rows, columns, pooled, by_image, by_channel, by_row, by_column, outputs, total,
    HIGH: tl.constexpr, WIDE: tl.constexpr, LAST: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number, there, k, c, i, j = place(total, outputs, HIGH, WIDE, LAST, BLOCK)
    image, top, bottom, left, right, area = _bin(images, rows, columns, k, i, j, there, HIGH, WIDE)
    base = maps + image * by_image + ((c * HIGH + i) * WIDE + j) * by_channel
    sums = tl.zeros([BLOCK], dtype=KIND)
    for row in range(tl.max(bottom - top, 0)):
        for column in range(tl.max(right - left, 0)):
            y, x = top + row, left + column
            sums += tl.load(base + y * by_row + x * by_column, mask=(y < bottom) & (x < right), other=0).to(KIND)
    tl.store(pooled + number, (sums / area).to(pooled.dtype.element_ty), mask=there)


@triton.jit
def _spread(
    maps, images, rows, columns, grad, by_image, by_channel, by_row, by_column, outputs, total,
    HIGH: tl.constexpr, WIDE: tl.constexpr, LAST: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number, there, k, c, i, j = place(total, outputs, HIGH, WIDE, LAST, BLOCK)
    image, top, bottom, left, right, area = _bin(images, rows, columns, k, i, j, there, HIGH, WIDE)
    base = maps + image * by_image + ((c * HIGH + i) * WIDE + j) * by_channel
    flow = tl.load(grad + number, mask=there, other=0).to(KIND) / area
    for row in range(tl.max(bottom - top, 0)):
        for column in range(tl.max(right - left, 0)):
            y, x = top + row, left + column
            tl.atomic_add(base + y * by_row + x * by_column, flow, mask=(y < bottom) & (x < right))
