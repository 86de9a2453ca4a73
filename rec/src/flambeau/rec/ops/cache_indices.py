"""Indices of many tables made those of one cache, and the distinct ones among them.

A table that is cached has its rows numbered from `cache_hash_size_cumsum[t]` on; all others, which have -1 there, share
the number behind the last, `cache_hash_size_cumsum[-1]`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "get_unique_indices",
    "get_unique_indices_with_inverse",
    "linearize_cache_indices",
    "linearize_cache_indices_from_row_idx",
]


def linearize_cache_indices(
    cache_hash_size_cumsum: Tensor,
    indices: Tensor,
    offsets: Tensor,
    B_offsets: Tensor | None = None,
    max_B: int = -1,
    indices_base_offset: int = 0,
) -> Tensor:
    """Number the rows that a batch looks up through all cached tables.

    Args:
        cache_hash_size_cumsum: (T + 1,) int64, see the module.
        indices: (L,) int32 or int64; negative ones were pruned, and get the number behind the last.
        offsets: (T * B + 1,) where each bag begins, table-major.
        B_offsets: (T + 1,) which bags are a table's, where tables have batches of their own.
        max_B: the largest of these. A hint that is not needed here.
        indices_base_offset: how many indices of the batch stand before those given.

    Returns:
        (L,) of the dtype of `indices`.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.

    Example:
        >>> starts, indices = torch.tensor([0, 10, 25]), torch.tensor([3, 4, 1])
        >>> linearize_cache_indices(starts, indices, torch.tensor([0, 2, 3]))
        tensor([ 3,  4, 11])
    """
    return OPS.linearize_cache_indices(  # type: ignore[no-any-return]
        cache_hash_size_cumsum, indices, offsets, B_offsets, max_B, indices_base_offset
    )


def linearize_cache_indices_from_row_idx(
    cache_hash_size_cumsum: Tensor, update_table_indices: Tensor, update_row_indices: Tensor
) -> Tensor:
    """Number rows through all cached tables.

    Args:
        cache_hash_size_cumsum: (T + 1,) int64, see the module.
        update_table_indices: (L,) the table of each row.
        update_row_indices: (L,) the rows; negative ones get the number behind the last.

    Returns:
        (L,) of the dtype of `update_row_indices`.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    """
    return OPS.linearize_cache_indices_from_row_idx(  # type: ignore[no-any-return]
        cache_hash_size_cumsum, update_table_indices, update_row_indices
    )


def get_unique_indices(
    linear_indices: Tensor, max_indices: int, compute_count: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Distinct indices in ascending order.

    Args:
        linear_indices: (L,) int32 or int64.
        max_indices: above all of them. A hint that is not needed here.
        compute_count: whether to say how often each occurs.

    Returns:
        Indices (L,), those behind the last being 0; how many there are (1,) int32; how often each occurs (L,) int32.

    Raises:
        RuntimeError: another shape or dtype.
    """
    return OPS.get_unique_indices(linear_indices, max_indices, compute_count)  # type: ignore[no-any-return]


