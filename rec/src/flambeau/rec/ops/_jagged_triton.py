"""Jagged operators for CUDA and XPU, in Triton. Imported when first needed, because it needs Triton.

A program works on a piece of one row, and finds out from the offsets where that lies. Results begin as zeros where rows
may be longer than what takes part. Half precision is summed in float32; products of float64 are left to the reference,
as Triton multiplies matrices of it on few devices.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.rec.ops import jagged_conversion, jagged_matmul, jagged_softmax

# Numbers that a program copies, and sides of the blocks that it multiplies.
_COPY, _SIDE = 1024, 32
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


# --- jagged to dense and back ---------------------------------------------------------------------


@triton.jit
def _fill_rows(values, offsets, padding, dense, numbers, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.load(offsets + row).to(tl.int64)
    count = (tl.load(offsets + row + 1).to(tl.int64) - begin) * width
    there = (at < numbers) & (at < count)
    found = tl.load(values + begin * width + at, mask=there, other=0)
    tl.store(dense + row * numbers + at, tl.where(there, found, tl.load(padding)), mask=at < numbers)


@triton.jit
def _take_rows(dense, offsets, values, numbers, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.load(offsets + row).to(tl.int64)
    count = (tl.load(offsets + row + 1).to(tl.int64) - begin) * width
    there = (at < numbers) & (at < count)
    tl.store(values + begin * width + at, tl.load(dense + row * numbers + at, mask=there, other=0), mask=there)


def _words(tensor: Tensor) -> Tensor:
    """The same bits as whole numbers: copying needs no arithmetic."""
    return tensor.contiguous().view(_WORDS[tensor.element_size()])


def _to_dense(op: str, values: Tensor, offsets: Tensor, longest: int, padding: float) -> Tensor:
    dense = jagged_conversion._fake_dense(op, values, offsets, longest)
    if values.element_size() not in _WORDS:
        return jagged_conversion._to_dense(op, values, offsets, longest, padding)
    numbers, rows = dense[0].numel() if len(dense) else 0, len(dense)
    if numbers:
        with _on(values.device):
            _fill_rows[(rows, triton.cdiv(numbers, _COPY))](
                _words(values), offsets.contiguous(), _words(values.new_full((1,), padding)),
                dense.view(_WORDS[dense.element_size()]), numbers, numbers // longest, BLOCK=_COPY,
            )  # fmt: skip
    return dense


def jagged_to_dense(values: Tensor, offsets: Tensor, longest: int, padding: float, whole: int) -> Tensor:
    """`torch.ops.flambeau_rec._jagged_to_dense` on tensors of an accelerator."""
    exact = padding if values.is_floating_point() or values.is_complex() else whole
    return _to_dense("jagged_to_padded_dense", values, offsets, longest, exact)


def jagged_1d_to_dense(values: Tensor, offsets: Tensor, longest: int, padding: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_1d_to_dense` on tensors of an accelerator."""
    return _to_dense("jagged_1d_to_dense", values, offsets, longest, padding)


