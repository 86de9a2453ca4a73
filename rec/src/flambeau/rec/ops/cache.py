"""Rows of tables in host memory cached on a device: sets of slots, of which the least recently or least often used
goes.

A row with the number i among all cached rows may lie in any slot of set hash(i) % sets. `lxu_cache_state` (sets, ways)
has the number of the row in each slot, -1 where it is free; `lxu_cache_weights` (sets * ways, D) the rows. Everything
is plain torch, so that it runs where the tensors are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._cache_rows import Rows, RowsOfBytes, Tables, WholeRows
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.hashing import finished

__all__ = ["lxu_cache_lookup", "lxu_cache_slot"]

MISSING = -1

# What is counted in `uvm_cache_stats`.
CALLS, REQUESTED, UNIQUE, UNIQUE_MISSES, CONFLICT_UNIQUE_MISSES, CONFLICT_MISSES = range(6)


def lxu_cache_slot(h_in: int, C: int) -> int:
    """The set, of `C`, that a row with the number `h_in` may lie in."""
    return OPS.lxu_cache_slot(h_in, C)  # type: ignore[no-any-return]


def lxu_cache_lookup(
    linear_cache_indices: Tensor,
    lxu_cache_state: Tensor,
    invalid_index: int = -1,
    gather_cache_stats: bool = False,
    uvm_cache_stats: Tensor | None = None,
    num_uniq_cache_indices: Tensor | None = None,
    lxu_cache_locations_output: Tensor | None = None,
) -> Tensor:
    """Find rows in the cache.

    Args:
        linear_cache_indices: (L,) int32 or int64, numbers of rows, see `linearize_cache_indices`.
        lxu_cache_state: (sets, ways) int64.
        invalid_index: a number that is not looked for.
        gather_cache_stats: whether to count rows that are not there.
        uvm_cache_stats: (6,) int32; changed in place.
        num_uniq_cache_indices: (1,): only so many indices are looked for.
        lxu_cache_locations_output: (L,) int32, takes the result as well.

    Returns:
        (L,) int32: set times ways plus way, -1 for rows that are not there.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return OPS.lxu_cache_lookup(  # type: ignore[no-any-return]
        linear_cache_indices, lxu_cache_state, invalid_index, gather_cache_stats, uvm_cache_stats,
        num_uniq_cache_indices, lxu_cache_locations_output,
    )  # fmt: skip


def sets_of(indices: Tensor, count: int) -> Tensor:
    """(L,) int64: the set of each row, its hash read without a sign."""
    key = finished(indices.long())
    half = ((key >> 1) & 0x7FFFFFFFFFFFFFFF) % count
    return (half * 2 + (key & 1)) % count


# --- finding -------------------------------------------------------------------------------------------------------


def _find(indices: Tensor, state: Tensor) -> Tensor:
    """(L,) int64: the location of each row, -1 where it is not there."""
    sets = sets_of(indices, state.shape[0])
    hits = state[sets] == indices.long()[:, None]
    location = sets * state.shape[1] + hits.int().argmax(1)
    return torch.where(hits.any(1), location, MISSING)


def _fake_lookup(indices: Tensor, state: Tensor, *_: Any) -> Tensor:
    require_indices("lxu_cache_lookup", "linear_cache_indices", indices)
    return indices.new_empty(indices.shape, dtype=torch.int32)


def _lookup(
    indices: Tensor,
    state: Tensor,
    invalid: int = -1,
    gather: bool = False,
    stats: Tensor | None = None,
    number: Tensor | None = None,
    output: Tensor | None = None,
) -> Tensor:
    require_indices("lxu_cache_lookup", "linear_cache_indices", indices)
    require(
        state.dim() == 2 and state.shape[0] > 0,
        f"lxu_cache_lookup: lxu_cache_state has shape {tuple(state.shape)}, expected (sets, ways).",
    )
    wanted = indices != invalid
    if number is not None:
        wanted &= torch.arange(len(indices), device=indices.device) < number
    found = torch.where(wanted, _find(indices, state), MISSING)
    if gather and stats is not None:
        stats[CONFLICT_MISSES] += (wanted & (found == MISSING)).sum()
    if output is not None:
        output.copy_(found)
    return found.int()


