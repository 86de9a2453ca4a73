"""Distinct indices, with as much about them as is asked for."""

from __future__ import annotations

from torch import Tensor

from flambeau.rec.ops.cache_indices import get_unique_indices, get_unique_indices_with_inverse

__all__ = ["get_unique_indices_v2"]


def get_unique_indices_v2(
    linear_indices: Tensor, max_indices: int, compute_count: bool = False, compute_inverse_indices: bool = False
) -> tuple[Tensor, ...]:
    """Distinct indices in ascending order.

    Args:
        linear_indices: (L,) int32 or int64.
        max_indices: above all of them.
        compute_count: whether to say how often each occurs.
        compute_inverse_indices: whether to say where indices stood, in ascending order of the indices.

    Returns:
        Indices (L,), those behind the last being 0; how many there are (1,) int32; with `compute_count` how often each
        occurs (L,) int32; with `compute_inverse_indices` places (L,) int32.
    """
    found: tuple[Tensor | None, ...]
    if not compute_inverse_indices:
        found = get_unique_indices(linear_indices, max_indices, compute_count)
    else:
        found = get_unique_indices_with_inverse(linear_indices, max_indices, compute_count, True)
    return tuple(one for one in found if one is not None)
