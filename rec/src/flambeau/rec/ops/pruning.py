"""Tables whose rows were pruned: which rows stay, and indices looked up among them.

Looking up, an index becomes the row that it has after pruning, or -1. The native kernels are in `native/pruning.cpp`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import INDICES, require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = ["embedding_bag_rowwise_prune", "pruned_array_lookup", "pruned_hashmap_insert", "pruned_hashmap_lookup"]


def pruned_array_lookup(
    indices: Tensor, offsets: Tensor, index_remappings: Tensor, index_remappings_offsets: Tensor
) -> Tensor:
    """Look indices up in an array for each table.

    Args:
        indices: (L,) int32 or int64.
        offsets: (T * B + 1,) where each bag begins, table-major.
        index_remappings: the tables' arrays, one after another: at an index, its row, or -1.
        index_remappings_offsets: (T + 1,) where each array begins. Those without entries are of tables that were not
            pruned, whose indices stay.

    Returns:
        (L,) of the dtype of `indices`.

    Raises:
        RuntimeError: an index beyond its array, offsets that do not fit, other shapes or dtypes.

    Example:
        >>> remapping, starts = torch.tensor([0, -1, 1]), torch.tensor([0, 3])
        >>> pruned_array_lookup(torch.tensor([2, 1]), torch.tensor([0, 2]), remapping, starts)
        tensor([ 1, -1])
    """
    return OPS.pruned_array_lookup(indices, offsets, index_remappings, index_remappings_offsets)  # type: ignore[no-any-return]


def pruned_hashmap_insert(
    indices: Tensor, dense_indices: Tensor, offsets: Tensor, hash_table: Tensor, hash_table_offsets: Tensor
) -> None:
    """Put indices into a hash table for each table, by linear probing.

    Args:
        indices: (L,) int32 or int64, not -1.
        dense_indices: (L,) their rows; -1 for those that were pruned, which are not put in.
        offsets: (T * B + 1,) where each bag begins, table-major.
        hash_table: (entries, 2) int32 or int64, -1 where it is free; changed in place.
        hash_table_offsets: (T + 1,) which entries are a table's.

    Raises:
        RuntimeError: no entry is left, other shapes or dtypes.
    """
    OPS.pruned_hashmap_insert(indices, dense_indices, offsets, hash_table, hash_table_offsets)


def pruned_hashmap_lookup(indices: Tensor, offsets: Tensor, hash_table: Tensor, hash_table_offsets: Tensor) -> Tensor:
    """Look indices up in what `pruned_hashmap_insert` made.

    Args:
        indices: (L,) int32 or int64.
        offsets: (T * B + 1,) where each bag begins, table-major.
        hash_table: (entries, 2).
        hash_table_offsets: (T + 1,) which entries are a table's. Those without are of tables that were not pruned.

    Returns:
        (L,) of the dtype of `indices`: rows, -1 for indices that are not there.

    Raises:
        RuntimeError: offsets that do not fit, other shapes or dtypes.
    """
    return OPS.pruned_hashmap_lookup(indices, offsets, hash_table, hash_table_offsets)  # type: ignore[no-any-return]


def embedding_bag_rowwise_prune(
    weight: Tensor,
    indicator: Tensor,
    threshold: float,
    compressed_indices_dtype: torch.dtype,
    abs: bool = True,
    min_num_rows: int = 0,
    min_save_ratio: float | None = 1.0,
) -> tuple[Tensor, Tensor]:
    """Leave out the rows of a table whose indicator is not above a threshold.

    Args:
        weight: (rows, D).
        indicator: (rows,) floating.
        threshold: rows with an indicator above it stay.
        compressed_indices_dtype: int32 or int64, of the remapping.
        abs: whether the size of the indicator counts.
        min_num_rows: at least so many stay, for which the last rows below the threshold are kept.
        min_save_ratio: a table is left as it is where its remapping has this part of its numbers, or more. It is in any
            case where the rows that stay and the remapping have as many numbers as the table.

    Returns:
        The rows that stay (rows', D), and (rows,): the new row of each, -1 for those left out; or the table as it is
        and a remapping that is [0].

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return OPS.embedding_bag_rowwise_prune(  # type: ignore[no-any-return]
        weight, indicator, threshold, compressed_indices_dtype, abs, min_num_rows, min_save_ratio
    )


# --- looking up ----------------------------------------------------------------------------------------------------


def _tables(op: str, indices: Tensor, offsets: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """The table of each index, and whether it is of any bag."""
    for name, tensor in (("indices", indices), ("offsets", offsets), ("the tables' offsets", starts)):
        require_indices(op, name, tensor)
    tables, bags = len(starts) - 1, len(offsets) - 1
    fits = tables >= 0 and bags >= 0 and (bags % tables == 0 if tables else bags == 0)
    require(
        fits and bool(((offsets[:-1] >= 0) & (offsets.diff() >= 0) & (offsets[1:] <= len(indices))).all()),
        f"{op}: offsets has {bags} bags for {tables} tables; expected as many for each table, and offsets that do not "
        f"decrease, from 0 to the {len(indices)} indices.",
    )
    ends = offsets[bags // tables :: bags // tables] if bags else offsets[:0]
    items = torch.arange(len(indices), device=indices.device, dtype=offsets.dtype)
    table = torch.searchsorted(ends.contiguous(), items, right=True)
    return table.clamp(max=max(tables - 1, 0)), (table < tables) & (items >= offsets[0]) & (bags > 0)


def _fake_array(indices: Tensor, offsets: Tensor, remappings: Tensor, starts: Tensor) -> Tensor:
    return indices.new_empty(indices.shape)


def _array(indices: Tensor, offsets: Tensor, remappings: Tensor, starts: Tensor) -> Tensor:
    op = "pruned_array_lookup"
    require_indices(op, "index_remappings", remappings)
    table, inside = _tables(op, indices, offsets, starts)
    if not len(indices) or len(starts) < 2:
        return indices.clone()
    first, last = starts[:-1].long()[table], starts[1:].long()[table]
    pruned = inside & (first < last)
    require((first >= 0) & (last <= len(remappings)), f"{op}: index_remappings_offsets leads beyond index_remappings.")
    stray = pruned & ((indices < 0) | (indices >= last - first))
    require(~stray, f"{op}: indices has one that is no row of its table's array.")
    if not len(remappings):
        return indices.clone()
    found = remappings[torch.where(pruned, first + indices, 0)]
    return torch.where(pruned, found, indices).to(indices.dtype)


def _mixed(key: int, wide: bool) -> int:
    """The finalizers of MurmurHash3 (A. Appleby, public domain): of 64 bits for tables of int64, as upstream."""
    bits, shifts, factors = (
        (64, (33, 33, 33), (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))
        if wide
        else (32, (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35))
    )
    mask = (1 << bits) - 1
    key &= mask
    key = (key ^ key >> shifts[0]) * factors[0] & mask
    key = (key ^ key >> shifts[1]) * factors[1] & mask
    return key ^ key >> shifts[2]


def _probe(pairs: list[list[int]], first: int, last: int, index: int, wide: bool) -> int:
    """The entry of an index, or the free one; -1 where there is none."""
    capacity = last - first
    start = _mixed(index, wide) % capacity
    for tried in range(capacity):
        slot = first + (start + tried) % capacity
        if pairs[slot][0] in (index, -1):
            return slot
    return -1


def _check_hash(op: str, hash_table: Tensor, starts: Tensor) -> None:
    fits = hash_table.dim() == 2 and hash_table.shape[1] == 2 and hash_table.dtype in INDICES and len(starts) > 0
    require(
        fits and bool(((starts[:-1] >= 0) & (starts.diff() >= 0) & (starts[1:] <= len(hash_table))).all()),
        f"{op}: hash_table has shape {tuple(hash_table.shape)} and dtype {hash_table.dtype}, expected (entries, 2) of "
        "int32 or int64, with entries for all of hash_table_offsets.",
    )


def _fake_insert(indices: Tensor, dense: Tensor, offsets: Tensor, hash_table: Tensor, starts: Tensor) -> None:
    return None


def _insert(indices: Tensor, dense: Tensor, offsets: Tensor, hash_table: Tensor, starts: Tensor) -> None:
    op = "pruned_hashmap_insert"
    table, inside = _tables(op, indices, offsets, starts)
    _check_hash(op, hash_table, starts)
    require(
        dense.shape == indices.shape,
        f"{op}: dense_indices has {len(dense)} entries, expected {len(indices)}: one for each index.",
    )
    pairs, bounds = hash_table.tolist(), starts.tolist()
    full = None
    for index, row, owner, used in zip(indices.tolist(), dense.tolist(), table.tolist(), inside.tolist(), strict=True):
        first, last = bounds[owner], bounds[owner + 1]
        if row == -1 or not used or first == last:
            continue
        slot = _probe(pairs, first, last, index, hash_table.dtype == torch.int64)
        if slot < 0:
            full = (
                f"{op}: no entry is left for index {index}; give hash_table more than the {last - first} that its "
                "table has."
            )
            break
        pairs[slot] = [index, row]
    hash_table.copy_(torch.tensor(pairs, dtype=hash_table.dtype).view_as(hash_table))
    require(full is None, full or "")


def _fake_hash(indices: Tensor, offsets: Tensor, hash_table: Tensor, starts: Tensor) -> Tensor:
    return indices.new_empty(indices.shape)


def _hash(indices: Tensor, offsets: Tensor, hash_table: Tensor, starts: Tensor) -> Tensor:
    op = "pruned_hashmap_lookup"
    table, inside = _tables(op, indices, offsets, starts)
    _check_hash(op, hash_table, starts)
    pairs, bounds, found = hash_table.tolist(), starts.tolist(), []
    for index, owner, used in zip(indices.tolist(), table.tolist(), inside.tolist(), strict=True):
        first, last = bounds[owner], bounds[owner + 1]
        if not used or first == last:
            found.append(index)
            continue
        slot = _probe(pairs, first, last, index, hash_table.dtype == torch.int64)
        found.append(pairs[slot][1] if slot >= 0 and pairs[slot][0] != -1 else -1)
    return torch.tensor(found, dtype=indices.dtype, device=indices.device)


# --- pruning -------------------------------------------------------------------------------------------------------


def _fake_prune(
    weight: Tensor,
    indicator: Tensor,
    threshold: float,
    dtype: torch.dtype,
    abs: bool = True,
    min_num_rows: int = 0,
    min_save_ratio: float | None = 1.0,
) -> tuple[Tensor, Tensor]:
    context = torch.library.get_ctx()
    kept, mapped = context.new_dynamic_size(), context.new_dynamic_size()
    return weight.new_empty((kept, weight.shape[1])), weight.new_empty(mapped, dtype=dtype)


def _prune(
    weight: Tensor,
    indicator: Tensor,
    threshold: float,
    dtype: torch.dtype,
    abs: bool = True,
    min_num_rows: int = 0,
    min_save_ratio: float | None = 1.0,
) -> tuple[Tensor, Tensor]:
    op = "embedding_bag_rowwise_prune"
    rows = weight.shape[0] if weight.dim() == 2 else -1
    require(
        rows >= 0 and indicator.shape == (rows,) and indicator.is_floating_point(),
        f"{op}: weight has shape {tuple(weight.shape)} and indicator {tuple(indicator.shape)} of {indicator.dtype}, "
        "expected (rows, D) and (rows,) of a floating dtype.",
    )
    require(dtype in INDICES, f"{op}: compressed_indices_dtype is {dtype}, expected int32 or int64.")
    size = (indicator.abs() if abs else indicator).double()
    stays = size > threshold
    missing = min(min_num_rows, rows) - int(stays.sum())
    if missing > 0:  # Upstream: the last ones, whatever their indicators
        stays[(~stays).nonzero()[-missing:, 0]] = True
    # Upstream: numbers of the table and of the remapping count alike.
    kept, whole = int(stays.sum()) * weight.shape[1], weight.numel()
    if kept + rows >= whole or (min_save_ratio is not None and rows >= min_save_ratio * whole):
        return weight.clone(), torch.zeros(1, dtype=dtype, device=weight.device)
    numbers = torch.where(stays, stays.cumsum(0) - 1, -1).to(dtype)
    return weight[stays], numbers


register_op(
    "pruned_array_lookup(Tensor indices, Tensor offsets, Tensor index_remappings, Tensor index_remappings_offsets) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake_array,
    python=_array,
)
register_op(
    "pruned_hashmap_insert(Tensor indices, Tensor dense_indices, Tensor offsets, Tensor(a!) hash_table, Tensor "
    "hash_table_offsets) -> ()",
    library=LIBRARY,
    fake=_fake_insert,
    python=_insert,
)
register_op(
    "pruned_hashmap_lookup(Tensor indices, Tensor offsets, Tensor hash_table, Tensor hash_table_offsets) -> Tensor",
    library=LIBRARY,
    fake=_fake_hash,
    python=_hash,
)
register_op(
    "embedding_bag_rowwise_prune(Tensor weight, Tensor indicator, float threshold, ScalarType "
    "compressed_indices_dtype, bool abs=True, SymInt min_num_rows=0, float? min_save_ratio=1.) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_prune,
    python=_prune,
)