def _direct_lookup(
    indices: Tensor, state: Tensor, invalid: int = -1, gather: bool = False, stats: Tensor | None = None
) -> Tensor:
    require(
        state.dim() == 2 and state.shape[1] == 1,
        f"direct_mapped_lxu_cache_lookup: lxu_cache_state has shape {tuple(state.shape)}, expected (sets, 1).",
    )
    return _lookup(indices, state, invalid, gather, stats)


def _slot(h_in: int, C: int) -> int:
    require(C > 0, f"lxu_cache_slot: C is {C}, expected at least one set.")
    return int(sets_of(torch.tensor([h_in]), C))


def _fake_nothing(*_: Any) -> None:
    return None


def _update(locations: Tensor, new: Tensor, number: Tensor | None = None) -> None:
    changes = (locations == MISSING) & (new != MISSING)
    if number is not None:
        changes &= torch.arange(len(locations), device=locations.device) < number
    locations.copy_(torch.where(changes, new, locations))


def _unlock(counter: Tensor, locations: Tensor) -> None:
    used = locations[locations != MISSING].long().unique()
    counter.view(-1).index_add_(0, used, torch.full_like(used, -1).to(counter.dtype))


def _flush(
    uvm_weights: Tensor,
    starts: Tensor,
    table_map: Tensor,
    weights_offsets: Tensor,
    D_offsets: Tensor,
    total_D: int,
    state: Tensor,
    cached: Tensor,
    stochastic_rounding: bool,
) -> None:
    slots = (state.view(-1) != MISSING).nonzero()[:, 0]
    rows = WholeRows(Tables(starts, table_map, weights_offsets), uvm_weights, D_offsets, cached)
    rows.write_back(state.view(-1)[slots], slots)


# --- filling -------------------------------------------------------------------------------------------------------


def _put_in(rows: Rows, state: Tensor, missing: Tensor, ages: Tensor, blocked: Tensor) -> tuple[Tensor, Tensor]:
    """Give rows that are not there a slot of their set, the oldest first.

    Args:
        rows: what moves them.
        state: (sets, ways); changed in place.
        missing: numbers of distinct rows, the most wanted first.
        ages: (sets, ways), the smallest goes first.
        blocked: (sets, ways) bool: slots that nothing may be put into.

    Returns:
        Numbers of the rows that were put in, and their slots.
    """
    sets = sets_of(missing, state.shape[0])
    order = sets.argsort(stable=True)
    missing, sets = missing[order], sets[order]
    places = torch.arange(len(sets), device=sets.device)
    rank = places - torch.searchsorted(sets, sets)
    free_first = torch.where(state == MISSING, torch.iinfo(torch.int64).min, ages.long())
    ways = torch.where(blocked, torch.iinfo(torch.int64).max, free_first).argsort(dim=1, stable=True)
    fits = rank < (~blocked).sum(1)[sets]
    missing, sets, rank = missing[fits], sets[fits], rank[fits]
    slots = sets * state.shape[1] + ways[sets, rank]
    flat = state.view(-1)
    leaving = flat[slots]
    occupied = leaving != MISSING
    rows.write_back(leaving[occupied], slots[occupied])
    rows.read(missing, slots)
    flat[slots] = missing
    return missing, slots


def _lru(
    rows: Rows,
    indices: Tensor,
    total: int,
    state: Tensor,
    time_stamp: int,
    lru_state: Tensor,
    gather: bool,
    stats: Tensor | None,
    locks: Tensor | None = None,
    lock: bool = False,
) -> None:
    valid = indices[(indices >= 0) & (indices < total)].long()
    unique = valid.unique()
    locations = _find(unique, state)
    there, absent = locations[locations != MISSING], unique[locations == MISSING]
    times = lru_state.view(-1)
    times[there] = time_stamp
    blocked = lru_state == time_stamp
    if locks is not None:
        blocked = blocked | (locks.view_as(lru_state) > 0)
    put, slots = _put_in(rows, state, absent, lru_state, blocked)
    times[slots] = time_stamp
    if lock and locks is not None:
        used = torch.cat([there, slots])
        locks.view(-1).index_add_(0, used, torch.ones_like(used).to(locks.dtype))
    if gather and stats is not None:
        conflicts = len(absent) - len(put)
        for place, number in zip(
            (CALLS, REQUESTED, UNIQUE, UNIQUE_MISSES, CONFLICT_UNIQUE_MISSES),
            (1, len(indices), len(unique), len(absent), conflicts),
            strict=True,
        ):
            stats[place] += number


