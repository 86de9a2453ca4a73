"""Sums and products of jagged and dense tensors: item i of row b meets `y[b, i]`, where there is one.

The native kernel is `native/jagged_elementwise.cpp`. Where jagged dimensions lie inside of one another, the dense side
is made jagged first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import NUMBERS, check_offsets, check_whole, locate, within
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.jagged_conversion import dense_to_jagged, jagged_to_padded_dense, one_to_dense, one_to_jagged

__all__ = [
    "jagged_dense_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_add",
    "jagged_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_mul",
]

Jagged = tuple[Tensor, list[Tensor]]


def jagged_dense_elementwise_add(x_values: Tensor, x_offsets: list[Tensor], y: Tensor) -> Tensor:
    """`y + x`, dense: where x has no item it counts as 0.

    Args:
        x_values: (L, ...), floating, int32 or int64.
        x_offsets: for each jagged dimension (rows + 1,) int32 or int64.
        y: (rows, longest of each jagged dimension, ...); both are converted to the dtype that they have in common.

    Returns:
        Of the shape of `y`; items of x beyond it are left out.

    Raises:
        RuntimeError: shapes that do not fit, other dtypes, or offsets that decrease or go beyond the values.
    """
    return OPS.jagged_dense_elementwise_add(x_values, x_offsets, y)  # type: ignore[no-any-return]


def jagged_dense_elementwise_add_jagged_output(x_values: Tensor, x_offsets: list[Tensor], y: Tensor) -> Jagged:
    """`x + y` where x has items; beyond the dense tensor `x`.

    Args:
        x_values: (L, ...), floating, int32 or int64.
        x_offsets: for each jagged dimension (rows + 1,) int32 or int64.
        y: (rows, longest of each jagged dimension, ...); both are converted to the dtype that they have in common.

    Returns:
        Items of the shape of `x_values`, and `x_offsets`.

    Raises:
        RuntimeError: as for `jagged_dense_elementwise_add`.
    """
    return OPS.jagged_dense_elementwise_add_jagged_output(x_values, x_offsets, y)  # type: ignore[no-any-return]


def jagged_dense_dense_elementwise_add_jagged_output(
    x_values: Tensor, x_offsets: list[Tensor], y_0: Tensor, y_1: Tensor
) -> Jagged:
    """`x + y_0 + y_1` where x has items; beyond the dense tensors `x`.

    Args:
        x_values: (L, ...), floating, int32 or int64.
        x_offsets: for each jagged dimension (rows + 1,) int32 or int64.
        y_0: (rows, longest of each jagged dimension, ...); both are converted to the dtype that they have in common.
        y_1: like `y_0`.

    Returns:
        Items of the shape of `x_values`, and `x_offsets`.

    Raises:
        RuntimeError: as for `jagged_dense_elementwise_add`.
    """
    return OPS.jagged_dense_dense_elementwise_add_jagged_output(x_values, x_offsets, y_0, y_1)  # type: ignore[no-any-return]


def jagged_dense_elementwise_mul(x_values: Tensor, x_offsets: list[Tensor], y: Tensor) -> Jagged:
    """`x * y` where x has items; beyond the dense tensor 0.

    Args:
        x_values: (L, ...), floating, int32 or int64.
        x_offsets: for each jagged dimension (rows + 1,) int32 or int64.
        y: (rows, longest of each jagged dimension, ...); both are converted to the dtype that they have in common.

    Returns:
        Items of the shape of `x_values`, and `x_offsets`.

    Raises:
        RuntimeError: as for `jagged_dense_elementwise_add`.

    Example:
        >>> x, offsets = torch.tensor([1.0, 2.0, 3.0]), [torch.tensor([0, 2, 3])]
        >>> jagged_dense_elementwise_mul(x, offsets, torch.tensor([[10.0, 20.0], [30.0, 40.0]]))[0]
        tensor([10., 40., 90.])
    """
    return OPS.jagged_dense_elementwise_mul(x_values, x_offsets, y)  # type: ignore[no-any-return]


# --- one jagged dimension -------------------------------------------------------------------------


def _check(op: str, x: Tensor, offsets: Tensor, y: Tensor) -> None:
    """The same sentences as native/jagged_elementwise.cpp."""
    check_whole(op, "x_offsets", offsets)
    rows = offsets.shape[0] - 1
    if x.dim() < 1 or y.dim() < 2 or x.shape[1:] != y.shape[2:] or y.shape[0] != rows:
        raise RuntimeError(
            f"{op}: x_values has shape {tuple(x.shape)} and y {tuple(y.shape)} for {rows} rows, expected (items, ...) "
            "and (rows, longest, ...)."
        )
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"{op}: x_values is {x.dtype} and y {y.dtype}, expected one dtype; convert one of them."
        )  # fmt: skip
    if x.dtype not in NUMBERS:
        raise RuntimeError(
            f"{op}: x_values is {x.dtype}, expected a floating dtype, int32 or int64; convert it."
        )  # fmt: skip


def _gathered(op: str, x: Tensor, offsets: Tensor, y: Tensor) -> Tensor:
    """`y` where x has items, 0 elsewhere: like `x`."""
    _check(op, x, offsets, y)
    check_offsets(op, "x_offsets", offsets, x.shape[0])
    row, place = locate(offsets, x.shape[0])
    inside = within(row, place, *y.shape[:2])
    found = torch.zeros_like(x, memory_format=torch.contiguous_format)
    found[inside] = y[row[inside], place[inside]]
    return found


_ADD, _MUL = "jagged_dense_elementwise_add_jagged_output", "jagged_dense_elementwise_mul"


def _fake_add(x: Tensor, offsets: Tensor, y_0: Tensor, y_1: Tensor | None = None) -> Tensor:
    for y in (y_0,) if y_1 is None else (y_0, y_1):
        _check(_ADD, x, offsets, y)
    return x.new_empty(x.shape)


def _add(x: Tensor, offsets: Tensor, y_0: Tensor, y_1: Tensor | None = None) -> Tensor:
    total = x + _gathered(_ADD, x, offsets, y_0)
    if y_1 is None:
        return total
    if y_1.shape != y_0.shape:
        raise RuntimeError(
            f"{_ADD}: y_0 has shape {tuple(y_0.shape)} and y_1 {tuple(y_1.shape)}, expected one shape."
        )  # fmt: skip
    return total + _gathered(_ADD, x, offsets, y_1)


def _keep_add(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.longest = inputs[2].shape[1]


def _add_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    wanted = (*ctx.needs_input_grad, False)
    dense = one_to_dense(grad, offsets, ctx.longest) if wanted[2] or wanted[3] else None
    return grad if wanted[0] else None, None, dense if wanted[2] else None, dense if wanted[3] else None


def _fake_mul(x: Tensor, offsets: Tensor, y: Tensor) -> Tensor:
    _check(_MUL, x, offsets, y)
    return x.new_empty(x.shape)


def _keep_mul(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _mul_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, offsets, y = ctx.saved_tensors
    to_x = OPS._jagged_dense_mul(grad, offsets, y) if ctx.needs_input_grad[0] else None
    to_y = one_to_dense(grad * x, offsets, y.shape[1]) if ctx.needs_input_grad[2] else None
    return to_x, None, to_y


def _fake_dense(x: Tensor, offsets: Tensor, y: Tensor) -> Tensor:
    _check("jagged_dense_elementwise_add", x, offsets, y)
    return y.new_empty(y.shape)


def _add_dense(x: Tensor, offsets: Tensor, y: Tensor) -> Tensor:
    _check("jagged_dense_elementwise_add", x, offsets, y)
    return y + one_to_dense(x, offsets, y.shape[1])


def _keep_dense(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.items = inputs[0].shape[0]


def _dense_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    to_x = one_to_jagged(grad, offsets, ctx.items) if ctx.needs_input_grad[0] else None
    return to_x, None, grad if ctx.needs_input_grad[2] else None


register_op(
    "_jagged_dense_add(Tensor x_values, Tensor x_offsets, Tensor y_0, Tensor? y_1=None) -> Tensor",
    library=LIBRARY,
    fake=_fake_add,
    python=_add,
    setup_context=_keep_add,
    backward=_add_gradient,
)
register_op(
    "_jagged_dense_mul(Tensor x_values, Tensor x_offsets, Tensor y) -> Tensor",
    library=LIBRARY,
    fake=_fake_mul,
    python=lambda x, offsets, y: x * _gathered(_MUL, x, offsets, y),
    setup_context=_keep_mul,
    backward=_mul_gradient,
)
register_op(
    "_jagged_dense_add_dense(Tensor x_values, Tensor x_offsets, Tensor y) -> Tensor",
    library=LIBRARY,
    fake=_fake_dense,
    python=_add_dense,
    setup_context=_keep_dense,
    backward=_dense_gradient,
)


# --- any number of jagged dimensions --------------------------------------------------------------


def _alike(x: Tensor, *dense: Tensor) -> list[Tensor]:
    """All of the dtype that they have in common."""
    common = x.dtype
    for one in dense:
        common = torch.promote_types(common, one.dtype)
    return [one.to(common) for one in (x, *dense)]


def _jagged(x: Tensor, offsets: list[Tensor], y: Tensor) -> Tensor:
    return dense_to_jagged(y, offsets, x.shape[0])[0]


def _add_all(x: Tensor, offsets: list[Tensor], y_0: Tensor, y_1: Tensor | None = None) -> Tensor:
    x, y_0, *others = _alike(x, y_0, *([] if y_1 is None else [y_1]))
    y_1 = others[0] if others else None
    if len(offsets) == 1:
        return OPS._jagged_dense_add(x, offsets[0], y_0, y_1)  # type: ignore[no-any-return]
    total = x + _jagged(x, offsets, y_0)
    return total if y_1 is None else total + _jagged(x, offsets, y_1)


def _add_all_dense(x: Tensor, offsets: list[Tensor], y: Tensor) -> Tensor:
    x, y = _alike(x, y)
    if len(offsets) == 1:
        return OPS._jagged_dense_add_dense(x, offsets[0], y)  # type: ignore[no-any-return]
    return y + jagged_to_padded_dense(x, offsets, list(y.shape[1 : len(offsets) + 1]))


def _mul_all(x: Tensor, offsets: list[Tensor], y: Tensor) -> Tensor:
    x, y = _alike(x, y)
    if len(offsets) == 1:
        return OPS._jagged_dense_mul(x, offsets[0], y)  # type: ignore[no-any-return]
    return x * _jagged(x, offsets, y)


def _mul_all_backward(grad: Tensor, offsets: list[Tensor], y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return _mul_all(grad, offsets, y), jagged_to_padded_dense(grad * x, offsets, list(y.shape[1 : len(offsets) + 1]))


_X = "Tensor x_values, Tensor[] x_offsets"
register_composite(f"jagged_dense_elementwise_add({_X}, Tensor y) -> Tensor", _add_all_dense)
register_composite(
    f"jagged_dense_elementwise_add_jagged_output({_X}, Tensor y) -> (Tensor, Tensor[])",
    lambda x, offsets, y: (_add_all(x, offsets, y), offsets),
)
register_composite(
    f"jagged_dense_dense_elementwise_add_jagged_output_forward({_X}, Tensor y_0, Tensor y_1) -> Tensor", _add_all
)
register_composite(
    f"jagged_dense_dense_elementwise_add_jagged_output({_X}, Tensor y_0, Tensor y_1) -> (Tensor, Tensor[])",
    lambda x, offsets, y_0, y_1: (_add_all(x, offsets, y_0, y_1), offsets),
)
register_composite(f"jagged_dense_elementwise_mul_forward({_X}, Tensor y) -> Tensor", _mul_all)
register_composite(
    f"jagged_dense_elementwise_mul({_X}, Tensor y) -> (Tensor, Tensor[])",
    lambda x, offsets, y: (_mul_all(x, offsets, y), offsets),
)
register_composite(
    "jagged_dense_elementwise_mul_backward(Tensor grad_output, Tensor[] x_offsets, Tensor y, Tensor x_values) "
    "-> (Tensor, Tensor)",
    _mul_all_backward,
)
