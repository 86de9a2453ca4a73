"""Gradients of rows that are written rather than trained: of several of a row, the first alone counts."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = [
    "compute_writeback_indices",
    "compute_writeback_indices_dispatch",
    "compute_writeback_indices_first_feature_only",
    "compute_writeback_indices_nobag",
    "writeback_apply_mask",
    "writeback_gradient",
    "writeback_update_gradient",
    "writeback_update_gradient_first_feature_only",
    "writeback_update_gradient_nobag",
]


def writeback_apply_mask(grad: tuple[Tensor], keep_indices: Tensor) -> Tensor:
    """A gradient whose rows are zero, but for some.

    Args:
        grad: of which the first is taken, (N, columns).
        keep_indices: (kept,) rows that stay, or (N,) bool.

    Returns:
        (N, columns), new.
    """
    keep = torch.zeros(grad[0].shape[0], 1, dtype=grad[0].dtype, device=grad[0].device)
    keep[keep_indices] = 1
    return grad[0] * keep


def _firsts(keys: Tensor) -> Tensor:
    """Where each different one comes first, in the order of them."""
    values, order = keys.sort(stable=True)
    first = torch.ones_like(values, dtype=torch.bool)
    first[1:] = values[1:] != values[:-1]
    return order[first]


def compute_writeback_indices(indices: Tensor, offsets: Tensor, feature_table_map: list[int]) -> Tensor:
    """Where each row of each feature comes first.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        feature_table_map: the table of each feature; there are as many features as it has entries.

    Returns:
        Places in `indices`, by feature and row.

    Raises:
        ValueError: there are no whole batches of the features.
    """
    features = len(feature_table_map)
    bags = offsets.numel() - 1
    if not features or bags % features:
        raise OptionError(
            f"offsets has {offsets.numel()} entries for {features} features; expected a multiple and one."
        )
    if not indices.numel():
        return torch.empty(0, dtype=torch.int64, device=indices.device)
    ends = offsets[torch.arange(features + 1, device=offsets.device) * (bags // features)]
    of_feature = torch.repeat_interleave(torch.arange(features, device=indices.device), ends.diff().to(indices.device))
    return _firsts(of_feature * (int(indices.max()) + 1) + indices)


def compute_writeback_indices_first_feature_only(
    indices: Tensor, offsets: Tensor, feature_table_map: list[int]
) -> Tensor:
    """Where each row of the first feature comes first.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        feature_table_map: the table of each feature.

    Returns:
        Places in `indices`, by row.
    """
    batch = (offsets.numel() - 1) // max(len(feature_table_map), 1)
    return _firsts(indices[: int(offsets[batch])])


def compute_writeback_indices_nobag(indices: Tensor, offsets: Tensor, feature_table_map: list[int]) -> Tensor:
    """Where each row of each feature comes first, of look-ups without pooling.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        feature_table_map: the table of each feature.

    Returns:
        Places in `indices`, by feature and row.
    """
    return compute_writeback_indices(indices, offsets, feature_table_map)


def compute_writeback_indices_dispatch(
    indices: Tensor,
    offsets: Tensor,
    feature_table_map: list[int],
    writeback_first_feature_only: bool = False,
    nobag: bool = False,
) -> Tensor:
    """Where rows come first.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        feature_table_map: the table of each feature.
        writeback_first_feature_only: whether those of the first feature alone are wanted.
        nobag: whether rows are not pooled.
    """
    if writeback_first_feature_only:
        return compute_writeback_indices_first_feature_only(indices, offsets, feature_table_map)
    chosen = compute_writeback_indices_nobag if nobag else compute_writeback_indices
    return chosen(indices, offsets, feature_table_map)


def writeback_update_gradient(
    indices: Tensor,
    offsets: Tensor,
    grad: tuple[Tensor],
    feature_table_map: list[int],
    original_index: Tensor | None = None,
) -> Tensor:
    """A gradient in which each row of each feature counts once, where it comes first.

    Args:
        indices: (L,) feature-major, one in each bag.
        offsets: (features * B + 1,).
        grad: (L, columns), the only one.
        feature_table_map: the table of each feature.
        original_index: what `compute_writeback_indices` gave, where that was called already.
    """
    if original_index is None:
        original_index = compute_writeback_indices(indices, offsets, feature_table_map)
    return writeback_apply_mask(grad, original_index)


def writeback_update_gradient_first_feature_only(
    indices: Tensor,
    offsets: Tensor,
    grad: tuple[Tensor],
    feature_table_map: list[int],
    first_indices: Tensor | None = None,
) -> Tensor:
    """A gradient in which an example counts where its row of the first feature comes first.

    Args:
        indices: (L,) feature-major, one in each bag.
        offsets: (features * B + 1,).
        grad: (B, columns of all features), the only one.
        feature_table_map: the table of each feature.
        first_indices: what `compute_writeback_indices_first_feature_only` gave, where that was called already.
    """
    if first_indices is None:
        first_indices = compute_writeback_indices_first_feature_only(indices, offsets, feature_table_map)
    return writeback_apply_mask(grad, first_indices)


def writeback_update_gradient_nobag(
    indices: Tensor,
    offsets: Tensor,
    grad: tuple[Tensor],
    feature_table_map: list[int],
    first_indices: Tensor | None = None,
) -> Tensor:
    """A gradient of look-ups without pooling in which each row of each feature counts once, where it comes first.

    Args:
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        grad: (L, columns), the only one.
        feature_table_map: the table of each feature.
        first_indices: what `compute_writeback_indices_nobag` gave, where that was called already.
    """
    if first_indices is None:
        first_indices = compute_writeback_indices_nobag(indices, offsets, feature_table_map)
    return writeback_apply_mask(grad, first_indices)


def writeback_gradient(
    grad: tuple[Tensor],
    indices: Tensor,
    offsets: Tensor,
    feature_table_map: list[int],
    writeback_first_feature_only: bool = False,
    nobag: bool = False,
    precomputed_indices: Tensor | None = None,
) -> tuple[Tensor]:
    """A gradient in which each row counts once.

    Args:
        grad: of which the first is taken.
        indices: (L,) feature-major.
        offsets: (features * B + 1,).
        feature_table_map: the table of each feature.
        writeback_first_feature_only: whether the rows of the first feature decide for an example.
        nobag: whether rows are not pooled.
        precomputed_indices: what `compute_writeback_indices_dispatch` gave, where that was called already.
    """
    if precomputed_indices is None:
        precomputed_indices = compute_writeback_indices_dispatch(
            indices, offsets, feature_table_map, writeback_first_feature_only, nobag
        )
    return (writeback_apply_mask(grad, precomputed_indices),)