def _lru_populate(
    weights: Tensor, starts: Tensor, total: int, table_map: Tensor, weights_offsets: Tensor, D_offsets: Tensor,
    indices: Tensor, state: Tensor, cached: Tensor, time_stamp: int, lru_state: Tensor, stochastic_rounding: bool,
    gather: bool = False, stats: Tensor | None = None, lock: bool = False, locks: Tensor | None = None,
) -> None:  # fmt: skip
    rows = WholeRows(Tables(starts, table_map, weights_offsets), weights, D_offsets, cached)
    _lru(rows, indices, total, state, time_stamp, lru_state, gather, stats, locks, lock)


def _lru_populate_byte(
    weights: Tensor, starts: Tensor, total: int, table_map: Tensor, weights_offsets: Tensor, weights_tys: Tensor,
    D_offsets: Tensor, indices: Tensor, state: Tensor, cached: Tensor, time_stamp: int, lru_state: Tensor,
    row_alignment: int = 16, gather: bool = False, stats: Tensor | None = None,
) -> None:  # fmt: skip
    tables = Tables(starts, table_map, weights_offsets)
    rows = RowsOfBytes(tables, weights, weights_tys, D_offsets, cached, row_alignment)
    _lru(rows, indices, total, state, time_stamp, lru_state, gather, stats)


def _direct_populate_byte(
    weights: Tensor, starts: Tensor, total: int, table_map: Tensor, weights_offsets: Tensor, weights_tys: Tensor,
    D_offsets: Tensor, indices: Tensor, state: Tensor, cached: Tensor, time_stamp: int, lru_state: Tensor,
    miss_timestamp: Tensor, row_alignment: int = 16, gather: bool = False, stats: Tensor | None = None,
) -> None:  # fmt: skip
    tables = Tables(starts, table_map, weights_offsets)
    rows = RowsOfBytes(tables, weights, weights_tys, D_offsets, cached, row_alignment)
    valid = indices[(indices >= 0) & (indices < total)].long().unique()
    missed = valid[_find(valid, state) == MISSING]
    # Of the rows that miss one slot, a second one in the same batch waits: it only leaves its time.
    miss_timestamp.view(-1)[sets_of(missed, state.shape[0])] = time_stamp
    _lru(rows, indices, total, state, time_stamp, lru_state, gather, stats)


def _lfu(rows: Rows, indices: Tensor, total: int, state: Tensor, lfu_state: Tensor) -> None:
    valid = indices[(indices >= 0) & (indices < total)].long()
    unique, counts = valid.unique(return_counts=True)
    lfu_state[unique] += counts.to(lfu_state.dtype)
    absent = unique[_find(unique, state) == MISSING]
    used = torch.where(state == MISSING, 0, lfu_state[state.clamp(min=0)].long())
    # A row goes in only where it is used more often than the one that goes.
    absent = absent[lfu_state[absent].argsort(descending=True, stable=True)]
    ways = torch.where(state == MISSING, -1, used)
    sets = sets_of(absent, state.shape[0])
    order = sets.argsort(stable=True)
    sorted_sets, wanted = sets[order], absent[order]
    rank = torch.arange(len(wanted), device=wanted.device) - torch.searchsorted(sorted_sets, sorted_sets)
    least = ways.sort(1).values
    fits = rank < state.shape[1]
    rank, wanted, sorted_sets = rank[fits], wanted[fits], sorted_sets[fits]
    wins = lfu_state[wanted].long() > least[sorted_sets, rank]
    _put_in(rows, state, wanted[wins], used, torch.zeros_like(state, dtype=torch.bool))


def _lfu_populate(
    weights: Tensor, starts: Tensor, total: int, table_map: Tensor, weights_offsets: Tensor, D_offsets: Tensor,
    indices: Tensor, state: Tensor, cached: Tensor, lfu_state: Tensor, stochastic_rounding: bool,
) -> None:  # fmt: skip
    rows = WholeRows(Tables(starts, table_map, weights_offsets), weights, D_offsets, cached)
    _lfu(rows, indices, total, state, lfu_state)


def _lfu_populate_byte(
    weights: Tensor, starts: Tensor, total: int, table_map: Tensor, weights_offsets: Tensor, weights_tys: Tensor,
    D_offsets: Tensor, indices: Tensor, state: Tensor, cached: Tensor, lfu_state: Tensor, row_alignment: int = 16,
) -> None:  # fmt: skip
    tables = Tables(starts, table_map, weights_offsets)
    rows = RowsOfBytes(tables, weights, weights_tys, D_offsets, cached, row_alignment)
    _lfu(rows, indices, total, state, lfu_state)