def get_unique_indices_with_inverse(
    linear_indices: Tensor, max_indices: int, compute_count: bool, compute_inverse_indices: bool = False
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """`get_unique_indices`, and with `compute_inverse_indices` (L,) int32: where the smallest index stood, the next,
    ...

    Equal indices follow one another as they stood.
    """
    return OPS.get_unique_indices_with_inverse(  # type: ignore[no-any-return]
        linear_indices, max_indices, compute_count, compute_inverse_indices
    )


def _linear(starts: Tensor, tables: Tensor, rows: Tensor) -> Tensor:
    begin = starts.to(torch.int64)[tables]
    return torch.where((begin >= 0) & (rows >= 0), begin + rows, starts[-1]).to(rows.dtype)


def _fake(
    starts: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag_offsets: Tensor | None = None,
    max_bags: int = -1,
    base: int = 0,
) -> Tensor:
    op = "linearize_cache_indices"
    for name, tensor in (("cache_hash_size_cumsum", starts), ("indices", indices), ("offsets", offsets)):
        require_indices(op, name, tensor)
    return indices.new_empty(indices.shape)


def _linearize(
    starts: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag_offsets: Tensor | None = None,
    max_bags: int = -1,
    base: int = 0,
) -> Tensor:
    _fake(starts, indices, offsets)
    tables, bags = len(starts) - 1, len(offsets) - 1
    if bag_offsets is None:
        require(
            tables > 0 and bags >= 0 and bags % tables == 0,
            f"linearize_cache_indices: offsets has {bags} bags for {tables} tables; expected as many for each.",
        )
        first_bags = torch.arange(tables + 1, device=offsets.device) * (bags // tables)
    else:
        require(
            len(bag_offsets) == tables + 1,
            f"linearize_cache_indices: B_offsets has {len(bag_offsets)} entries, expected one more than the {tables} "
            "tables.",
        )
        first_bags = bag_offsets.long()
    ends = offsets[first_bags[1:]].contiguous()
    places = torch.arange(base, base + len(indices), device=indices.device, dtype=ends.dtype)
    table = torch.searchsorted(ends, places, right=True).clamp(max=tables - 1)
    return _linear(starts, table, indices)


def _fake_rows(starts: Tensor, tables: Tensor, rows: Tensor) -> Tensor:
    for name, tensor in (("update_table_indices", tables), ("update_row_indices", rows)):
        require_indices("linearize_cache_indices_from_row_idx", name, tensor)
    return rows.new_empty(rows.shape)


def _linearize_rows(starts: Tensor, tables: Tensor, rows: Tensor) -> Tensor:
    _fake_rows(starts, tables, rows)
    return _linear(starts, tables.long(), rows)


def _fake_unique(indices: Tensor, limit: int, count: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    require_indices("get_unique_indices", "linear_indices", indices)
    counts = indices.new_empty(indices.shape, dtype=torch.int32) if count else None
    return indices.new_empty(indices.shape), indices.new_empty(1, dtype=torch.int32), counts


def _unique(indices: Tensor, limit: int, count: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    require_indices("get_unique_indices", "linear_indices", indices)
    return _distinct(indices.sort().values, count)


def _distinct(ordered: Tensor, count: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of indices in ascending order; without knowing how many there are, so that no device is waited for."""
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    group = begins.cumsum(0) - 1
    unique = torch.zeros_like(ordered).scatter_(0, group, ordered)
    counts = torch.zeros_like(ordered, dtype=torch.int32).index_add_(0, group, torch.ones_like(ordered).int())
    number = begins.sum(dtype=torch.int32).reshape(1)
    return unique, number, counts if count else None


def _fake_inverse(
    indices: Tensor, limit: int, count: bool, inverse: bool = False
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    found = _fake_unique(indices, limit, count)
    return *found, indices.new_empty(indices.shape, dtype=torch.int32) if inverse else None


def _unique_inverse(
    indices: Tensor, limit: int, count: bool, inverse: bool = False
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    require_indices("get_unique_indices", "linear_indices", indices)
    ordered, places = indices.sort(stable=True)
    return *_distinct(ordered, count), places.int() if inverse else None


register_op(
    "linearize_cache_indices(Tensor cache_hash_size_cumsum, Tensor indices, Tensor offsets, Tensor? B_offsets=None, "
    "int max_B=-1, int indices_base_offset=0) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_linearize,
)
register_op(
    "linearize_cache_indices_from_row_idx(Tensor cache_hash_size_cumsum, Tensor update_table_indices, Tensor "
    "update_row_indices) -> Tensor",
    library=LIBRARY,
    fake=_fake_rows,
    python=_linearize_rows,
)
register_op(
    "get_unique_indices(Tensor linear_indices, int max_indices, bool compute_count) -> (Tensor, Tensor, Tensor?)",
    library=LIBRARY,
    fake=_fake_unique,
    python=_unique,
)
register_op(
    "get_unique_indices_with_inverse(Tensor linear_indices, int max_indices, bool compute_count, bool "
    "compute_inverse_indices=False) -> (Tensor, Tensor, Tensor?, Tensor?)",
    library=LIBRARY,
    fake=_fake_inverse,
    python=_unique_inverse,
)
