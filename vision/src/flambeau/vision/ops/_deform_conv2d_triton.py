"""`deform_conv2d` for CUDA and XPU: sampling in Triton. Imported when first needed, because it needs Triton.

One program takes one tap of the kernel at one position: offsets are read once, channels are lanes and neighbours in
memory.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.vision.ops._roi_pooling_triton import on, refuse_if_deterministic
from flambeau.vision.ops.deform_conv2d import Picture, convolve, differentiate


def deform_conv2d(*arguments: Any) -> Tensor:
    """`torch.ops.flambeau_vision.deform_conv2d` on tensors of an accelerator."""
    return convolve(_Sampler(), *arguments)


def deform_conv2d_backward(*arguments: Any) -> tuple[Tensor, ...]:
    """Its gradients."""
    refuse_if_deterministic("deform_conv2d backward")
    return differentiate(_Sampler(), *arguments)


class _Sampler:
    """See `flambeau.vision.ops.deform_conv2d.Sampler`."""

    def columns(self, picture: Picture, begin: int, end: int) -> Tensor:
        """Samples, (groups, positions, taps * channels of a group)."""
        groups, channels = picture.convolution.groups, picture.input.shape[3]
        columns = picture.input.new_empty(groups, end - begin, picture.taps * (channels // groups))
        self._launch(_columns, picture, begin, end, columns)
        return columns

    def spread(
        self, picture: Picture, begin: int, end: int, grad: Tensor,
        grad_input: Tensor, grad_offset: Tensor, grad_mask: Tensor | None,
    ) -> None:  # fmt: skip
        """Add the gradient of the columns to that of the input, and write those of offsets and mask."""
        self._launch(
            _spread, picture, begin, end, grad, grad_input, grad_offset, grad_offset if grad_mask is None else grad_mask
        )

    def _launch(self, kernel: Any, picture: Picture, begin: int, end: int, *tensors: Tensor) -> None:
        c = picture.convolution
        in_group = picture.input.shape[3] // c.offset_groups
        if not (in_group and end > begin):
            return
        with on(picture.input.device):
            kernel[((end - begin) * picture.taps, c.offset_groups)](
                picture.input,
                picture.offset,
                picture.offset if picture.mask is None else picture.mask,
                *tensors,
                *picture.input.shape[1:],
                *c.out_size,
                *c[5:11],
                c.groups,
                c.offset_groups,
                begin,
                end,
                TAPS=picture.taps,
                KERNEL_W=c.weight.shape[3],
                MASKED=picture.mask is not None,
                KIND=tl.float64 if picture.input.dtype == torch.float64 else tl.float32,
                BLOCK=min(256, triton.next_power_of_2(in_group)),
            )


@triton.jit
def _sample(
    offset, mask, height, width, rows, columns, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    offset_groups, begin, TAPS: tl.constexpr, KERNEL_W: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Where this program's tap reads: image, top left pixel, distances from it, factor, and places of its arguments.

    The same in every lane.
    """
    position = begin + (tl.program_id(0) // TAPS).to(tl.int64)
    tap = tl.program_id(0) % TAPS
    positions = rows * columns
    image, at = position // positions, position % positions
    plane = (image * offset_groups + tl.program_id(1)) * TAPS + tap
    lanes = tl.zeros([BLOCK], dtype=tl.int64)
    y_place = 2 * plane * positions + at + lanes
    mask_place = plane * positions + at + lanes
    y = (at // columns * stride_h - pad_h + tap // KERNEL_W * dilation_h) + tl.load(offset + y_place)
    x = (at % columns * stride_w - pad_w + tap % KERNEL_W * dilation_w) + tl.load(offset + y_place + positions)
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    y, x = tl.where(inside, y, 0.0), tl.where(inside, x, 0.0)
    top, left = tl.floor(y), tl.floor(x)
    factor = y * 0 + 1
    if MASKED:
        factor = tl.load(mask + mask_place)
    return position, image, top.to(tl.int64), left.to(tl.int64), y - top, x - left, inside, factor, y_place, mask_place


@triton.jit
def _columns(
    input, offset, mask, result, height, width, channels, rows, columns,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, begin, end,
    TAPS: tl.constexpr, KERNEL_W: tl.constexpr, MASKED: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    position, image, top, left, down, right, inside, factor, _, _ = _sample(
        offset, mask, height, width, rows, columns, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
        offset_groups, begin, TAPS, KERNEL_W, MASKED, BLOCK,
    )  # fmt: skip
    tap = tl.program_id(0) % TAPS
    in_offset_group, in_group = channels // offset_groups, channels // groups
    upper, lower = inside & (top >= 0), inside & (top < height - 1)
    west, east = left >= 0, left < width - 1
    base = input + ((image * height + top) * width + left) * channels
    for first in range(0, in_offset_group, BLOCK):
        within = first + tl.arange(0, BLOCK)
        there = within < in_offset_group
        c = tl.program_id(1) * in_offset_group + within
        a = tl.load(base + c, mask=there & upper & west, other=0)
        b = tl.load(base + channels + c, mask=there & upper & east, other=0)
        d = tl.load(base + width * channels + c, mask=there & lower & west, other=0)
        e = tl.load(base + width * channels + channels + c, mask=there & lower & east, other=0)
        value = (1 - down) * ((1 - right) * a + right * b) + down * ((1 - right) * d + right * e)
        place = ((c // in_group * (end - begin) + position - begin) * TAPS + tap) * in_group + c % in_group
        tl.store(result + place, value * factor, mask=there)


@triton.jit
def _spread(
    input, offset, mask, grad, grad_input, grad_offset, grad_mask, height, width, channels, rows, columns,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, begin, end,
    TAPS: tl.constexpr, KERNEL_W: tl.constexpr, MASKED: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    position, image, top, left, down, right, inside, factor, y_place, mask_place = _sample(
        offset, mask, height, width, rows, columns, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
        offset_groups, begin, TAPS, KERNEL_W, MASKED, BLOCK,
    )  # fmt: skip
    tap = tl.program_id(0) % TAPS
    in_offset_group, in_group = channels // offset_groups, channels // groups
    upper, lower = inside & (top >= 0), inside & (top < height - 1)
    west, east = left >= 0, left < width - 1
    pixel = ((image * height + top) * width + left) * channels
    by_a, by_b = tl.zeros([BLOCK], dtype=KIND), tl.zeros([BLOCK], dtype=KIND)
    by_d, by_e = tl.zeros([BLOCK], dtype=KIND), tl.zeros([BLOCK], dtype=KIND)
    for first in range(0, in_offset_group, BLOCK):
        within = first + tl.arange(0, BLOCK)
        there = within < in_offset_group
        c = tl.program_id(1) * in_offset_group + within
        place = ((c // in_group * (end - begin) + position - begin) * TAPS + tap) * in_group + c % in_group
        flow = tl.load(grad + place, mask=there, other=0)
        by_a += flow * tl.load(input + pixel + c, mask=there & upper & west, other=0)
        by_b += flow * tl.load(input + pixel + channels + c, mask=there & upper & east, other=0)
        by_d += flow * tl.load(input + pixel + width * channels + c, mask=there & lower & west, other=0)
        by_e += flow * tl.load(input + pixel + width * channels + channels + c, mask=there & lower & east, other=0)
        share = flow * factor
        above, below = share * (1 - down), share * down
        to = grad_input + pixel + c
        tl.atomic_add(to, above * (1 - right), mask=there & upper & west)
        tl.atomic_add(to + channels, above * right, mask=there & upper & east)
        tl.atomic_add(to + width * channels, below * (1 - right), mask=there & lower & west)
        tl.atomic_add(to + width * channels + channels, below * right, mask=there & lower & east)
    a, b, d, e = tl.sum(by_a, 0), tl.sum(by_b, 0), tl.sum(by_d, 0), tl.sum(by_e, 0)
    positions = rows * columns
    one = tl.arange(0, BLOCK) == 0
    tl.store(grad_offset + y_place, factor * ((1 - right) * (d - a) + right * (e - b)), mask=one)
    tl.store(grad_offset + y_place + positions, factor * ((1 - down) * (b - a) + down * (e - d)), mask=one)
    if MASKED:
        through = (1 - down) * ((1 - right) * a + right * b) + down * ((1 - right) * d + right * e)
        tl.store(grad_mask + mask_place, through, mask=one)
