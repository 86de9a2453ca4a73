"""Matrix products within sequences: each item with each item, and such a matrix with items again.

"sll" is FBGEMM's sequence learning. A matrix tensor holds for each sequence m * n numbers, row after row; mostly m = n
is the sequence's length. The native kernel is `native/sll_matmul.cpp`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import check_floating, check_offsets, check_whole, locate, widened, within
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.jagged_conversion import one_to_dense, one_to_jagged

__all__ = [
    "sll_array_jagged_bmm_jagged_out",
    "sll_jagged_dense_bmm",
    "sll_jagged_jagged_bmm",
    "sll_jagged_jagged_bmm_jagged_out",
]


def sll_jagged_dense_bmm(
    x: Tensor, y: Tensor, x_offsets: Tensor, N: int, allow_tf32: bool, use_fbgemm_kernel: bool = True
) -> Tensor:
    """`jagged_dense_bmm`, items alone.

    Args:
        x: (L, D), floating.
        y: (sequences, D, T) of the same dtype.
        x_offsets: (sequences + 1,) int32 or int64.
        N: items of a sequence that take part, the first ones; the others give 0.
        allow_tf32: ignored: sums are of full precision.
        use_fbgemm_kernel: ignored.

    Returns:
        (L, T).

    Raises:
        RuntimeError: as for `jagged_dense_bmm`.
    """
    return OPS.sll_jagged_dense_bmm(x, y, x_offsets, N, allow_tf32, use_fbgemm_kernel)  # type: ignore[no-any-return]


def sll_jagged_jagged_bmm(
    x: Tensor, y: Tensor, x_offsets: Tensor, N: int, allow_tf32: bool, use_fbgemm_kernel: bool = True
) -> Tensor:
    """`jagged_jagged_bmm`.

    Args:
        x: (L, M), floating.
        y: (L, T) of the same dtype.
        x_offsets: (sequences + 1,) int32 or int64.
        N: items of a sequence that take part, the first ones.
        allow_tf32: ignored: sums are of full precision.
        use_fbgemm_kernel: ignored.

    Returns:
        (sequences, M, T).

    Raises:
        RuntimeError: as for `jagged_jagged_bmm`.
    """
    return OPS.sll_jagged_jagged_bmm(x, y, x_offsets, N, allow_tf32, use_fbgemm_kernel)  # type: ignore[no-any-return]


def sll_jagged_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool,
) -> Tensor:  # fmt: skip
    """`x_b y_b^T` of each sequence b: the products of each of its items in `x` with each in `y`.

    Args:
        x: (items, K), floating.
        y: (items, K) of the same dtype.
        x_lengths: (sequences,) items of each sequence in `x`; ignored, as offsets tell them.
        x_offsets: (sequences + 1,) int32 or int64.
        y_lengths: the same of `y`.
        y_offsets: (sequences + 1,) int32 or int64.
        z_lengths: the same of the result: products of the two lengths.
        z_offsets: (sequences + 1,) int32 or int64.
        max_seq_len: ignored, as offsets tell it.
        allow_tf32: ignored: sums are of full precision.

    Returns:
        (numbers,): for each sequence its matrix, row after row. It has derivatives of any order.

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_jagged_jagged_bmm_jagged_out(  # type: ignore[no-any-return]
        x, y, x_lengths, x_offsets, y_lengths, y_offsets, z_lengths, z_offsets, max_seq_len, allow_tf32
    )


