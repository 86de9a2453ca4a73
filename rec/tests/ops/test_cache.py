"""The cache of embedding rows: what is looked up is there afterwards, and what leaves is written back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau.rec.ops.cache  # noqa: F401 registers the operators

OPS = torch.ops.flambeau_rec
ROWS, WIDTHS, WAYS = (10, 6), (4, 2), 2


class Cached:
    """Two tables with a small cache."""

    def __init__(self, sets: int, ways: int = WAYS) -> None:
        self.starts = torch.tensor([0, ROWS[0], sum(ROWS)])
        self.table_map = torch.tensor([0] * ROWS[0] + [1] * ROWS[1], dtype=torch.int32)
        self.offsets = torch.tensor([0, ROWS[0] * WIDTHS[0]])
        self.columns = torch.tensor([0, WIDTHS[0], sum(WIDTHS)])
        self.weights = torch.arange(float(ROWS[0] * WIDTHS[0] + ROWS[1] * WIDTHS[1]))
        self.state = torch.full((sets, ways), -1)
        self.rows = torch.zeros(sets * ways, max(WIDTHS))
        self.times = torch.zeros(sets, ways, dtype=torch.int64)
        self.uses = torch.zeros(sum(ROWS), dtype=torch.int64)
        self.stats = torch.zeros(6, dtype=torch.int32)
        self.locks = torch.zeros(sets, ways, dtype=torch.int32)

    @property
    def tables(self) -> tuple[torch.Tensor | int, ...]:
        return self.weights, self.starts, sum(ROWS), self.table_map, self.offsets, self.columns

    def lru(self, ids: list[int], time: int, *, lock: bool = False) -> None:
        OPS.lru_cache_populate(
            *self.tables, torch.tensor(ids), self.state, self.rows, time, self.times, False, True, self.stats, lock,
            self.locks,
        )  # fmt: skip

    def lfu(self, ids: list[int]) -> None:
        OPS.lfu_cache_populate(*self.tables, torch.tensor(ids), self.state, self.rows, self.uses, False)

    def find(self, ids: list[int]) -> list[int]:
        return OPS.lxu_cache_lookup(torch.tensor(ids), self.state, sum(ROWS)).tolist()

    def flush(self) -> None:
        OPS.lxu_cache_flush(
            self.weights, self.starts, self.table_map, self.offsets, self.columns, 6, self.state, self.rows, False
        )

    def row(self, number: int) -> torch.Tensor:
        """Of the tables in host memory."""
        table = int(self.table_map[number])
        begin = int(self.offsets[table]) + (number - int(self.starts[table])) * WIDTHS[table]
        return self.weights[begin : begin + WIDTHS[table]]


IDS = st.lists(st.integers(0, sum(ROWS) - 1), min_size=1, max_size=8)


@given(st.lists(IDS, min_size=1, max_size=6), st.sampled_from([1, 2, 4]))
@settings(max_examples=40)
def test_a_row_that_is_found_has_the_tables_numbers(batches, sets):
    cache = Cached(sets)
    for time, ids in enumerate(batches, 1):
        cache.lru(ids, time)
        for number, place in zip(ids, cache.find(ids), strict=True):
            if place >= 0:
                expected = cache.row(number)
                assert torch.equal(cache.rows[place, : len(expected)], expected)


@given(st.lists(IDS, min_size=1, max_size=6))
@settings(max_examples=40)
def test_what_is_trained_in_the_cache_reaches_the_tables(batches):
    cache, expected = Cached(2), None
    expected = cache.weights.clone()
    plain = Cached(2)
    for time, ids in enumerate(batches, 1):
        cache.lru(ids, time)
        for number, place in zip(dict.fromkeys(ids), cache.find(list(dict.fromkeys(ids))), strict=True):
            if place >= 0:
                cache.rows[place] += 100
                plain.row(number).add_(100)
    cache.flush()
    assert torch.equal(cache.weights, plain.weights)
    assert expected.shape == cache.weights.shape


def test_the_least_recently_used_row_goes():
    cache = Cached(1)
    cache.lru([0, 1], 1)
    cache.lru([0], 2)
    cache.lru([5], 3)
    assert [place >= 0 for place in cache.find([0, 1, 5])] == [True, False, True]


def test_rows_of_one_batch_do_not_drive_each_other_out():
    cache = Cached(1)
    cache.lru([0, 1, 2, 3], 1)
    assert sum(place >= 0 for place in cache.find([0, 1, 2, 3])) == WAYS
    assert cache.stats.tolist()[:5] == [1, 4, 4, 4, 2]


def test_a_locked_row_stays_until_it_is_unlocked():
    cache = Cached(1, ways=1)
    cache.lru([0], 1, lock=True)
    cache.lru([1], 2)
    assert cache.find([0])[0] >= 0
    OPS.lxu_cache_locking_counter_decrement(cache.locks, torch.tensor(cache.find([0, 0]), dtype=torch.int32))
    cache.lru([1], 3)
    assert cache.find([0, 1]) == [-1, 0]


def test_the_least_often_used_row_goes():
    cache = Cached(1)
    cache.lfu([0, 0, 0, 1, 1])
    cache.lfu([2])
    assert [place >= 0 for place in cache.find([0, 1, 2])] == [True, True, False]
    cache.lfu([2, 2])
    assert [place >= 0 for place in cache.find([0, 1, 2])] == [True, False, True]


def test_rows_of_bytes_have_their_scale_and_are_aligned():
    weights = torch.arange(3 * 16, dtype=torch.uint8)
    cached, state = torch.zeros(4, 16, dtype=torch.uint8), torch.full((2, 2), -1)
    OPS.lru_cache_populate_byte(
        weights, torch.tensor([0, 3]), 3, torch.zeros(3, dtype=torch.int32), torch.tensor([0]),
        torch.tensor([2], dtype=torch.uint8), torch.tensor([0, 8]), torch.tensor([2]), state, cached, 1,
        torch.zeros(2, 2, dtype=torch.int64), 16,
    )  # fmt: skip
    (place,) = OPS.lxu_cache_lookup(torch.tensor([2]), state, 3).tolist()
    assert torch.equal(cached[place], weights[32:])


def test_a_location_is_updated_only_where_there_was_none():
    locations = torch.tensor([3, -1, -1], dtype=torch.int32)
    OPS.lxu_cache_locations_update(locations, torch.tensor([5, 6, -1], dtype=torch.int32), None)
    assert locations.tolist() == [3, 6, -1]


def test_the_set_of_a_row_is_that_of_the_lookup():
    cache = Cached(4, ways=1)
    for number in range(sum(ROWS)):
        cache.lru([number], number + 1)
        assert cache.find([number]) == [OPS.lxu_cache_slot(number, 4)]


def test_a_cache_without_sets_is_refused():
    with pytest.raises(RuntimeError, match=r"lxu_cache_state has shape \(0, 2\), expected \(sets, ways\)"):
        OPS.lxu_cache_lookup(torch.tensor([1]), torch.empty(0, 2, dtype=torch.int64))
