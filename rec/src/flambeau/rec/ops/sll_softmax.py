"""Softmax within sequences: over their items, and over the rows or columns of a matrix for each.

The native kernel is `native/jagged_softmax.cpp`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import FLOATING, check_offsets, check_whole, locate, widened
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["sll_jagged2_softmax", "sll_jagged_softmax"]


def sll_jagged_softmax(x: Tensor, x_offsets: Tensor, max_seq_len: int, use_fbgemm_kernel: bool = True) -> Tensor:
    """`jagged_softmax`, items alone.

    Args:
        x: (L, D), floating.
        x_offsets: (sequences + 1,) int32 or int64.
        max_seq_len: items of a sequence that take part, the first ones; the others give 0.
        use_fbgemm_kernel: ignored.

    Returns:
        (L, D).

    Raises:
        RuntimeError: as for `jagged_softmax`.
    """
    return OPS.sll_jagged_softmax(x, x_offsets, max_seq_len, use_fbgemm_kernel)  # type: ignore[no-any-return]


def sll_jagged2_softmax(x: Tensor, offsets: Tensor, offsets_total: Tensor, max_seq_len: int, transpose: bool) -> Tensor:
    """Make the rows of each sequence's matrix add up to 1, or its columns.

    Args:
        x: (numbers,), floating: for each sequence of n items n * n numbers, row after row.
        offsets: (sequences + 1,) int32 or int64: where each sequence's items begin, and where the last one's end.
        offsets_total: (sequences + 1,) int32 or int64: where each matrix begins, and where the last one ends.
        max_seq_len: ignored, as offsets tell it.
        transpose: columns instead of rows.

    Returns:
        Like `x`.

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_jagged2_softmax(x, offsets, offsets_total, max_seq_len, transpose)  # type: ignore[no-any-return]


def _check(op: str, x: Tensor, offsets: Tensor, totals: Tensor) -> None:
    if x.dim() != 1 or x.dtype not in FLOATING:
        raise RuntimeError(
            f"{op}: x has shape {tuple(x.shape)} and dtype {x.dtype}, expected (numbers,) of a floating dtype."
        )
    check_whole(op, "offsets", offsets)
    check_whole(op, "offsets_total", totals)


def _lines(op: str, x: Tensor, offsets: Tensor, totals: Tensor, transpose: bool) -> tuple[Tensor, int]:
    """The row (or column) of each number among those of all matrices, and how many there are, with one for the rest."""
    _check(op, x, offsets, totals)
    check_offsets(op, "offsets", offsets, 2**62)
    check_offsets(op, "offsets_total", totals, x.shape[0])
    sides = offsets.diff().long()
    if totals.shape != offsets.shape:
        raise RuntimeError(
            f"{op}: offsets has {offsets.shape[0]} entries and offsets_total {totals.shape[0]}, expected as many."
        )
    if totals.device.type == "cpu" and not torch.equal(sides * sides, totals.diff().long()):
        at = int((sides * sides != totals.diff()).nonzero()[0])
        raise RuntimeError(
            f"{op}: offsets_total gives {int(totals.diff()[at])} numbers to row {at}, expected {int(sides[at])} "
            "squared."
        )
    rows = len(sides)
    sequence, place = locate(totals, x.shape[0])
    inside = (sequence >= 0) & (sequence < rows)
    sequence = torch.where(inside, sequence, rows)
    side = torch.cat([sides, sides.new_ones(1)])[sequence].clamp(min=1)
    first = torch.cat([sides.cumsum(0) - sides, sides.new_zeros(1)])[sequence]
    count = int(sides.sum())
    line = first + (place % side if transpose else place // side)
    return torch.where(inside, line, count), count + 1


def _softmax(x: Tensor, offsets: Tensor, totals: Tensor, max_seq_len: int, transpose: bool) -> Tensor:
    line, count = _lines("sll_jagged2_softmax", x, offsets, totals, transpose)
    wide = widened(x)
    best = wide.new_full((count,), float("-inf")).scatter_reduce(0, line, wide, "amax")
    powers = (wide - best[line]).exp()
    shares = powers / wide.new_zeros(count).scatter_add(0, line, powers)[line]
    return torch.where(line < count - 1, shares, 0).to(x.dtype)


def _softmax_backward(grad: Tensor, output: Tensor, offsets: Tensor, totals: Tensor, transpose: bool) -> Tensor:
    line, count = _lines("sll_jagged2_softmax_backward", output, offsets, totals, transpose)
    flow, shares = widened(grad), widened(output)
    sums = flow.new_zeros(count).scatter_add(0, line, flow * shares)
    return (shares * (flow - sums[line])).to(output.dtype)


def _fake(x: Tensor, offsets: Tensor, totals: Tensor, max_seq_len: int, transpose: bool) -> Tensor:
    _check("sll_jagged2_softmax", x, offsets, totals)
    return x.new_empty(x.shape)


def _fake_backward(grad: Tensor, output: Tensor, offsets: Tensor, totals: Tensor, transpose: bool) -> Tensor:
    _check("sll_jagged2_softmax_backward", output, offsets, totals)
    return output.new_empty(output.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, inputs[1], inputs[2])
    ctx.transpose = inputs[4]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    back = torch.ops.flambeau_rec._sll_jagged2_softmax_backward
    return back(grad, *ctx.saved_tensors, ctx.transpose), None, None, None, None


def _keep_second(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.transpose = inputs[4]


def _second(ctx: Any, flow: Tensor) -> tuple[Tensor | None, ...]:
    """Of shares * (grad - <grad, shares>): linear in `grad`, quadratic in shares."""
    grad, shares, offsets, totals = ctx.saved_tensors
    back = torch.ops.flambeau_rec._sll_jagged2_softmax_backward
    to_grad = back(flow, shares, offsets, totals, ctx.transpose)
    # With ones for shares, the gradient is x less the sum of x along its line.
    ones = torch.ones_like(shares)
    sums = [x - back(x, ones, offsets, totals, ctx.transpose) for x in (grad * shares, flow * shares)]
    return to_grad, flow * (grad - sums[0]) - grad * sums[1], None, None, None


register_op(
    "_sll_jagged2_softmax_backward(Tensor grad_output, Tensor output, Tensor offsets, Tensor offsets_total, "
    "bool transpose) -> Tensor",
    library=LIBRARY,
    fake=_fake_backward,
    python=_softmax_backward,
    setup_context=_keep_second,
    backward=_second,
)
register_op(
    "sll_jagged2_softmax(Tensor x, Tensor offsets, Tensor offsets_total, int max_seq_len, bool transpose) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_softmax,
    setup_context=_keep,
    backward=_gradient,
)
register_composite(
    "sll_jagged_softmax(Tensor x, Tensor x_offsets, int max_seq_len, bool use_fbgemm_kernel=True) -> Tensor",
    lambda x, offsets, longest, *_: OPS.jagged_softmax_forward(x, offsets, longest),
)