register_op(
    "lxu_cache_lookup(Tensor linear_cache_indices, Tensor lxu_cache_state, int invalid_index=-1, bool "
    "gather_cache_stats=False, Tensor(a!)? uvm_cache_stats=None, Tensor? num_uniq_cache_indices=None, Tensor(b!)? "
    "lxu_cache_locations_output=None) -> Tensor",
    library=LIBRARY,
    fake=_fake_lookup,
    python=_lookup,
)
register_op(
    "direct_mapped_lxu_cache_lookup(Tensor linear_cache_indices, Tensor lxu_cache_state, int invalid_index=-1, bool "
    "gather_cache_stats=False, Tensor(a!)? uvm_cache_stats=None) -> Tensor",
    library=LIBRARY,
    fake=_fake_lookup,
    python=_direct_lookup,
)
register_composite("lxu_cache_slot(int h_in, int C) -> int", _slot)

_PLACES = "Tensor cache_index_table_map, Tensor weights_offsets"
_HASHED = f"Tensor weights, Tensor hash_size_cumsum, int total_cache_hash_size, {_PLACES}"
_CACHED = f"Tensor weights, Tensor cache_hash_size_cumsum, int total_cache_hash_size, {_PLACES}"
_BYTES = "Tensor weights_tys, Tensor D_offsets, Tensor linear_cache_indices"
_STATE = "Tensor(a!) lxu_cache_state, Tensor(b!) lxu_cache_weights"
_FUNCTIONS: dict[str, Callable[..., None]] = {
    "lxu_cache_locations_update(Tensor(a!) lxu_cache_locations, Tensor lxu_cache_locations_new, Tensor? "
    "num_uniq_cache_indices=None) -> ()": _update,
    "lxu_cache_locking_counter_decrement(Tensor(a!) lxu_cache_locking_counter, Tensor lxu_cache_locations) "
    "-> ()": _unlock,
    f"lxu_cache_flush(Tensor(a!) uvm_weights, Tensor cache_hash_size_cumsum, {_PLACES}, Tensor D_offsets, int total_D, "
    "Tensor(b!) lxu_cache_state, Tensor(c!) lxu_cache_weights, bool stochastic_rounding) -> ()": _flush,
    # Rows that leave are written back, which upstream's schema does not say.
    f"lru_cache_populate({_HASHED.replace('Tensor weights,', 'Tensor(f!) weights,')}, Tensor D_offsets, Tensor "
    f"linear_cache_indices, {_STATE}, int time_stamp, Tensor(c!) lru_state, bool stochastic_rounding, bool "
    "gather_cache_stats=False, Tensor(d!)? uvm_cache_stats=None, bool lock_cache_line=False, Tensor(e!)? "
    "lxu_cache_locking_counter=None) -> ()": _lru_populate,
    f"lru_cache_populate_byte({_HASHED}, {_BYTES}, {_STATE}, int time_stamp, Tensor(c!) lru_state, int "
    "row_alignment=16, bool gather_cache_stats=False, Tensor(d!)? uvm_cache_stats=None) -> ()": _lru_populate_byte,
    f"direct_mapped_lru_cache_populate_byte({_HASHED}, {_BYTES}, {_STATE}, int time_stamp, Tensor(c!) lru_state, "
    "Tensor(d!) lxu_cache_miss_timestamp, int row_alignment=16, bool gather_cache_stats=False, Tensor(e!)? "
    "uvm_cache_stats=None) -> ()": _direct_populate_byte,
    f"lfu_cache_populate({_CACHED.replace('Tensor weights,', 'Tensor(f!) weights,')}, Tensor D_offsets, Tensor "
    f"linear_cache_indices, {_STATE}, Tensor(c!) lfu_state, bool stochastic_rounding) -> ()": _lfu_populate,
    f"lfu_cache_populate_byte({_CACHED}, {_BYTES}, {_STATE}, Tensor(c!) lfu_state, int row_alignment=16) -> ()": (
        _lfu_populate_byte
    ),
}
for _schema, _function in _FUNCTIONS.items():
    register_op(_schema, library=LIBRARY, fake=_fake_nothing, python=_function)
