"""Operators on dense tensors: batched products without copies, tables of scalars, the first entries of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.index_select import index_select_dim0

__all__ = ["batched_unary_embeddings", "bottom_k_per_row", "permute102_baddbmm_permute102"]


def permute102_baddbmm_permute102(bias: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """Products of a batch that stands in the middle: `bias[b] + A[:, b] @ B[b]`.

    Args:
        bias: (b, n) float32, float64, float16 or bfloat16.
        A: (m, b, k) of the same dtype.
        B: (b, k, n) of the same dtype.

    Returns:
        (m, b, n) of the same dtype. Gradients flow to all three.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.

    Example:
        >>> permute102_baddbmm_permute102(torch.zeros(1, 1), torch.tensor([[[2.0]], [[3.0]]]), torch.tensor([[[4.0]]]))
        tensor([[[ 8.]],
        <BLANKLINE>
                [[12.]]])
    """
    return OPS.permute102_baddbmm_permute102(bias, A, B)  # type: ignore[no-any-return]


def batched_unary_embeddings(weight: Tensor, table_offsets: Tensor, offsets: Tensor, indices: Tensor) -> Tensor:
    """Sums of scalars that indices stand for, with tables of their own for each task.

    Args:
        weight: (N, rows) or (N, rows, 1), floating: for each of N tasks, T tables one after another.
        table_offsets: (T + 1,) int32 or int64: where each table begins.
        offsets: (T * B + 1,) where each bag begins, table-major.
        indices: (L,) rows of their tables.

    Returns:
        (N, B, T) of the dtype of `weight`. Gradients flow to `weight`.

    Raises:
        RuntimeError: indices that are no rows of any table, offsets that do not fit, other shapes or dtypes.
    """
    return OPS.batched_unary_embeddings(weight, table_offsets, offsets, indices)  # type: ignore[no-any-return]


def bottom_k_per_row(input: Tensor, k_offsets: Tensor, requires_unique: bool) -> Tensor:
    """The first k numbers of each row, with a k of its own.

    Args:
        input: (..., n) int64, R rows.
        k_offsets: (R + 1,) int64: where each row's numbers begin in the result, and where the last end; or (2,): the
            same k for all.
        requires_unique: whether numbers that came before in their row are passed over; those taken are sorted then.

    Returns:
        (last of `k_offsets`,), or for one k (first size, other rows, k).

    Raises:
        RuntimeError: rows that do not have k (different) numbers, other shapes or dtypes.

    Example:
        >>> bottom_k_per_row(torch.tensor([[5, 3, 5, 1], [2, 2, 8, 1]]), torch.tensor([0, 3, 5]), True)
        tensor([1, 3, 5, 2, 8])
    """
    return OPS.bottom_k_per_row(input, k_offsets, requires_unique)  # type: ignore[no-any-return]


def _products(bias: Tensor, A: Tensor, B: Tensor) -> Tensor:
    require(
        bias.dim() == 2 and A.dim() == B.dim() == 3,
        f"permute102_baddbmm_permute102: bias, A and B have shapes {tuple(bias.shape)}, {tuple(A.shape)} and "
        f"{tuple(B.shape)}, expected (b, n), (m, b, k) and (b, k, n).",
    )
    return torch.baddbmm(bias.unsqueeze(1), A.permute(1, 0, 2), B).permute(1, 0, 2)


def _scalars(weight: Tensor, table_offsets: Tensor, offsets: Tensor, indices: Tensor) -> Tensor:
    op = "batched_unary_embeddings"
    for name, tensor in (("table_offsets", table_offsets), ("offsets", offsets), ("indices", indices)):
        require_indices(op, name, tensor)
    tables, bags = table_offsets.shape[0] - 1, offsets.shape[0] - 1
    require(
        weight.dim() in (2, 3) and tables > 0 and bags >= 0 and bags % tables == 0,
        f"{op}: weight has shape {tuple(weight.shape)}, and there are {bags} bags for {tables} tables; expected (N, "
        "rows) or (N, rows, 1), and as many bags for each table.",
    )
    tasks, batch = weight.shape[0], bags // tables
    items = torch.arange(indices.shape[0], device=offsets.device, dtype=offsets.dtype)
    bag = torch.searchsorted(offsets[1:].contiguous(), items, right=True).clamp(max=max(bags - 1, 0))
    row = table_offsets[:-1].long()[bag // max(batch, 1)] + indices
    # Rows of (rows, N): one look-up serves all tasks.
    chosen = index_select_dim0(weight.reshape(tasks, -1).t(), row)
    sums = chosen.new_zeros((bags, tasks)).index_add(0, bag, chosen)
    return sums.view(tables, batch, tasks).permute(2, 1, 0).contiguous()


def _fake_bottom_k(input: Tensor, k_offsets: Tensor, requires_unique: bool) -> Tensor:
    k = torch.library.get_ctx().new_dynamic_size()
    if k_offsets.shape[0] == 2:
        return input.new_empty((input.shape[0], math.prod(input.shape[1:-1]), k))
    return input.new_empty(k)


def _bottom_k(input: Tensor, k_offsets: Tensor, requires_unique: bool) -> Tensor:
    op = "bottom_k_per_row"
    require(
        input.dtype == torch.int64 and input.dim() > 0,
        f"{op}: input has shape {tuple(input.shape)} and dtype {input.dtype}, expected (..., n) of int64.",
    )
    require_indices(op, "k_offsets", k_offsets)
    rows = input.reshape(-1, input.shape[-1])
    single = len(k_offsets) == 2
    counts = k_offsets.diff().tolist() * (len(rows) if single else 1)
    require(
        len(counts) == len(rows) and all(0 <= k <= rows.shape[1] for k in counts),
        f"{op}: input has {len(rows)} rows of {rows.shape[1]} and k_offsets asks for {counts[:8]}; expected one number "
        "for each row, or one for all, of at most as many as a row has.",
    )
    taken = []
    for row, k in zip(rows, counts, strict=True):
        if requires_unique:
            first = sorted(list(dict.fromkeys(row.tolist()))[:k])
            require(len(first) == k, f"{op}: a row has {len(first)} different numbers, expected at least {k}.")
            taken.append(input.new_tensor(first))
        else:
            taken.append(row[:k])
    result = torch.cat(taken) if taken else input.new_empty(0)
    if single and input.dim() > 1:
        return result.view(input.shape[0], math.prod(input.shape[1:-1]), counts[0] if counts else 0)
    return result


register_composite("permute102_baddbmm_permute102(Tensor bias, Tensor A, Tensor B) -> Tensor", _products)
register_composite(
    "batched_unary_embeddings(Tensor weight, Tensor table_offsets, Tensor offsets, Tensor indices) -> Tensor", _scalars
)
register_op(
    "bottom_k_per_row(Tensor input, Tensor k_offsets, bool requires_unique) -> Tensor",
    library=LIBRARY,
    fake=_fake_bottom_k,
    python=_bottom_k,
)