def sll_array_jagged_bmm_jagged_out(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool,
) -> Tensor:  # fmt: skip
    """`x_b y_b` of each sequence b, where x_b is its matrix.

    Args:
        x: (numbers,), floating: for each sequence a matrix, row after row.
        y: (items, D) of the same dtype.
        x_lengths: (sequences,) numbers of each matrix; ignored, as offsets tell them.
        x_offsets: (sequences + 1,) int32 or int64.
        y_lengths: the same of `y`.
        y_offsets: (sequences + 1,) int32 or int64.
        z_lengths: the same of the result.
        z_offsets: (sequences + 1,) int32 or int64.
        max_seq_len: rows and columns of a matrix that take part, the first ones; the others give 0.
        allow_tf32: ignored: sums are of full precision.

    Returns:
        (items, D). It has derivatives of any order.

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_array_jagged_bmm_jagged_out(  # type: ignore[no-any-return]
        x, y, x_lengths, x_offsets, y_lengths, y_offsets, z_lengths, z_offsets, max_seq_len, allow_tf32
    )


# --- checks, with the sentences of native/sll_matmul.cpp ------------------------------------------

_OUTER, _TIMES = "sll_jagged_jagged_bmm_jagged_out", "sll_array_jagged_bmm_jagged_out"
_NAMES = tuple(f"offsets of the matrices{of}" for of in ("' rows", "' columns", ""))


def _check_outer(x: Tensor, y: Tensor, *offsets: Tensor) -> None:
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1]:
        raise RuntimeError(
            f"{_OUTER}: x has shape {tuple(x.shape)} and y {tuple(y.shape)}, expected (items, width) both."
        )  # fmt: skip
    check_floating(_OUTER, x, y)
    for name, one in zip(_NAMES, offsets, strict=True):
        check_whole(_OUTER, name, one)


def _check_times(a: Tensor, y: Tensor, *offsets: Tensor) -> None:
    if a.dim() != 1 or y.dim() != 2:
        raise RuntimeError(
            f"{_TIMES}: x has shape {tuple(a.shape)} and y {tuple(y.shape)}, expected (numbers,) and (items, width)."
        )
    check_floating(_TIMES, a, y)
    for name, one in zip(_NAMES, offsets, strict=True):
        check_whole(_TIMES, name, one)


def _cells(
    op: str, left: Tensor, right: Tensor, matrix: Tensor, totals: tuple[int, int, int]
) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """Of each number of the matrices its sequence, row and column; and the size of a dense tensor for all of them."""
    for name, one, total in zip(_NAMES, (left, right, matrix), totals, strict=True):
        check_offsets(op, name, one, total)
    if not left.shape == right.shape == matrix.shape:
        counts = ", ".join(str(one.shape[0]) for one in (left, right, matrix))
        raise RuntimeError(f"{op}: offsets have {counts} entries, expected as many.")
    rows, columns, numbers = left.diff().long(), right.diff().long(), matrix.diff().long()
    if matrix.device.type == "cpu" and bool((rows * columns != numbers).any()):
        at = int((rows * columns != numbers).nonzero()[0])
        raise RuntimeError(
            f"{op}: sequence {at} has a matrix of {int(numbers[at])} numbers, expected {int(rows[at])} x "
            f"{int(columns[at])}."
        )
    # Numbers before the first matrix and after the last are in a sequence of their own, which is left out.
    sequence, place = locate(matrix, totals[2])
    sequence = torch.where(sequence < 0, len(rows), sequence)
    wide = torch.cat([columns, columns.new_ones(1)])[sequence].clamp(min=1)
    size = (len(rows), int(rows.max()), int(columns.max())) if len(rows) else (0, 0, 0)
    return sequence, place // wide, place % wide, size


# --- reference ------------------------------------------------------------------------------------


def _outer(
    x: Tensor, y: Tensor, x_offsets: Tensor, y_offsets: Tensor, z_offsets: Tensor, numbers: int | None = None
) -> Tensor:
    _check_outer(x, y, x_offsets, y_offsets, z_offsets)
    total = int(z_offsets[-1]) if numbers is None else numbers
    sequence, row, column, size = _cells(
        _OUTER, x_offsets, y_offsets, z_offsets, (x.shape[0], y.shape[0], total)
    )  # fmt: skip
    left, right = one_to_dense(widened(x), x_offsets, size[1]), one_to_dense(widened(y), y_offsets, size[2])
    product = torch.bmm(left, right.transpose(1, 2))
    there = sequence < size[0]
    made = product.new_zeros(total)
    made[there] = product[sequence[there], row[there], column[there]]
    return made.to(x.dtype)


def _times(
    a: Tensor, y: Tensor, a_offsets: Tensor, y_offsets: Tensor, z_offsets: Tensor, longest: int, items: int,
    transpose: bool,
) -> Tensor:  # fmt: skip
    _check_times(a, y, a_offsets, y_offsets, z_offsets)
    sides = (y_offsets, z_offsets) if transpose else (z_offsets, y_offsets)
    totals = (y.shape[0], items) if transpose else (items, y.shape[0])
    sequence, row, column, size = _cells(_TIMES, *sides, a_offsets, (*totals, a.shape[0]))
    there = (sequence < size[0]) & (row < longest) & (column < longest)
    matrices = widened(a).new_zeros(size)
    matrices[sequence[there], row[there], column[there]] = widened(a)[there]
    if transpose:
        matrices = matrices.transpose(1, 2)
    product = torch.bmm(matrices, one_to_dense(widened(y), y_offsets, matrices.shape[2]))
    return one_to_jagged(product, z_offsets, items).to(y.dtype)


# --- shape-only twins and gradients ---------------------------------------------------------------


def _fake_outer(
    x: Tensor, y: Tensor, x_offsets: Tensor, y_offsets: Tensor, z_offsets: Tensor, numbers: Any = None
) -> Tensor:
    _check_outer(x, y, x_offsets, y_offsets, z_offsets)
    return x.new_empty(torch.library.get_ctx().new_dynamic_size() if numbers is None else numbers)


def _fake_times(
    a: Tensor, y: Tensor, a_offsets: Tensor, y_offsets: Tensor, z_offsets: Tensor, longest: int, items: int,
    transpose: bool,
) -> Tensor:  # fmt: skip
    _check_times(a, y, a_offsets, y_offsets, z_offsets)
    return y.new_empty((items, y.shape[1]))


def _keep_outer(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])


def _outer_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y, x_offsets, y_offsets, z_offsets = ctx.saved_tensors
    times, everything = torch.ops.flambeau_rec._sll_matrix_times_items, 2**62
    to_x = to_y = None
    if ctx.needs_input_grad[0]:
        to_x = times(grad, y, z_offsets, y_offsets, x_offsets, everything, x.shape[0], False)
    if ctx.needs_input_grad[1]:
        to_y = times(grad, x, z_offsets, x_offsets, y_offsets, everything, y.shape[0], True)
    return to_x, to_y, None, None, None, None


def _keep_times(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.longest, ctx.transpose = inputs[5], inputs[7]


def _times_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, y, a_offsets, y_offsets, z_offsets = ctx.saved_tensors
    ops, to_a, to_y = torch.ops.flambeau_rec, None, None
    if ctx.needs_input_grad[0]:
        # Items that take no part have no share, on either side.
        flow, items = (first_items(one, of, ctx.longest) for one, of in ((grad, z_offsets), (y, y_offsets)))
        sides = (items, flow, y_offsets, z_offsets) if ctx.transpose else (flow, items, z_offsets, y_offsets)
        to_a = ops._sll_outer(*sides, a_offsets, a.shape[0])
    if ctx.needs_input_grad[1]:
        to_y = ops._sll_matrix_times_items(
            a, grad, a_offsets, z_offsets, y_offsets, ctx.longest, y.shape[0], not ctx.transpose
        )
    return to_a, to_y, *(None,) * 6


def first_items(items: Tensor, offsets: Tensor, longest: int) -> Tensor:
    """The items, those beyond the longest length 0."""
    row, place = locate(offsets, items.shape[0])
    return torch.where(within(row, place, offsets.shape[0] - 1, longest)[:, None], items, 0)


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_sll_outer(Tensor x, Tensor y, Tensor x_offsets, Tensor y_offsets, Tensor z_offsets, SymInt? numbers=None) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake_outer,
    python=_outer,
    setup_context=_keep_outer,
    backward=_outer_gradient,
)
register_op(
    "_sll_matrix_times_items(Tensor x, Tensor y, Tensor x_offsets, Tensor y_offsets, Tensor z_offsets, int "
    "max_seq_len, SymInt items, bool transpose) -> Tensor",
    library=LIBRARY,
    fake=_fake_times,
    python=_times,
    setup_context=_keep_times,
    backward=_times_gradient,
)

_PAIR = "Tensor x, Tensor y, Tensor x_offsets, int N, bool allow_tf32, bool use_fbgemm_kernel=True"
_SIZED = (
    "Tensor x, Tensor y, Tensor x_lengths, Tensor x_offsets, Tensor y_lengths, Tensor y_offsets, Tensor z_lengths, "
    "Tensor z_offsets, int max_seq_len, bool allow_tf32"
)


def _array_times(
    x: Tensor, y: Tensor, x_lengths: Tensor, x_offsets: Tensor, y_lengths: Tensor, y_offsets: Tensor,
    z_lengths: Tensor, z_offsets: Tensor, max_seq_len: int, allow_tf32: bool,
) -> Tensor:  # fmt: skip
    times = torch.ops.flambeau_rec._sll_matrix_times_items
    return times(x, y, x_offsets, y_offsets, z_offsets, max_seq_len, y.shape[0], False)  # type: ignore[no-any-return]


register_composite(
    f"sll_jagged_dense_bmm({_PAIR}) -> Tensor",
    lambda x, y, offsets, N, *_: OPS.jagged_dense_bmm_forward(x, offsets, y, N),
)
register_composite(
    f"sll_jagged_jagged_bmm({_PAIR}) -> Tensor",
    lambda x, y, offsets, N, *_: OPS.jagged_jagged_bmm(x, y, offsets, N),
)
register_composite(
    f"sll_jagged_jagged_bmm_jagged_out({_SIZED}) -> Tensor",
    lambda x, y, xl, x_offsets, yl, y_offsets, zl, z_offsets, *_: OPS._sll_outer(x, y, x_offsets, y_offsets, z_offsets),
)
register_composite(f"sll_array_jagged_bmm_jagged_out({_SIZED}) -> Tensor", _array_times)
