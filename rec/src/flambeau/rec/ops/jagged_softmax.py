"""Softmax over the items of each row, column by column.

The native kernel is `native/jagged_softmax.cpp`, that for CUDA and XPU `_jagged_triton.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import FLOATING, check_offsets, check_whole, locate, widened, within
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.jagged_conversion import one_to_dense, one_to_jagged

__all__ = ["jagged_softmax"]


def jagged_softmax(values: Tensor, x_offsets: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    """Make the items of each row add up to 1 in every column.

    Args:
        values: (L, D), floating; half precision is computed in float32.
        x_offsets: (rows + 1,) int32 or int64: where each row begins and the last ends.
        max_L: items of a row that take part, the first ones; the others give 0.

    Returns:
        Items (L, D), and `x_offsets`. It has derivatives of any order.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or offsets that decrease or go beyond the values.

    Example:
        >>> jagged_softmax(torch.zeros(3, 1), torch.tensor([0, 2, 3]), 2)[0].T
        tensor([[0.5000, 0.5000, 1.0000]])
    """
    return OPS.jagged_softmax(values, x_offsets, max_L)  # type: ignore[no-any-return]


def _check(op: str, values: Tensor, offsets: Tensor) -> None:
    """The same sentences as native/jagged_softmax.cpp."""
    if values.dim() != 2 or values.dtype not in FLOATING:
        raise RuntimeError(
            f"{op}: values has shape {tuple(values.shape)} and dtype {values.dtype}, expected (items, columns) of a "
            "floating dtype."
        )
    check_whole(op, "offsets", offsets)


def _rows(op: str, values: Tensor, offsets: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    """Row of each item, one too many for those that take no part, (L, 1); and which do, (L, 1)."""
    _check(op, values, offsets)
    check_offsets(op, "x_offsets", offsets, values.shape[0])
    rows = offsets.shape[0] - 1
    row, place = locate(offsets, values.shape[0])
    inside = within(row, place, rows, max_L)
    return torch.where(inside, row, rows)[:, None], inside[:, None]


def _softmax(values: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    row, inside = _rows("jagged_softmax", values, offsets, max_L)
    wide, row = widened(values), row.expand(values.shape)
    sums = wide.new_zeros(offsets.shape[0], values.shape[1])
    best = sums.new_full(sums.shape, float("-inf")).scatter_reduce(0, row, wide, "amax")
    powers = (wide - best.gather(0, row)).exp()
    shares = powers / sums.scatter_add(0, row, powers).gather(0, row)
    return torch.where(inside, shares, 0).to(values.dtype)


def _softmax_backward(grad: Tensor, output: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    row, inside = _rows("jagged_softmax_backward", output, offsets, max_L)
    flow, shares, row = widened(grad), widened(output), row.expand(output.shape)
    sums = flow.new_zeros(offsets.shape[0], output.shape[1]).scatter_add(0, row, flow * shares)
    return torch.where(inside, shares * (flow - sums.gather(0, row)), 0).to(output.dtype)


def _fake(values: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    _check("jagged_softmax", values, offsets)
    return values.new_empty(values.shape)


def _fake_backward(grad: Tensor, output: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    _check("jagged_softmax_backward", output, offsets)
    return output.new_empty(output.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, inputs[1])
    ctx.max_L = inputs[2]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    output, offsets = ctx.saved_tensors
    return OPS.jagged_softmax_backward(grad, output, offsets, ctx.max_L), None, None


def _keep_second(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.max_L = inputs[3]


def _sum(values: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    """(L, D): the sum of its row, for each item that takes part."""
    total = one_to_dense(values, offsets, max_L).sum(1, keepdim=True)
    return one_to_jagged(total.expand(-1, max_L, -1), offsets, values.shape[0])


def _second(ctx: Any, flow: Tensor) -> tuple[Tensor | None, ...]:
    """Of shares * (grad - <grad, shares>): linear in `grad`, quadratic in shares."""
    grad, shares, offsets = ctx.saved_tensors
    back, max_L = torch.ops.flambeau_rec.jagged_softmax_backward, ctx.max_L
    taking_part = _sum(shares, offsets, max_L)  # 1 for items that do, else 0
    to_shares = flow * (grad - _sum(grad * shares, offsets, max_L)) - grad * _sum(flow * shares, offsets, max_L)
    return back(flow, shares, offsets, max_L), to_shares * taking_part, None, None


for _name, _arguments, _twin, _python, _setup, _backward in (
    ("jagged_softmax_forward", "Tensor values", _fake, _softmax, _keep, _gradient),
    (
        "jagged_softmax_backward",
        "Tensor grad_output, Tensor output",
        _fake_backward,
        _softmax_backward,
        _keep_second,
        _second,
    ),
):
    register_op(
        f"{_name}({_arguments}, Tensor x_offsets, int max_L) -> Tensor",
        library=LIBRARY,
        fake=_twin,
        python=_python,
        triton=f"flambeau.rec.ops._jagged_triton:{_name}",
        setup_context=_setup,
        backward=_backward,
    )
register_composite(
    "jagged_softmax(Tensor values, Tensor x_offsets, int max_L) -> (Tensor, Tensor)",
    lambda values, offsets, max_L: (OPS.jagged_softmax_forward(values, offsets, max_L), offsets),
)