def jagged_2d_to_dense(values: Tensor, offsets: Tensor, longest: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_2d_to_dense` on tensors of an accelerator."""
    return _to_dense("jagged_2d_to_dense", values, offsets, longest, 0)


def dense_to_jagged(dense: Tensor, offsets: Tensor, total: int | None = None) -> Tensor:
    """`torch.ops.flambeau_rec._dense_to_jagged` on tensors of an accelerator."""
    jagged_conversion._check_dense("dense_to_jagged", dense, offsets)
    if dense.element_size() not in _WORDS:
        return jagged_conversion._to_jagged(dense, offsets, total)
    values = dense.new_zeros((int(offsets[-1]) if total is None else total, *dense.shape[2:]))
    rows, longest = dense.shape[:2]
    if dense.numel() and values.numel():
        numbers = dense[0].numel()
        with _on(dense.device):
            _take_rows[(rows, triton.cdiv(numbers, _COPY))](
                _words(dense), offsets.contiguous(), values.view(_WORDS[values.element_size()]), numbers,
                numbers // longest, BLOCK=_COPY,
            )  # fmt: skip
    return values


# --- products -------------------------------------------------------------------------------------


@triton.jit
def _multiply_items(x, y, offsets, out, wide_x, wide_y, longest, SIDE: tl.constexpr):
    """A block of x_b^T y_b, summed over items."""
    row = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    n = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    begin = tl.load(offsets + row).to(tl.int64)
    count = tl.minimum(tl.load(offsets + row + 1).to(tl.int64) - begin, longest)
    total = tl.zeros([SIDE, SIDE], dtype=tl.float32)
    for first in range(0, count, SIDE):
        item = first + tl.arange(0, SIDE)
        left = tl.load(
            x + (begin + item)[None, :] * wide_x + m[:, None],
            mask=(item < count)[None, :] & (m < wide_x)[:, None], other=0.0,
        )  # fmt: skip
        right = tl.load(
            y + (begin + item)[:, None] * wide_y + n[None, :],
            mask=(item < count)[:, None] & (n < wide_y)[None, :], other=0.0,
        )  # fmt: skip
        total += tl.dot(left, right, input_precision="ieee")
    place = out + row * wide_x * wide_y + m[:, None] * wide_y + n[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=(m < wide_x)[:, None] & (n < wide_y)[None, :])


@triton.jit
def _multiply_dense(x, offsets, y, out, depth, wide, longest, SIDE: tl.constexpr):
    """A block of x_b y_b, summed over the width of x."""
    row = tl.program_id(0).to(tl.int64)
    item = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    n = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    begin = tl.load(offsets + row).to(tl.int64)
    there = item < tl.minimum(tl.load(offsets + row + 1).to(tl.int64) - begin, longest)
    total = tl.zeros([SIDE, SIDE], dtype=tl.float32)
    for first in range(0, depth, SIDE):
        k = first + tl.arange(0, SIDE)
        left = tl.load(
            x + (begin + item)[:, None] * depth + k[None, :], mask=there[:, None] & (k < depth)[None, :], other=0.0
        )
        right = tl.load(
            y + row * depth * wide + k[:, None] * wide + n[None, :],
            mask=(k < depth)[:, None] & (n < wide)[None, :], other=0.0,
        )  # fmt: skip
        total += tl.dot(left, right, input_precision="ieee")
    place = out + (begin + item)[:, None] * wide + n[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=there[:, None] & (n < wide)[None, :])


def jagged_jagged_bmm(x: Tensor, y: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_jagged_bmm` on tensors of an accelerator."""
    out = jagged_matmul._fake_jagged(x, y, offsets, max_L)
    if x.dtype == torch.float64:
        return jagged_matmul._jagged_jagged(x, y, offsets, max_L)
    rows, m, n = out.shape
    if out.numel():
        with _on(x.device):
            _multiply_items[(rows, triton.cdiv(m, _SIDE), triton.cdiv(n, _SIDE))](
                x.contiguous(), y.contiguous(), offsets.contiguous(), out, m, n, max(max_L, 0), SIDE=_SIDE
            )
    return out


def jagged_dense_bmm(x: Tensor, offsets: Tensor, y: Tensor, max_L: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_dense_bmm_forward` on tensors of an accelerator."""
    jagged_matmul._check_dense(x, offsets, y)
    if x.dtype == torch.float64:
        return jagged_matmul._jagged_dense(x, offsets, y, max_L)
    rows, depth, wide = y.shape
    out = x.new_zeros((x.shape[0], wide))
    if out.numel() and rows and max_L > 0:
        with _on(x.device):
            _multiply_dense[(rows, triton.cdiv(max_L, _SIDE), triton.cdiv(wide, _SIDE))](
                x.contiguous(), offsets.contiguous(), y.contiguous(), out, depth, wide, max_L, SIDE=_SIDE
            )
    return out


# --- softmax --------------------------------------------------------------------------------------


@triton.jit
def _normalise(x, offsets, out, width, longest, ITEMS: tl.constexpr, COLUMNS: tl.constexpr):
    """Columns of one row: running maximum and sum first, then the shares."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = tl.load(offsets + row).to(tl.int64)
    count = tl.minimum(tl.load(offsets + row + 1).to(tl.int64) - begin, longest)
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    best = tl.full([COLUMNS], float("-inf"), dtype=kind)
    total = tl.zeros([COLUMNS], dtype=kind)
    for first in range(0, count, ITEMS):
        item = first + tl.arange(0, ITEMS)
        there = (item < count)[:, None] & (column < width)[None, :]
        place = (begin + item)[:, None] * width + column[None, :]
        given = tl.load(x + place, mask=there, other=float("-inf")).to(kind)
        higher = tl.maximum(best, tl.max(given, axis=0))
        # Where all is -inf so far, the difference would be no number.
        origin = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(best - origin) + tl.sum(tl.exp(given - origin[None, :]), axis=0)
        best = higher
    for first in range(0, count, ITEMS):
        item = first + tl.arange(0, ITEMS)
        there = (item < count)[:, None] & (column < width)[None, :]
        place = (begin + item)[:, None] * width + column[None, :]
        given = tl.load(x + place, mask=there, other=0.0).to(kind)
        share = tl.exp(given - best[None, :]) / total[None, :]
        tl.store(out + place, share.to(out.dtype.element_ty), mask=there)


@triton.jit
def _normalise_backward(grad, output, offsets, out, width, longest, ITEMS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = tl.load(offsets + row).to(tl.int64)
    count = tl.minimum(tl.load(offsets + row + 1).to(tl.int64) - begin, longest)
    kind = tl.float64 if output.dtype.element_ty == tl.float64 else tl.float32
    total = tl.zeros([COLUMNS], dtype=kind)
    for first in range(0, count, ITEMS):
        item = first + tl.arange(0, ITEMS)
        there = (item < count)[:, None] & (column < width)[None, :]
        place = (begin + item)[:, None] * width + column[None, :]
        share = tl.load(output + place, mask=there, other=0.0).to(kind)
        total += tl.sum(share * tl.load(grad + place, mask=there, other=0.0).to(kind), axis=0)
    for first in range(0, count, ITEMS):
        item = first + tl.arange(0, ITEMS)
        there = (item < count)[:, None] & (column < width)[None, :]
        place = (begin + item)[:, None] * width + column[None, :]
        share = tl.load(output + place, mask=there, other=0.0).to(kind)
        flow = share * (tl.load(grad + place, mask=there, other=0.0).to(kind) - total[None, :])
        tl.store(out + place, flow.to(out.dtype.element_ty), mask=there)


def _columns(width: int) -> int:
    return int(min(triton.next_power_of_2(max(width, 1)), 64))


def jagged_softmax_forward(values: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_softmax_forward` on tensors of an accelerator."""
    jagged_softmax._check("jagged_softmax", values, offsets)
    out, width, rows = values.new_zeros(values.shape), values.shape[1], offsets.shape[0] - 1
    if out.numel() and rows:
        block = _columns(width)
        with _on(values.device):
            _normalise[(rows, triton.cdiv(width, block))](
                values.contiguous(), offsets.contiguous(), out, width, max(max_L, 0), ITEMS=_SIDE, COLUMNS=block
            )
    return out


def jagged_softmax_backward(grad: Tensor, output: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    """`torch.ops.flambeau_rec.jagged_softmax_backward` on tensors of an accelerator."""
    jagged_softmax._check("jagged_softmax_backward", output, offsets)
    out, width, rows = output.new_zeros(output.shape), output.shape[1], offsets.shape[0] - 1
    if out.numel() and rows:
        block = _columns(width)
        with _on(output.device):
            _normalise_backward[(rows, triton.cdiv(width, block))](
                grad.contiguous(), output.contiguous(), offsets.contiguous(), out, width, max(max_L, 0), ITEMS=_SIDE,
                COLUMNS=block,
            )  # fmt: skip
    return out
