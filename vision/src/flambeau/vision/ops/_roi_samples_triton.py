"""`roi_align` and `ps_roi_align` for CUDA and XPU, in Triton. Imported when first needed."""

# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._roi_pooling_triton import compute_type, images_of, launch, place


def _grids(
    rois: Tensor, scale: float, aligned: bool, bins: tuple[int, int], sampling_ratio: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Starts and sizes of bins, (K, 4) down and to the right, and how many samples each has, (K, 2)."""
    shift = 0.5 if aligned else 0.0
    corners = rois[:, 1:] * scale - shift
    extent = corners[:, 2:] - corners[:, :2]
    if not aligned:
        extent = extent.clamp(min=1.0)
    step = extent.flip(1) / torch.tensor(bins, dtype=rois.dtype, device=rois.device)
    number = torch.full_like(step, sampling_ratio) if sampling_ratio > 0 else step.ceil()
    number = torch.where((number >= 1) & (number < 2**24), number, 0)
    return torch.cat([corners[:, :2].flip(1), step], 1).contiguous(), number.to(torch.int32)


def pool(
    input: Tensor, rois: Tensor, pooled: Tensor, *,
    scale: float, bins: tuple[int, int], sampling_ratio: int, aligned: bool, sensitive: bool,
) -> None:  # fmt: skip
    """Write `pooled`, whose layout is either."""
    wide, kind = compute_type(input.dtype)
    grids, numbers = _grids(rois.to(wide), scale, aligned, bins, sampling_ratio)
    launch(
        _pool, pooled.numel(), input.device,
        input, images_of(rois, input.shape[0]), grids, numbers, pooled, *input.shape[1:], *input.stride(),
        pooled.shape[1],
        HIGH=bins[0], WIDE=bins[1], SENSITIVE=sensitive, LAST=_roi_pooling.is_channels_last(pooled), KIND=kind,
    )  # fmt: skip


def spread(
    grad: Tensor, rois: Tensor, size: tuple[int, int, int, int], *,
    scale: float, bins: tuple[int, int], sampling_ratio: int, aligned: bool, sensitive: bool,
) -> Tensor:  # fmt: skip
    """The gradient of the maps, of this size."""
    wide, kind = compute_type(grad.dtype)
    grids, numbers = _grids(rois.to(wide), scale, aligned, bins, sampling_ratio)
    grad = _roi_pooling.in_layout_of(grad, grad)
    maps = _roi_pooling.empty_maps(grad, size, dtype=wide).zero_()
    launch(
        _spread, grad.numel(), grad.device,
        maps, images_of(rois, size[0]), grids, numbers, grad, *size[1:], *maps.stride(), grad.shape[1],
        HIGH=bins[0], WIDE=bins[1], SENSITIVE=sensitive, LAST=_roi_pooling.is_channels_last(grad), KIND=kind,
    )  # fmt: skip
    return maps.to(grad.dtype)


@triton.jit
def _sample(position, size):
    """Pixels on both sides of samples, how far they lie toward the second, and which of them are on the map."""
    on_map = (position >= -1.0) & (position <= size)
    position = tl.maximum(tl.where(on_map, position, 0.0), 0.0)
    low = tl.minimum(position.to(tl.int32), size - 1)
    high = tl.minimum(low + 1, size - 1)
    return low, high, tl.where(high > low, position - low, 0.0), on_map


@triton.jit
def _pool(
    maps, images, grids, numbers, pooled, channels, height, width, by_image, by_channel, by_row, by_column, outputs,
    total, HIGH: tl.constexpr, WIDE: tl.constexpr, SENSITIVE: tl.constexpr, LAST: tl.constexpr, KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    number, there, k, c, i, j = place(total, outputs, HIGH, WIDE, LAST, BLOCK)
    image = tl.load(images + k, mask=there, other=-1).to(tl.int64)
    there_too = there & (image >= 0)
    start_y, start_x = tl.load(grids + 4 * k, mask=there), tl.load(grids + 4 * k + 1, mask=there)
    step_y, step_x = tl.load(grids + 4 * k + 2, mask=there), tl.load(grids + 4 * k + 3, mask=there)
    down = tl.load(numbers + 2 * k, mask=there_too, other=0)
    across = tl.load(numbers + 2 * k + 1, mask=there_too, other=0)
    channel = c
    if SENSITIVE:
        channel = (c * HIGH + i) * WIDE + j
    base = maps + image * by_image + channel * by_channel
    total_of_samples = tl.zeros([BLOCK], dtype=KIND)
    for row in range(tl.max(down, 0)):
        y = start_y + i * step_y + (row + 0.5) * step_y / tl.maximum(down, 1)
        top, bottom, toward_bottom, in_rows = _sample(y, height)
        for column in range(tl.max(across, 0)):
            x = start_x + j * step_x + (column + 0.5) * step_x / tl.maximum(across, 1)
            left, right, toward_right, in_columns = _sample(x, width)
            valid = there_too & in_rows & in_columns & (row < down) & (column < across)
            a = tl.load(base + top * by_row + left * by_column, mask=valid, other=0).to(KIND)
            b = tl.load(base + top * by_row + right * by_column, mask=valid, other=0).to(KIND)
            d = tl.load(base + bottom * by_row + left * by_column, mask=valid, other=0).to(KIND)
            e = tl.load(base + bottom * by_row + right * by_column, mask=valid, other=0).to(KIND)
            upper = a * (1 - toward_right) + b * toward_right
            lower = d * (1 - toward_right) + e * toward_right
            total_of_samples += tl.where(valid, upper * (1 - toward_bottom) + lower * toward_bottom, 0.0)
    mean = total_of_samples / tl.maximum(down * across, 1)
    tl.store(pooled + number, mean.to(pooled.dtype.element_ty), mask=there)


@triton.jit
def _spread(
    maps, images, grids, numbers, grad, channels, height, width, by_image, by_channel, by_row, by_column, outputs,
    total, HIGH: tl.constexpr, WIDE: tl.constexpr, SENSITIVE: tl.constexpr, LAST: tl.constexpr, KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    number, there, k, c, i, j = place(total, outputs, HIGH, WIDE, LAST, BLOCK)
    image = tl.load(images + k, mask=there, other=-1).to(tl.int64)
    there_too = there & (image >= 0)
    start_y, start_x = tl.load(grids + 4 * k, mask=there), tl.load(grids + 4 * k + 1, mask=there)
    step_y, step_x = tl.load(grids + 4 * k + 2, mask=there), tl.load(grids + 4 * k + 3, mask=there)
    down = tl.load(numbers + 2 * k, mask=there_too, other=0)
    across = tl.load(numbers + 2 * k + 1, mask=there_too, other=0)
    channel = c
    if SENSITIVE:
        channel = (c * HIGH + i) * WIDE + j
    base = maps + image * by_image + channel * by_channel
    flow = tl.load(grad + number, mask=there, other=0).to(KIND) / tl.maximum(down * across, 1)
    for row in range(tl.max(down, 0)):
        y = start_y + i * step_y + (row + 0.5) * step_y / tl.maximum(down, 1)
        top, bottom, toward_bottom, in_rows = _sample(y, height)
        for column in range(tl.max(across, 0)):
            x = start_x + j * step_x + (column + 0.5) * step_x / tl.maximum(across, 1)
            left, right, toward_right, in_columns = _sample(x, width)
            valid = there_too & in_rows & in_columns & (row < down) & (column < across)
            above, below = flow * (1 - toward_bottom), flow * toward_bottom
            tl.atomic_add(base + top * by_row + left * by_column, above * (1 - toward_right), mask=valid)
            tl.atomic_add(base + top * by_row + right * by_column, above * toward_right, mask=valid)
            tl.atomic_add(base + bottom * by_row + left * by_column, below * (1 - toward_right), mask=valid)
            tl.atomic_add(base + bottom * by_row + right * by_column, below * toward_right, mask=valid)
