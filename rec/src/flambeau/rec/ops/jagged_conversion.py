"""Rows of different lengths to rows of one length, cut or padded, and back.

The native kernels are `native/jagged_conversion.cpp`, those for CUDA and XPU `_jagged_triton.py`. Jagged dimensions
inside of one another are converted one at a time, from the innermost outwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import check_offsets, check_whole, locate, within
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["dense_to_jagged", "jagged_1d_to_dense", "jagged_2d_to_dense", "jagged_to_padded_dense"]


def jagged_to_padded_dense(
    values: Tensor, offsets: list[Tensor], max_lengths: list[int], padding_value: float = 0.0
) -> Tensor:
    """Lay the items of jagged rows into a dense tensor.

    Args:
        values: (L, ...), any dtype: the items of all rows, row after row.
        offsets: for each jagged dimension, from the outermost inwards, (rows + 1,) int32 or int64: where each row
            begins
            and the last ends. The rows of one dimension are the items of the one around it.
        max_lengths: for each jagged dimension the size of the dense one; longer rows are cut.
        padding_value: what is put where a row has no item.

    Returns:
        (rows of the outermost dimension, *max_lengths, ...), dtype of `values`. Its gradient flows to the items that
        are there; it has derivatives of any order.

    Raises:
        RuntimeError: shapes that do not fit, or offsets that decrease or go beyond the values.

    Example:
        >>> jagged_to_padded_dense(torch.tensor([1.0, 2.0, 3.0]), [torch.tensor([0, 2, 2, 3])], [2], -1.0)
        tensor([[ 1.,  2.],
                [-1., -1.],
                [ 3., -1.]])
    """
    return OPS.jagged_to_padded_dense(values, offsets, max_lengths, padding_value)  # type: ignore[no-any-return]


def dense_to_jagged(dense: Tensor, x_offsets: list[Tensor], total_L: int | None = None) -> tuple[Tensor, list[Tensor]]:
    """Take the items of jagged rows out of a dense tensor: `jagged_to_padded_dense` backwards.

    Args:
        dense: (rows, longest, ..., ...), any dtype, one dimension for the rows and one for each jagged dimension first.
        x_offsets: as `offsets` of `jagged_to_padded_dense`.
        total_L: L, where it is known, which spares waiting for an accelerator; items beyond the last row are 0.

    Returns:
        Items (L, ...), 0 where a row is longer than the dense tensor, and `x_offsets`.

    Raises:
        RuntimeError: shapes that do not fit, or offsets that decrease or go beyond `total_L`.

    Example:
        >>> dense_to_jagged(torch.tensor([[1, 2], [3, 4]]), [torch.tensor([0, 1, 3])])[0]
        tensor([1, 3, 4])
    """
    return OPS.dense_to_jagged(dense, x_offsets, total_L)  # type: ignore[no-any-return]


def jagged_1d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int, padding_value: int) -> Tensor:
    """`jagged_to_padded_dense` of one jagged dimension of numbers.

    Args:
        values: (L,), any dtype.
        offsets: (rows + 1,) int32 or int64.
        max_sequence_length: size of the result's second dimension; longer rows are cut.
        padding_value: what is put where a row has no item.

    Returns:
        (rows, max_sequence_length).

    Raises:
        RuntimeError: as for `jagged_to_padded_dense`.
    """
    return OPS.jagged_1d_to_dense(values, offsets, max_sequence_length, padding_value)  # type: ignore[no-any-return]


def jagged_2d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int) -> Tensor:
    """`jagged_to_padded_dense` of one jagged dimension of vectors, padded with 0.

    Args:
        values: (L, D), any dtype.
        offsets: (rows + 1,) int32 or int64.
        max_sequence_length: size of the result's second dimension; longer rows are cut.

    Returns:
        (rows, max_sequence_length, D).

    Raises:
        RuntimeError: as for `jagged_to_padded_dense`.
    """
    return OPS.jagged_2d_to_dense(values, offsets, max_sequence_length)  # type: ignore[no-any-return]


def one_to_dense(values: Tensor, offsets: Tensor, longest: int, padding: float = 0.0) -> Tensor:
    """(rows, longest, ...): one jagged dimension made dense; `padding` is exact for whole numbers as well."""
    whole = 0 if values.is_floating_point() or values.is_complex() else int(padding)
    return OPS._jagged_to_dense(values, offsets, longest, padding, whole)  # type: ignore[no-any-return]


def one_to_jagged(dense: Tensor, offsets: Tensor, total: int | None) -> Tensor:
    """(total, ...): one dimension made jagged."""
    return OPS._dense_to_jagged(dense, offsets, total)  # type: ignore[no-any-return]


# --- checks and shape-only twins ------------------------------------------------------------------


def _check_values(op: str, values: Tensor, offsets: Tensor, longest: Any) -> None:
    flat = op == "jagged_1d_to_dense"
    if values.dim() < 1 or (flat and values.dim() != 1):
        expected = "(items,)" if flat else "(items, ...)"
        raise RuntimeError(f"{op}: values has shape {tuple(values.shape)}, expected {expected}.")
    check_whole(op, "offsets", offsets)
    if isinstance(longest, int) and longest < 0:
        raise RuntimeError(f"{op}: max_length is {longest}, expected 0 or more.")


def _check_dense(op: str, dense: Tensor, offsets: Tensor) -> None:
    if dense.dim() < 2:
        raise RuntimeError(f"{op}: dense has shape {tuple(dense.shape)}, expected (rows, longest, ...).")
    check_whole(op, "x_offsets", offsets)
    if offsets.shape[0] != dense.shape[0] + 1:
        raise RuntimeError(
            f"{op}: x_offsets has {offsets.shape[0]} entries, expected {dense.shape[0] + 1}: dense has shape "
            f"{tuple(dense.shape)}, one row for each pair."
        )


def _fake_dense(op: str, values: Tensor, offsets: Tensor, longest: int) -> Tensor:
    _check_values(op, values, offsets, longest)
    return values.new_empty((offsets.shape[0] - 1, longest, *values.shape[1:]))


def _fake_jagged(dense: Tensor, offsets: Tensor, total: Any = None) -> Tensor:
    _check_dense("dense_to_jagged", dense, offsets)
    count = torch.library.get_ctx().new_dynamic_size() if total is None else total
    return dense.new_empty((count, *dense.shape[2:]))


# --- reference ------------------------------------------------------------------------------------


def _to_dense(op: str, values: Tensor, offsets: Tensor, longest: int, padding: float) -> Tensor:
    _check_values(op, values, offsets, longest)
    check_offsets(op, "offsets", offsets, values.shape[0])
    rows = offsets.shape[0] - 1
    dense = values.new_full((rows, longest, *values.shape[1:]), padding)
    row, place = locate(offsets, values.shape[0])
    inside = within(row, place, rows, longest)
    dense[row[inside], place[inside]] = values[inside]
    return dense


def _to_jagged(dense: Tensor, offsets: Tensor, total: int | None = None) -> Tensor:
    _check_dense("dense_to_jagged", dense, offsets)
    count = int(offsets[-1]) if total is None else total
    check_offsets("dense_to_jagged", "x_offsets", offsets, count)
    rows, longest = dense.shape[:2]
    row, place = locate(offsets, count)
    inside = within(row, place, rows, longest)
    values = dense.new_zeros((count, *dense.shape[2:]))
    values[inside] = dense[row[inside], place[inside]]
    return values


# --- gradients ------------------------------------------------------------------------------------


def _keep_values(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.items, ctx.arguments = inputs[0].shape[0], len(inputs)


def _values_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    return one_to_jagged(grad, offsets, ctx.items), *(None,) * (ctx.arguments - 1)


def _keep_dense(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.longest = inputs[0].shape[1]


def _dense_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (offsets,) = ctx.saved_tensors
    return one_to_dense(grad, offsets, ctx.longest), None, None


# --- registration ---------------------------------------------------------------------------------

for _name, _arguments, _fake, _python in (
    (
        "_jagged_to_dense",
        "SymInt max_length, float padding_value, SymInt whole_padding_value",
        lambda values, offsets, longest, padding, whole: _fake_dense(
            "jagged_to_padded_dense", values, offsets, longest
        ),
        lambda values, offsets, longest, padding, whole: _to_dense(
            "jagged_to_padded_dense", values, offsets, longest,
            padding if values.is_floating_point() or values.is_complex() else whole,
        ),
    ),
    (
        "jagged_1d_to_dense",
        "SymInt max_sequence_length, int padding_value",
        lambda values, offsets, longest, padding: _fake_dense("jagged_1d_to_dense", values, offsets, longest),
        lambda values, offsets, longest, padding: _to_dense("jagged_1d_to_dense", values, offsets, longest, padding),
    ),
    (
        "jagged_2d_to_dense",
        "SymInt max_sequence_length",
        lambda values, offsets, longest: _fake_dense("jagged_2d_to_dense", values, offsets, longest),
        lambda values, offsets, longest: _to_dense("jagged_2d_to_dense", values, offsets, longest, 0),
    ),
):  # fmt: skip
    register_op(
        f"{_name}(Tensor values, Tensor offsets, {_arguments}) -> Tensor",
        library=LIBRARY,
        fake=_fake,
        python=_python,
        triton=f"flambeau.rec.ops._jagged_triton:{_name.removeprefix('_')}",
        setup_context=_keep_values,
        backward=_values_gradient,
    )
register_op(
    "_dense_to_jagged(Tensor dense, Tensor x_offsets, SymInt? total_L=None) -> Tensor",
    library=LIBRARY,
    fake=_fake_jagged,
    python=_to_jagged,
    triton="flambeau.rec.ops._jagged_triton:dense_to_jagged",
    setup_context=_keep_dense,
    backward=_dense_gradient,
)


# --- jagged dimensions inside of one another ------------------------------------------------------


def _all_to_dense(values: Tensor, offsets: list[Tensor], max_lengths: list[int], padding_value: float = 0.0) -> Tensor:
    if not offsets or len(offsets) != len(max_lengths):
        raise RuntimeError(
            f"jagged_to_padded_dense: {len(offsets)} offsets and {len(max_lengths)} max_lengths, expected one of each "
            "for every jagged dimension."
        )
    for one, longest in zip(reversed(offsets), reversed(max_lengths), strict=True):
        values = one_to_dense(values, one, longest, padding_value)
    return values


def _all_to_jagged(dense: Tensor, x_offsets: list[Tensor], total_L: int | None = None) -> Tensor:
    if not x_offsets:
        raise RuntimeError("dense_to_jagged: x_offsets is empty, expected offsets for each jagged dimension.")
    totals = [one.shape[0] - 1 for one in x_offsets[1:]]
    for one, total in zip(x_offsets, [*totals, total_L], strict=True):
        dense = one_to_jagged(dense, one, total)
    return dense


register_composite(
    "jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) "
    "-> Tensor",
    _all_to_dense,
)
register_composite(
    "jagged_to_padded_dense(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) -> Tensor",
    _all_to_dense,
)
register_composite(
    "jagged_to_padded_dense_backward(Tensor grad_output, Tensor[] offsets, SymInt total_L) -> Tensor", _all_to_jagged
)
register_composite(
    "dense_to_jagged_forward(Tensor dense, Tensor[] x_offsets, SymInt? total_L=None) -> Tensor", _all_to_jagged
)
register_composite(
    "dense_to_jagged(Tensor dense, Tensor[] x_offsets, SymInt? total_L=None) -> (Tensor, Tensor[])",
    lambda dense, x_offsets, total_L=None: (_all_to_jagged(dense, x_offsets, total_L), x_offsets),
)
