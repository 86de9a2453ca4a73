"""Features of a sparse batch put into another order, left out or repeated.

A batch is feature-major: lengths of all bags of the first feature, then of the second, ..., and likewise its values.
The native kernel is `native/permute.cpp`: a feature's values are one block, which is copied as a whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["permute_1D_sparse_data", "permute_2D_sparse_data"]


def permute_2D_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Choose features of a batch.

    Args:
        permute: (T',) int32 or int64, the features wanted, in order; any may be left out or repeated.
        lengths: (T, B) int32 or int64: items in each bag, adding up to L.
        values: (L, ...), any dtype: indices of embeddings, or anything else that bags hold.
        weights: (L, ...), or None.
        permuted_lengths_sum: items of the result, for programs that are traced; ignored otherwise.

    Returns:
        Lengths (T', B), values (L', ...) and weights (L', ...) of the features wanted. Gradients flow to floating
        values and weights; those of features that are repeated add up.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, a feature that there is not, lengths that do not add up.

    Example:
        >>> lengths = torch.tensor([[1, 1], [0, 2]])
        >>> permute_2D_sparse_data(torch.tensor([1, 0]), lengths, torch.tensor([7, 8, 1, 2]))[:2]
        (tensor([[0, 2],
                [1, 1]]), tensor([1, 2, 7, 8]))
    """
    return OPS.permute_2D_sparse_data(permute, lengths, values, weights, permuted_lengths_sum)  # type: ignore[no-any-return]


def permute_1D_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Choose bags: as `permute_2D_sparse_data`, with each length for itself.

    Args:
        permute: (N',) int32 or int64.
        lengths: (N,) int32 or int64, adding up to L.
        values: (L, ...), any dtype.
        weights: (L, ...), or None.
        permuted_lengths_sum: items of the result, for programs that are traced; ignored otherwise.

    Returns:
        Lengths (N',), values (L', ...) and weights (L', ...).

    Raises:
        RuntimeError: as for `permute_2D_sparse_data`.
    """
    return OPS.permute_1D_sparse_data(permute, lengths, values, weights, permuted_lengths_sum)  # type: ignore[no-any-return]


_INDICES = (torch.int32, torch.int64)


def _check(op: str, dim: int, permute: Tensor, lengths: Tensor, values: Tensor, weights: Tensor | None) -> None:
    """The same sentences as native/permute.cpp."""
    if permute.dim() != 1 or permute.dtype not in _INDICES:
        raise RuntimeError(
            f"{op}: permute has shape {tuple(permute.shape)} and dtype {permute.dtype}, expected (features,) of int32 "
            "or int64."
        )
    if lengths.dim() != dim or lengths.dtype not in _INDICES:
        expected = "(bags,)" if dim == 1 else "(features, batch)"
        raise RuntimeError(
            f"{op}: lengths has shape {tuple(lengths.shape)} and dtype {lengths.dtype}, expected {expected} of int32 "
            "or int64."
        )
    if values.dim() < 1:
        raise RuntimeError(
            f"{op}: indices has shape {tuple(values.shape)} and dtype {values.dtype}, expected (values, ...)."
        )
    if weights is not None and (weights.dim() < 1 or weights.shape[0] != values.shape[0]):
        raise RuntimeError(
            f"{op}: weights has shape {tuple(weights.shape)}, expected ({values.shape[0]}, ...): one for each value."
        )


def sources(permute: Tensor, lengths: Tensor, count: int | None = None) -> Tensor:
    """(L',) int64: which value of the input each value of the result is; `count` is L' where it is known."""
    per_row = lengths.sum(1) if lengths.dim() == 2 else lengths
    starts = per_row.cumsum(0) - per_row
    order = permute.long()
    counts = per_row[order].long()
    ends = counts.cumsum(0)
    if count is None:
        count = int(ends[-1]) if len(ends) else 0
    shifts = (starts[order] - (ends - counts)).repeat_interleave(counts, output_size=count)
    return torch.arange(count, device=lengths.device) + shifts


def _make(op: str, dim: int) -> None:
    def fake(
        permute: Tensor, lengths: Tensor, values: Tensor, weights: Tensor | None = None, total: Any = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        _check(op, dim, permute, lengths, values, weights)
        count = torch.library.get_ctx().new_dynamic_size() if total is None else total
        new_lengths = lengths.new_empty((permute.shape[0], *lengths.shape[1:]))
        new_weights = None if weights is None else weights.new_empty((count, *weights.shape[1:]))
        return new_lengths, values.new_empty((count, *values.shape[1:])), new_weights

    def reference(
        permute: Tensor, lengths: Tensor, values: Tensor, weights: Tensor | None = None, total: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        _check(op, dim, permute, lengths, values, weights)
        _check_content(op, permute, lengths, values)
        chosen = sources(permute, lengths)
        return lengths[permute.long()], values[chosen], None if weights is None else weights[chosen]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        permute, lengths, values, weights, _ = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(permute, lengths)
        ctx.count, ctx.weighted = values.shape[0], weights is not None

    def backward(
        ctx: Any, _: Tensor, values_grad: Tensor | None, weights_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        count = next((grad.shape[0] for grad in (values_grad, weights_grad) if grad is not None), None)
        if count is None:
            return None, None, None, None, None
        permute, lengths = ctx.saved_tensors
        chosen = sources(permute, lengths, count)

        def back(grad: Tensor | None) -> Tensor | None:
            return None if grad is None else grad.new_zeros((ctx.count, *grad.shape[1:])).index_add(0, chosen, grad)

        # Arguments that were not given are not counted.
        values_wanted, weights_wanted = (*ctx.needs_input_grad[2:], False)[:2]
        wanted = back(values_grad) if values_wanted else None, back(weights_grad) if weights_wanted else None
        return None, None, *wanted, None

    register_op(
        f"{op}(Tensor permute, Tensor lengths, Tensor values, Tensor? weights=None, SymInt? permuted_lengths_sum=None) "
        "-> (Tensor, Tensor, Tensor?)",
        library=LIBRARY,
        fake=fake,
        python=reference,
        setup_context=setup_context,
        backward=backward,
    )


def _check_content(op: str, permute: Tensor, lengths: Tensor, values: Tensor) -> None:
    rows = lengths.shape[0]
    wrong = (permute < 0) | (permute >= rows)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise RuntimeError(
            f"{op}: permute has {int(permute[at])} at {at}, expected 0 to {rows - 1}: there are {rows} features."
        )
    counts = lengths.sum(1) if lengths.dim() == 2 else lengths
    ends = counts.cumsum(0)
    beyond = (counts < 0) | (ends > values.shape[0])
    if bool(beyond.any()):
        at = int(beyond.nonzero()[0])
        raise RuntimeError(
            f"{op}: the lengths of feature {at} end at {int(ends[at])} of {values.shape[0]} values; lengths are not "
            "negative and add up to the number of values."
        )


_make("permute_2D_sparse_data", 2)
_make("permute_1D_sparse_data", 1)
