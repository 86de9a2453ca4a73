"""Several features of one batch made dense, each to a length of its own."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import WHOLE
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.jagged_conversion import one_to_dense, one_to_jagged

__all__ = ["stacked_jagged_1d_to_dense", "stacked_jagged_2d_to_dense"]


def stacked_jagged_1d_to_dense(
    values: Tensor, lengths: Tensor, offset_per_key: list[int], max_lengths_per_key: list[int], padding_value: int
) -> list[Tensor]:
    """Make each feature's rows of numbers dense.

    Args:
        values: (L,), any dtype: the items of all features, feature after feature, row after row.
        lengths: (features, rows) int32 or int64.
        offset_per_key: features + 1 numbers: where each feature's items begin, and where the last one's end.
        max_lengths_per_key: of each feature the size of its result's second dimension; longer rows are cut.
        padding_value: what is put where a row has no item.

    Returns:
        For each feature (rows, its max length).

    Raises:
        RuntimeError: shapes, lengths or offsets that do not fit.
    """
    return OPS.stacked_jagged_1d_to_dense(  # type: ignore[no-any-return]
        values, lengths, offset_per_key, max_lengths_per_key, padding_value
    )


def stacked_jagged_2d_to_dense(
    values: Tensor, lengths: Tensor, offset_per_key: list[int], max_lengths_per_key: list[int], padding_value: int = 0
) -> list[Tensor]:
    """Make each feature's rows of vectors dense.

    Args:
        values: (L, D), any dtype.
        lengths: (features, rows) int32 or int64.
        offset_per_key: features + 1 numbers: where each feature's items begin, and where the last one's end.
        max_lengths_per_key: of each feature the size of its result's second dimension; longer rows are cut.
        padding_value: what is put where a row has no item.

    Returns:
        For each feature (rows, its max length, D).

    Raises:
        RuntimeError: shapes, lengths or offsets that do not fit.
    """
    return OPS.stacked_jagged_2d_to_dense(  # type: ignore[no-any-return]
        values, lengths, offset_per_key, max_lengths_per_key, padding_value
    )


def _check(op: str, dims: int, values: Tensor, lengths: Tensor, offsets: list[int], longest: list[int]) -> None:
    if values.dim() != dims:
        expected = "(items,)" if dims == 1 else "(items, width)"
        raise RuntimeError(f"{op}: values has shape {tuple(values.shape)}, expected {expected}.")
    if lengths.dim() != 2 or lengths.dtype not in WHOLE:
        raise RuntimeError(
            f"{op}: lengths has shape {tuple(lengths.shape)} and dtype {lengths.dtype}, expected (features, rows) of "
            "int32 or int64."
        )
    features = lengths.shape[0]
    if len(offsets) != features + 1 or len(longest) != features:
        raise RuntimeError(
            f"{op}: offset_per_key has {len(offsets)} and max_lengths_per_key {len(longest)} entries, expected "
            f"{features + 1} and {features} for {features} features."
        )
    if any(a > b for a, b in zip([0, *offsets], [*offsets, values.shape[0]], strict=True)):
        raise RuntimeError(
            f"{op}: offset_per_key is {offsets}, expected numbers that do not decrease, within the {values.shape[0]} "
            "values."
        )


def _stacked(
    op: str, dims: int, values: Tensor, lengths: Tensor, offsets: list[int], longest: list[int], padding: int = 0
) -> tuple[list[Tensor], list[Tensor]]:
    """Each feature's dense tensor, and the offsets of its rows."""
    _check(op, dims, values, lengths, offsets, longest)
    # One split: its gradient is written once, and not once for each feature.
    sizes = [b - a for a, b in zip([0, *offsets], [*offsets, values.shape[0]], strict=True)]
    parts = values.split_with_sizes(sizes)[1:-1]
    ends = asynchronous_complete_cumsum(lengths).unbind(0)
    return [one_to_dense(*given, padding) for given in zip(parts, ends, longest, strict=True)], list(ends)


def _backward(
    B: int, D: int, total_L: int, grads: list[Tensor], offsets: list[Tensor], offset_per_key: list[int]
) -> Tensor:
    sizes = [b - a for a, b in pairwise(offset_per_key)]
    parts = [one_to_jagged(*given) for given in zip(grads, offsets, sizes, strict=True)]
    first = grads[0] if grads else torch.empty(0, 0, D)
    before, after = (first.new_zeros(n, D) for n in (offset_per_key[0], total_L - offset_per_key[-1]))
    return torch.cat([before, *parts, after])


_GIVEN = "Tensor values, Tensor lengths, int[] offset_per_key, int[] max_lengths_per_key"
register_composite(
    f"stacked_jagged_1d_to_dense({_GIVEN}, int padding_value) -> Tensor[]",
    lambda *given: _stacked("stacked_jagged_1d_to_dense", 1, *given)[0],
)
register_composite(
    f"stacked_jagged_2d_to_dense({_GIVEN}, int padding_value=0) -> Tensor[]",
    lambda *given: _stacked("stacked_jagged_2d_to_dense", 2, *given)[0],
)
register_composite(
    f"stacked_jagged_2d_to_dense_forward({_GIVEN}, int padding_value=0) -> (Tensor[], Tensor[])",
    lambda *given: _stacked("stacked_jagged_2d_to_dense_forward", 2, *given),
)
register_composite(
    "stacked_jagged_2d_to_dense_backward(int B, int D, int total_L, Tensor[] grad_padded_values_per_key, "
    "Tensor[] offsets_tensor_per_key, int[] offset_per_key) -> Tensor",
    _backward,
)
