"""Samples of operators on whole tables: caches, pruning, hashing, training look-ups, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing import Sample
from flambeau.rec.ops._samples._inputs import I32, WHOLE, ends, floats, ints, operator

__all__ = ["GIVEN_UP", "LOOK_UPS", "TRAINING", "table_samples"]

_as_given = partial(operator, dtypes=())


def table_samples() -> Iterator[Sample]:
    """Each operator once."""
    yield from _caches()
    yield from _numbered_rows()
    yield from _pruned()
    yield from _hashed()
    yield from _pooled()
    yield from _facts()
    yield from _trained()


def _caches() -> Iterator[Sample]:
    """Two tables of three and two rows, behind two slots."""
    starts, owners, places, widths = ints([0, 3, 5]), ints([0, 0, 0, 1, 1], I32), ints([0, 12]), ints([0, 4, 8])
    weights, state, cached = floats("weights", 20), ints([[1], [-1]]), floats("cached", 2, 4)
    tables = weights, starts, 5, owners, places
    wanted, times = ints([0, 3, 1]), ints([[0], [0]])
    memory = wanted, state, cached
    yield _as_given("lru_cache_populate", *tables, widths, *memory, 1, times, False)
    yield _as_given("lfu_cache_populate", *tables, widths, *memory, ints([0] * 5), False)
    wide, kinds = (torch.arange(5 * 16) % 251).to(torch.uint8), ints([2, 2], torch.uint8)
    of_bytes = wide, starts, 5, owners, ints([0, 48]), kinds, ints([0, 12, 24])
    slots = wanted, state, torch.zeros(2, 16, dtype=torch.uint8)
    empty = wanted, torch.full_like(state, -1), slots[2]
    yield _as_given("lru_cache_populate_byte", *of_bytes, *empty, 1, times)
    yield _as_given("lfu_cache_populate_byte", *of_bytes, *empty, ints([0] * 5))
    yield _as_given("direct_mapped_lru_cache_populate_byte", *of_bytes, *empty, 1, times, times.clone())
    for name in ("lxu_cache_lookup", "direct_mapped_lxu_cache_lookup"):
        yield operator(name, wanted, state, 5, dtypes=WHOLE)
    yield _as_given("lxu_cache_flush", weights, starts, owners, places, widths, 8, state, cached, False)
    yield _as_given("lxu_cache_locations_update", ints([3, -1, -1], I32), ints([5, 6, -1], I32))
    yield _as_given("lxu_cache_locking_counter_decrement", ints([[2], [1]], I32), ints([0, 0, -1], I32))
    yield operator("lxu_cache_slot", 3, 2, compiles=False)


def _numbered_rows() -> Iterator[Sample]:
    ids = ints([7, 3, 7, 25, 3])
    yield operator("get_unique_indices", ids, 26, True, dtypes=WHOLE)
    yield operator("get_unique_indices_with_inverse", ids, 26, True, True, dtypes=WHOLE)
    rows = ints([3, 4, 1, -1, 2])
    yield operator("linearize_cache_indices", ints([0, 10, 25]), rows, ints([0, 2, 3, 4, 5]), dtypes=WHOLE)
    updated = ints([0, 1, 0]), ints([3, 4, -1])
    yield operator("linearize_cache_indices_from_row_idx", ints([0, -1, 25]), *updated, dtypes=WHOLE)


def _pruned() -> Iterator[Sample]:
    remapped = ints([0, -1, 1, -1]), ints([0, 4, 4])
    yield operator("pruned_array_lookup", ints([0, 3, 2, 1, 1]), ints([0, 2, 3, 4, 5]), *remapped, dtypes=WHOLE)
    free = torch.full((12, 2), -1)
    yield _as_given("pruned_hashmap_insert", ints([5, 9, 100]), ints([0, 1, 2]), ints([0, 3]), free, ints([0, 12]))
    table = free.clone()
    torch.ops.flambeau_rec.pruned_hashmap_insert(ints([5, 9, 100]), ints([0, 1, 2]), ints([0, 3]), table, ints([0, 12]))
    yield operator("pruned_hashmap_lookup", ints([5, 9, 100, 7]), ints([0, 2, 4]), table, ints([0, 12]), dtypes=WHOLE)
    indicator = torch.tensor([0.1, -0.5, 0.3, 0.31, 0.9, 0.0])
    yield operator("embedding_bag_rowwise_prune", floats("weight", 6, 4), indicator, 0.35, I32)
    addresses, uses, begins, sizes = ints([9] * 5), torch.tensor([0.0, 0, 0, 5, 5]), ints([0, 5]), ints([3])
    yield _as_given("init_address_lookup", addresses, begins, sizes)
    assigned = ints([0, 1, 2, 0, 0])
    yield _as_given("prune_embedding_tables", 11, 10, assigned, uses, begins, sizes)
    feature = ints([0], I32), ints([3]), ints([0])
    yield _as_given("remap_indices_update_utils", 0, *feature, ints([2, 4, 2]), assigned, uses, begins)
    yield _as_given("reset_weight_momentum", *_reset())


def _reset() -> tuple[Tensor | int, ...]:
    """Rows of two tables in host memory that were pruned; one of them has a copy in the cache."""
    state = torch.full((1, 32), -1)
    state[0, 3] = 8
    places, starts, memory = ints([2, 2], I32), ints([0, 28]), torch.ones(48)
    momentum = torch.ones(12), torch.ones(0), ints([0, 0], I32), ints([0, 7])
    rows = ints([6, 1]), ints([0, 1, 2]), ints([0, 1]), ints([0, 1])
    head = torch.ones(0), memory, torch.ones(32, 4), places, starts, *momentum, ints([0, 4, 8])
    return *head, *rows, ints([0, 7, 12]), state, 12


def _hashed() -> Iterator[Sample]:
    ids, known = ints([1, 2, 3, 1]), torch.full((8, 1), -1)
    yield _as_given("zero_collision_hash", ids, known, 8, True)
    yield _as_given("place_ids", ids, known, *[None] * 6, 8, -1, False, False, -1, 0, -1, -1)
    yield _as_given("create_zch_buffer", 4, True, None, True)


def _pooled() -> Iterator[Sample]:
    tables, ids, offsets, weights = (
        [floats("a", 6, 4), floats("b", 6, 8)],
        ints([0, 3, 5, 5, 1, 2]),
        ends([2, 0, 3, 1]),
        floats("w", 6),
    )
    options = [1, 0], [0, 2], [2, 2], [0, 1]
    yield operator("pooled_lookup", tables, ids, offsets, weights, *options, ["a", "b"], False)
    gradient, bags = floats("gradient", 2, 12), (ids, offsets, weights)
    yield operator("pooled_lookup_tables_backward", gradient, [6, 6], [4, 8], *bags, *options, False)
    yield operator("pooled_lookup_weights_backward", gradient, tables, *bags, *options, False)
    packed, shapes = floats("packed", 72), ([6, 6], [4, 8])
    yield operator("packed_lookup", packed, *shapes, *bags, *options, ["a", "b"], False, differentiable=(0, 5))
    yield operator("packed_lookup_backward", gradient, *shapes, *bags, *options, False)


def _facts() -> Iterator[Sample]:
    by_rank, flat = ints([[0, 1], [0, 2]]), ints([0, 4, 8])
    metadata = ints([0, 1, 3]), by_rank, ints([0, 4, 12]), flat, -1, False, 2, 26, 3
    yield _as_given("generate_vbe_metadata", *metadata)
    yield _as_given("get_infos_metadata", ints([0]), 3, 2)
    yield _as_given("check_feature_gate_key", "TBE_V2", compiles=False)
    seen = torch.arange(500) // 3
    yield _as_given("tbe_estimate_indices_distribution", seen, compiles=False)
    heavy = torch.tensor([0.3, 0.2], dtype=torch.float64)
    yield _as_given("tbe_generate_indices_from_distribution", heavy, 1.0, 2.0, 9, 20)
    like = torch.zeros(1, dtype=torch.float16)
    for name in ("new_managed_tensor", "new_host_mapped_tensor", "new_vanilla_managed_tensor"):
        yield _as_given(name, like, [2, 3])
    yield _as_given("new_unified_tensor", like, [2, 3], True)
    # torch's compiler has no graph for what gives no tensor.
    for name in ("is_uvm_tensor", "uvm_storage"):
        yield _as_given(name, like, compiles=False)
    for name in ("uvm_to_cpu", "uvm_to_cpu_clone"):
        yield _as_given(name, like)


# ----- look-ups that train --------------------------------------------------------------------------------------------

# How many states each optimizer keeps, and which further ones.
_STATES = {
    "sgd": 0, "adagrad": 1, "rowwise_adagrad": 1, "adam": 2, "partial_rowwise_adam": 2, "lamb": 2,
    "partial_rowwise_lamb": 2, "lars_sgd": 1, "rowwise_adagrad_with_counter": 3,
}  # fmt: skip
_BY_NAMES = {**_STATES, "rowwise_adagrad_with_weight_decay": 1}
_GIVEN_UP = {
    "approx_sgd": 0, "approx_rowwise_adagrad": 1, "approx_rowwise_adagrad_with_weight_decay": 1,
    "approx_rowwise_adagrad_with_counter": 3, "rowwise_weighted_adagrad": 1,
}  # fmt: skip
# What the second form is told in lists: optimizer -> options of each list, in order.
_LISTS: dict[str, tuple[Any, ...]] = {
    "sgd": (), "adagrad": ([1e-3],), "rowwise_adagrad": ([0], [1e-3, 0.0, 0.0]),
    "adam": ([], [1e-3, 0.8, 0.9, 0.1], [False]), "partial_rowwise_adam": ([1e-3, 0.8, 0.9, 0.1],),
    "lamb": ([1e-3, 0.8, 0.9, 0.1],), "partial_rowwise_lamb": ([1e-3, 0.8, 0.9, 0.1],),
    "lars_sgd": ([0.5, 0.7, 0.1],),
    "rowwise_adagrad_with_counter": ([-1, -1, -1, 1, -1, 0, 0], [1e-3, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
    "rowwise_rmsprop_ar": ([1e-3, 0.5, 0.99, 0.1],),
}  # fmt: skip
_NAME = "split_embedding_codegen_lookup_{}_function_{}"
# Names of operators: those that train tables, those that look up by all of these names, and those that are refused.
TRAINING = [_NAME.format(one, "cpu") for one in _BY_NAMES] + [_NAME.format(one, "pt2") for one in _LISTS]
GIVEN_UP = [_NAME.format(one, "cpu") for one in _GIVEN_UP]
LOOK_UPS = [
    *TRAINING, _NAME.format("none", "cpu"), _NAME.format("none", "pt2"), "dense_embedding_codegen_lookup_function",
]  # fmt: skip


def _trained() -> Iterator[Sample]:
    weights, starts, places = floats("weights", 68), ints([0, 28]), ints([3, 3], I32)
    bags = ints([0, 3, 3, 6, 1, 4, 4]), ints([0, 2, 4, 6, 7]), 0, None, None
    tables = ints([0, 4, 12], I32), 12, 8, ints([0, 7, 12]), 4, *bags
    limits = False, 1.0, False
    host = weights, places, starts
    for optimizer, count in {**_BY_NAMES, **_GIVEN_UP}.items():
        states = [part for _ in range(count) for part in (torch.zeros(68), places, starts)]
        yield _as_given(_NAME.format(optimizer, "cpu"), *host, *tables, *limits, *states)
    yield _as_given(_NAME.format("none", "cpu"), *host, *tables, *limits)
    listed = torch.zeros(0), [*host], *tables, 0, [None] * 7, [1, 30, 0], [0.0, 1.0], [False] * 7
    for optimizer, lists in _LISTS.items():
        memory = [[torch.zeros(68), places, starts] for _ in range(_STATES.get(optimizer, 2))]
        yield _as_given(_NAME.format(optimizer, "pt2"), *listed, *memory, torch.tensor(0.1), *lists)
    yield _as_given(_NAME.format("none", "pt2"), *listed, [0])
    yield operator("dense_embedding_codegen_lookup_function", weights, starts, *tables, dtypes=())
