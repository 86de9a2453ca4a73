"""Matrix products of jagged rows: with rows of another jagged tensor, with a dense matrix for each row, with vectors.

The native kernels are `native/jagged_matmul.cpp`, those for CUDA and XPU `_jagged_triton.py`. Half precision is summed
in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import check_floating, check_whole, widened
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.jagged_conversion import one_to_dense, one_to_jagged

__all__ = ["batched_dense_vec_jagged_2d_mul", "jagged_dense_bmm", "jagged_jagged_bmm"]


def jagged_jagged_bmm(x_values: Tensor, y_values: Tensor, x_offsets: Tensor, max_L: int) -> Tensor:
    """`x_b^T y_b` of each row b: sums of outer products of its items.

    Args:
        x_values: (L, M), floating.
        y_values: (L, N) of the same dtype.
        x_offsets: (rows + 1,) int32 or int64: where each row begins and the last ends, in both.
        max_L: items of a row that take part, the first ones.

    Returns:
        (rows, M, N). It has derivatives of any order.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or offsets that decrease or go beyond the values.
    """
    return OPS.jagged_jagged_bmm(x_values, y_values, x_offsets, max_L)  # type: ignore[no-any-return]


def jagged_dense_bmm(x_values: Tensor, x_offsets: Tensor, y: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    """`x_b y_b` of each row b: its items times a matrix of its own.

    Args:
        x_values: (L, D), floating.
        x_offsets: (rows + 1,) int32 or int64.
        y: (rows, D, T) of the same dtype.
        max_L: items of a row that take part, the first ones; the others give 0.

    Returns:
        Items (L, T), and `x_offsets`. It has derivatives of any order.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or offsets that decrease or go beyond the values.
    """
    return OPS.jagged_dense_bmm(x_values, x_offsets, y, max_L)  # type: ignore[no-any-return]


def batched_dense_vec_jagged_2d_mul(v: Tensor, a_values: Tensor, a_offsets: Tensor) -> Tensor:
    """A vector for each head of each row times the row's items: weighted sums, as of attention.

    Args:
        v: (rows * H, N), floating: the factors of row b for head h in v[b * H + h].
        a_values: (L, H * D) of the same dtype: the items' parts for each head, side by side.
        a_offsets: (rows + 1,) int32 or int64.

    Returns:
        (rows * H, D); items of a row beyond N, and factors beyond its items, take no part.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or offsets that decrease or go beyond the values.
    """
    return OPS.batched_dense_vec_jagged_2d_mul(v, a_values, a_offsets)  # type: ignore[no-any-return]


# --- checks, with the sentences of native/jagged_matmul.cpp ---------------------------------------

_JAGGED, _DENSE, _VECTORS = "jagged_jagged_bmm", "jagged_dense_bmm", "batched_dense_vec_jagged_2d_mul"


def _check_jagged(x: Tensor, y: Tensor, offsets: Tensor) -> None:
    if x.dim() != 2 or y.dim() != 2 or x.shape[0] != y.shape[0]:
        raise RuntimeError(
            f"{_JAGGED}: x_values has shape {tuple(x.shape)} and y_values {tuple(y.shape)}, expected (items, M) and "
            "(items, N)."
        )
    check_floating(_JAGGED, x, y)
    check_whole(_JAGGED, "x_offsets", offsets)


def _check_dense(x: Tensor, offsets: Tensor, y: Tensor) -> None:
    check_whole(_DENSE, "x_offsets", offsets)
    rows = offsets.shape[0] - 1
    if x.dim() != 2 or y.dim() != 3 or x.shape[1] != y.shape[1] or y.shape[0] != rows:
        raise RuntimeError(
            f"{_DENSE}: x_values has shape {tuple(x.shape)} and y {tuple(y.shape)} for {rows} rows, expected (items, "
            "D) and (rows, D, T)."
        )
    check_floating(_DENSE, x, y)


def _heads(op: str, v: Tensor, a: Tensor, offsets: Tensor) -> tuple[int, int, int]:
    """Rows, heads, and numbers of an item for each head."""
    check_whole(op, "a_offsets", offsets)
    rows = offsets.shape[0] - 1
    if v.dim() != 2 or a.dim() != 2 or (v.shape[0] % rows != 0 if rows > 0 else v.shape[0] != 0):
        raise RuntimeError(
            f"{op}: v has shape {tuple(v.shape)} and a_values {tuple(a.shape)} for {rows} rows, expected "
            "(rows * heads, longest) and (items, heads * width)."
        )
    heads = v.shape[0] // rows if rows > 0 else 1
    if a.shape[1] % heads != 0 if heads else a.shape[1] != 0:
        raise RuntimeError(
            f"{op}: a_values has shape {tuple(a.shape)}, expected (items, heads * width) with {heads} heads: v has "
            f"{v.shape[0]} for {rows} rows."
        )
    check_floating(op, v, a)
    return rows, heads, a.shape[1] // heads if heads else 0


# --- reference ------------------------------------------------------------------------------------


def _jagged_jagged(x: Tensor, y: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    _check_jagged(x, y, offsets)
    longest = max(max_L, 0)
    left, right = one_to_dense(widened(x), offsets, longest), one_to_dense(widened(y), offsets, longest)
    return torch.bmm(left.transpose(1, 2), right).to(x.dtype)


def _jagged_dense(x: Tensor, offsets: Tensor, y: Tensor, max_L: int) -> Tensor:
    _check_dense(x, offsets, y)
    product = torch.bmm(one_to_dense(widened(x), offsets, max(max_L, 0)), widened(y))
    return one_to_jagged(product, offsets, x.shape[0]).to(x.dtype)


def _by_head(a: Tensor, offsets: Tensor, longest: int, rows: int, heads: int, width: int) -> Tensor:
    """(rows * heads, longest, width)."""
    padded = one_to_dense(widened(a), offsets, longest).reshape(rows, longest, heads, width)
    return padded.transpose(1, 2).reshape(rows * heads, longest, width)


def _vectors(v: Tensor, a: Tensor, offsets: Tensor) -> Tensor:
    rows, heads, width = _heads(_VECTORS, v, a, offsets)
    items = _by_head(a, offsets, v.shape[1], rows, heads, width)
    return torch.bmm(widened(v).unsqueeze(1), items).squeeze(1).to(a.dtype)


def _vectors_backward(grad: Tensor, v: Tensor, a: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    rows, heads, width = _heads(f"{_VECTORS}_backward", v, a, offsets)
    longest = v.shape[1]
    if not rows:
        return torch.zeros_like(v), torch.zeros_like(a)
    items = _by_head(a, offsets, longest, rows, heads, width)
    to_v = torch.bmm(items, widened(grad).unsqueeze(2)).squeeze(2).to(v.dtype)
    there = torch.ones(len(a), dtype=torch.int32, device=a.device)
    to_v = to_v * one_to_dense(there, offsets, longest).repeat_interleave(heads, 0)
    flow = (widened(v).unsqueeze(2) * widened(grad).unsqueeze(1)).reshape(rows, heads, longest, width)
    return to_v, one_to_jagged(flow.transpose(1, 2).reshape(rows, longest, heads * width), offsets, len(a)).to(a.dtype)


# --- shape-only twins and gradients ---------------------------------------------------------------


def _fake_jagged(x: Tensor, y: Tensor, offsets: Tensor, max_L: int) -> Tensor:
    _check_jagged(x, y, offsets)
    return x.new_empty((offsets.shape[0] - 1, x.shape[1], y.shape[1]))


def _fake_dense(x: Tensor, offsets: Tensor, y: Tensor, max_L: int) -> Tensor:
    _check_dense(x, offsets, y)
    return x.new_empty((x.shape[0], y.shape[2]))


def _fake_vectors(v: Tensor, a: Tensor, offsets: Tensor) -> Tensor:
    _, _, width = _heads(_VECTORS, v, a, offsets)
    return a.new_empty((v.shape[0], width))


def _fake_vectors_backward(grad: Tensor, v: Tensor, a: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    return v.new_empty(v.shape), a.new_empty(a.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.max_L = inputs[3] if len(inputs) > 3 else 0


def _jagged_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y, offsets = ctx.saved_tensors
    multiply = torch.ops.flambeau_rec.jagged_dense_bmm_forward
    to_x = multiply(y, offsets, grad.transpose(1, 2), ctx.max_L) if ctx.needs_input_grad[0] else None
    to_y = multiply(x, offsets, grad, ctx.max_L) if ctx.needs_input_grad[1] else None
    return to_x, to_y, None, None


def _dense_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, offsets, y = ctx.saved_tensors
    ops = torch.ops.flambeau_rec
    to_x = (
        ops.jagged_dense_bmm_forward(grad, offsets, y.transpose(1, 2), ctx.max_L) if ctx.needs_input_grad[0] else None
    )
    to_y = ops.jagged_jagged_bmm(x, grad, offsets, ctx.max_L) if ctx.needs_input_grad[2] else None
    return to_x, None, to_y, None


def _vectors_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    v, a, offsets = ctx.saved_tensors
    to_v, to_a = OPS.batched_dense_vec_jagged_2d_mul_backward(grad, v, a, offsets)
    return to_v, to_a, None


def _keep_second(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _vectors_second(ctx: Any, to_v: Tensor, to_a: Tensor) -> tuple[Tensor | None, ...]:
    """The first gradients are products too: of `grad` with items, and of `grad` with vectors."""
    grad, v, a, offsets = ctx.saved_tensors
    ops = torch.ops.flambeau_rec
    multiply, back = ops.batched_dense_vec_jagged_2d_mul, ops.batched_dense_vec_jagged_2d_mul_backward
    of_vectors, _ = back(grad, v, to_a, offsets)
    _, of_items = back(grad, to_v, a, offsets)
    return multiply(to_v, a, offsets) + multiply(v, to_a, offsets), of_vectors, of_items, None


# --- registration ---------------------------------------------------------------------------------

register_op(
    "jagged_jagged_bmm(Tensor x_values, Tensor y_values, Tensor x_offsets, int max_L) -> Tensor",
    library=LIBRARY,
    fake=_fake_jagged,
    python=_jagged_jagged,
    triton="flambeau.rec.ops._jagged_triton:jagged_jagged_bmm",
    setup_context=_keep,
    backward=_jagged_gradient,
)
register_op(
    "jagged_dense_bmm_forward(Tensor x_values, Tensor x_offsets, Tensor y, int max_L) -> Tensor",
    library=LIBRARY,
    fake=_fake_dense,
    python=_jagged_dense,
    triton="flambeau.rec.ops._jagged_triton:jagged_dense_bmm",
    setup_context=_keep,
    backward=_dense_gradient,
)
register_op(
    "batched_dense_vec_jagged_2d_mul_backward(Tensor grad_output, Tensor v, Tensor a_values, Tensor a_offsets) "
    "-> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_vectors_backward,
    python=_vectors_backward,
    setup_context=_keep_second,
    backward=_vectors_second,
)
register_op(
    "batched_dense_vec_jagged_2d_mul(Tensor v, Tensor a_values, Tensor a_offsets) -> Tensor",
    library=LIBRARY,
    fake=_fake_vectors,
    python=_vectors,
    setup_context=_keep,
    backward=_vectors_gradient,
)
register_composite(
    "jagged_jagged_bmm_forward(Tensor x_values, Tensor y_values, Tensor x_offsets, int max_L) -> Tensor",
    lambda x, y, offsets, max_L: OPS.jagged_jagged_bmm(x, y, offsets, max_L),
)
register_composite(
    "jagged_dense_bmm(Tensor x_values, Tensor x_offsets, Tensor y, int max_L) -> (Tensor, Tensor)",
    lambda x, offsets, y, max_L: (OPS.jagged_dense_bmm_forward(x, offsets, y, max_L), offsets),
)
register_composite(
    "batched_dense_vec_jagged_2d_mul_forward(Tensor v, Tensor a_values, Tensor a_offsets) -> Tensor",
    lambda v, a, offsets: OPS.batched_dense_vec_jagged_2d_mul(v, a, offsets),
)
