"""Pooled features put into another order within one matrix, or twice, as upstream's many spellings have it.

Features lie side by side in the columns of (batch, columns). The native kernel is in `native/columns.cpp`. What
`regroup_keyed_tensor` does for several matrices stands in `keyed`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["permute_duplicate_pooled_embs", "permute_pooled_embs"]


def permute_pooled_embs(
    pooled_embs: Tensor,
    offset_dim_list: Tensor,
    permute_list: Tensor,
    inv_offset_dim_list: Tensor,
    inv_permute_list: Tensor,
) -> Tensor:
    """Put features into another order.

    The spellings with `_auto_grad` and `_split` do the same: there is one kernel, and it has a gradient.

    Args:
        pooled_embs: (B, columns), any dtype.
        offset_dim_list: (features + 1,) int32 or int64: the column that each feature begins at, and where the last
            ends.
        permute_list: (features,): which feature comes first, second, ...
        inv_offset_dim_list: (features + 1,) the same for the result. It follows from the others and is not read.
        inv_permute_list: (features,): the way back. It follows from the others and is not read.

    Returns:
        (B, columns) of the same dtype. Gradients flow to a floating `pooled_embs`.

    Raises:
        RuntimeError: features that there are not, offsets beyond the columns, other shapes or dtypes.

    Example:
        >>> pooled = torch.tensor([[1.0, 2.0, 3.0]])
        >>> permute_pooled_embs(pooled, *map(torch.tensor, ([0, 1, 3], [1, 0], [0, 2, 3], [1, 0])))
        tensor([[2., 3., 1.]])
    """
    return OPS.permute_pooled_embs(  # type: ignore[no-any-return]
        pooled_embs, offset_dim_list, permute_list, inv_offset_dim_list, inv_permute_list
    )


def permute_duplicate_pooled_embs(
    pooled_embs: Tensor,
    offset_dim_list: Tensor,
    permute_list: Tensor,
    inv_offset_dim_list: Tensor,
    inv_permute_list: Tensor,
) -> Tensor:
    """Choose features: as `permute_pooled_embs`, with any left out or repeated.

    Args:
        pooled_embs: (B, columns), any dtype.
        offset_dim_list: (features + 1,) int32 or int64.
        permute_list: (features',): the features wanted.
        inv_offset_dim_list: (features' + 1,) where each begins in the result.
        inv_permute_list: not read.

    Returns:
        (B, columns') of the same dtype. Gradients of features that are repeated add up.

    Raises:
        RuntimeError: as for `permute_pooled_embs`.
    """
    return OPS.permute_duplicate_pooled_embs(  # type: ignore[no-any-return]
        pooled_embs, offset_dim_list, permute_list, inv_offset_dim_list, inv_permute_list
    )


def _check(op: str, pooled: Tensor, starts: Tensor, permute: Tensor, inverse: Tensor, duplicates: bool) -> None:
    """The same sentences as native/columns.cpp."""
    if pooled.dim() != 2:
        raise RuntimeError(
            f"{op}: pooled_embs has shape {tuple(pooled.shape)} and dtype {pooled.dtype}, expected (batch, columns)."
        )
    for name, tensor in (("offset_dim_list", starts), ("permute_list", permute), ("inv_offset_dim_list", inverse)):
        require_indices(op, name, tensor)
    require(
        starts.shape[0] > 0 and (duplicates or starts.shape[0] == permute.shape[0] + 1),
        f"{op}: offset_dim_list has {starts.shape[0]} entries and permute_list {permute.shape[0]}; expected one offset "
        "more than there are groups.",
    )


def _sources(starts: Tensor, permute: Tensor, count: int | None) -> Tensor:
    """(columns',) int64: which column of the input each column of the result is; `count` is how many, where known."""
    order = permute.long()
    widths = starts.diff()[order].long()
    ends = widths.cumsum(0)
    if count is None:
        count = int(ends[-1]) if len(ends) else 0
    shifts = (starts[order] - (ends - widths)).repeat_interleave(widths, output_size=count)
    return torch.arange(count, device=starts.device) + shifts


def _make(op: str, *, duplicates: bool) -> None:
    def fake(pooled: Tensor, starts: Tensor, permute: Tensor, inverse: Tensor, _: Tensor) -> Tensor:
        _check(op, pooled, starts, permute, inverse, duplicates)
        columns = torch.library.get_ctx().new_dynamic_size() if duplicates else pooled.shape[1]
        return pooled.new_empty((pooled.shape[0], columns))

    def reference(pooled: Tensor, starts: Tensor, permute: Tensor, inverse: Tensor, _: Tensor) -> Tensor:
        _check(op, pooled, starts, permute, inverse, duplicates)
        groups = len(starts) - 1
        require(
            bool(((permute >= 0) & (permute < groups)).all())
            and bool(((starts >= 0) & (starts <= pooled.shape[1])).all() & (starts.diff() >= 0).all()),
            f"{op}: permute_list has a feature that is none of {groups}, or one that does not end within "
            f"{pooled.shape[1]} columns.",
        )
        return pooled.index_select(1, _sources(starts, permute, None))

    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pooled, starts, permute, *_ = inputs
        ctx.columns = pooled.shape[1]
        ctx.save_for_backward(starts, permute)

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        back = torch.ops.flambeau_rec.permute_pooled_embs_back
        return back(grad, *ctx.saved_tensors, ctx.columns), None, None, None, None

    register_op(
        f"{op}(Tensor pooled_embs, Tensor offset_dim_list, Tensor permute_list, Tensor inv_offset_dim_list, "
        "Tensor inv_permute_list) -> Tensor",
        library=LIBRARY,
        fake=fake,
        python=reference,
        setup_context=setup_context,
        backward=backward,
    )


def _fake_back(grad: Tensor, starts: Tensor, permute: Tensor, columns: int) -> Tensor:
    return grad.new_empty((grad.shape[0], columns))


def _reference_back(grad: Tensor, starts: Tensor, permute: Tensor, columns: int) -> Tensor:
    sources = _sources(starts, permute, grad.shape[1])
    return grad.new_zeros((grad.shape[0], columns)).index_add_(1, sources, grad)


def _setup_context_back(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])


def _backward_back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    starts, permute = ctx.saved_tensors
    return permute_duplicate_pooled_embs(grad, starts, permute, starts, permute), None, None, None


register_op(
    "permute_pooled_embs_back(Tensor grad, Tensor offset_dim_list, Tensor permute_list, SymInt columns) -> Tensor",
    library=LIBRARY,
    fake=_fake_back,
    python=_reference_back,
    setup_context=_setup_context_back,
    backward=_backward_back,
)
for _base, _duplicates in (("permute_pooled_embs", False), ("permute_duplicate_pooled_embs", True)):
    for _ending in ("", "_split", "_auto_grad", "_auto_grad_split"):
        _make(_base + _ending, duplicates=_duplicates)
