"""Pruning of tables while they are trained: rows go to the ids that are seen most."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.ops.intraining_pruning import (
    ROWS_PER_SAMPLE,
    init_address_lookup,
    prune_embedding_tables,
    remap_indices_update_utils,
)


def buffers(*tables: tuple[int, int]):
    """Of tables of so many ids and rows: addresses, counts, where tables begin, and rows."""
    offsets = torch.tensor([0, *(ids for ids, _ in tables)]).cumsum(0)
    sizes = torch.tensor([rows for _, rows in tables])
    addresses = torch.full((int(offsets[-1]),), 9)
    init_address_lookup(addresses, offsets, sizes)
    return addresses, torch.zeros(len(addresses)), offsets, sizes


def test_the_first_ids_of_each_table_have_its_rows_and_the_others_row_0():
    addresses, _, _, _ = buffers((5, 3), (4, 4), (2, 1))
    assert addresses.tolist() == [0, 1, 2, 0, 0, 0, 1, 2, 3, 0, 0]


def test_rows_go_from_ids_that_are_never_seen_to_ids_that_are():
    addresses, counts, offsets, sizes = buffers((6, 3), (4, 4))
    counts[4:6] = 5.0
    rows, starts, count = prune_embedding_tables(0, 10, addresses, counts, offsets, sizes)
    assert (rows.tolist(), starts.tolist(), count) == ([1, 2], [0, 2, 2], 2)
    assert addresses.tolist() == [0, 0, 0, 0, 1, 2, 0, 1, 2, 3]


def test_where_nothing_changes_hands_there_is_one_zero_and_a_count_of_none():
    addresses, counts, offsets, sizes = buffers((6, 3))
    before = addresses.clone()
    rows, starts, count = prune_embedding_tables(0, 10, addresses, counts, offsets, sizes)
    assert (rows.tolist(), starts.tolist(), count) == ([0], [0, 0], 0)
    assert torch.equal(addresses, before)


def test_counts_are_reduced_only_after_the_first_interval():
    for batch, factor in ((9, 1.0), (10, 1.0), (11, 0.98)):
        addresses, counts, offsets, sizes = buffers((6, 3))
        counts.fill_(2.0)
        prune_embedding_tables(batch, 10, addresses, counts, offsets, sizes)
        torch.testing.assert_close(counts, torch.full((6,), 2.0 * factor))


def test_of_a_large_table_one_id_of_23_decides_how_often_ids_have_to_be_seen():
    ids = 10 * ROWS_PER_SAMPLE
    addresses, counts, offsets, sizes = buffers((ids, ids // 2))
    # Only the ids that are looked at at batch 7 were seen: half of them more than the other half.
    looked_at = 7 + torch.arange(10) * ROWS_PER_SAMPLE
    counts[looked_at] = torch.tensor([1.0, 9, 1, 9, 1, 9, 1, 9, 1, 9])
    _, _, count = prune_embedding_tables(7, 100, addresses, counts, offsets, sizes)
    # The threshold is 9, which none is above.
    assert count == 0
    counts[looked_at] += torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 1, 0, 1])
    _, _, count = prune_embedding_tables(7, 100, addresses, counts, offsets, sizes)
    assert count == 2 and (addresses[looked_at[[7, 9]]] != 0).all()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_two_ids_ever_share_a_row_but_row_0(data):
    tables = data.draw(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=3))
    tables = [(max(pair), min(pair)) for pair in tables]
    addresses, counts, offsets, sizes = buffers(*tables)
    bounds = offsets.tolist()
    for batch in range(4):
        counts += torch.randint(0, 4, counts.shape, generator=torch.Generator().manual_seed(batch + len(counts)))
        before = addresses.clone()
        rows, starts, count = prune_embedding_tables(batch, 2, addresses, counts, offsets, sizes)
        assert int(starts[-1]) == count
        for table, (begin, end, size) in enumerate(zip(bounds, bounds[1:], sizes.tolist(), strict=False)):
            own = addresses[begin:end][addresses[begin:end] > 0]
            assert sorted(own.tolist()) == list(range(1, size))
            changed = rows[int(starts[table]) : int(starts[table + 1])]
            moved = (addresses[begin:end] != before[begin:end]) & (addresses[begin:end] > 0)
            assert sorted(addresses[begin:end][moved].tolist()) == sorted(changed.tolist())


def test_ids_are_looked_up_and_counted_and_given_ids_stay():
    addresses, counts, offsets, _ = buffers((5, 3), (4, 2))
    values = torch.tensor([2, 4, 2, 3, 1, 77])
    features = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([3, 2]), torch.tensor([0, 3])
    rows = remap_indices_update_utils(0, *features, values, addresses, counts, offsets)
    assert rows.tolist() == [2, 0, 2, 0, 1, 77]
    assert values.tolist() == [2, 4, 2, 3, 1, 77]
    assert counts.tolist() == [0, 0, 2, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_are_of_the_dtype_of_ids(dtype):
    addresses, counts, offsets, _ = buffers((5, 3))
    one = torch.tensor([0], dtype=torch.int32), torch.tensor([1]), torch.tensor([0])
    rows = remap_indices_update_utils(0, *one, torch.tensor([2], dtype=dtype), addresses, counts, offsets)
    assert rows.dtype == dtype


def test_counting_becomes_rare_unless_it_is_asked_for():
    counted = []
    for batch in range(200):
        addresses, counts, offsets, _ = buffers((5, 3))
        one = torch.tensor([0], dtype=torch.int32), torch.tensor([1]), torch.tensor([0])
        remap_indices_update_utils(batch, *one, torch.tensor([2]), addresses, counts, offsets)
        if counts.sum():
            counted.append(batch)
        remap_indices_update_utils(batch, *one, torch.tensor([2]), addresses, counts, offsets, update_util=True)
        assert counts[2] >= 1
    assert counted == [*range(10), 18, 37, 38, 56, 75, 77, 94, 116, 155, 194]


def test_ids_that_stand_once_are_counted_as_often_as_they_were_given():
    addresses, counts, offsets, _ = buffers((5, 3))
    one = torch.tensor([0], dtype=torch.int32), torch.tensor([1]), torch.tensor([0])
    full = [torch.tensor([2, 2, 2])]
    remap_indices_update_utils(0, *one, torch.tensor([2]), addresses, counts, offsets, full)
    assert counts.tolist() == [0, 0, 3, 0, 0]


def test_what_does_not_fit_is_refused_with_the_feature_and_the_table():
    addresses, counts, offsets, sizes = buffers((5, 3), (4, 2))
    features = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1, 1]), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match="feature 1 has an id that is not below 4, the ids of table 1"):
        remap_indices_update_utils(0, *features, torch.tensor([4, 4]), addresses, counts, offsets)
    with pytest.raises(RuntimeError, match="feature 0 has an id"):
        remap_indices_update_utils(0, *features, torch.tensor([-1, 0]), addresses, counts, offsets)
    with pytest.raises(RuntimeError, match="buffer_idx has 2"):
        wrong = torch.tensor([2, 1], dtype=torch.int32), *features[1:]
        remap_indices_update_utils(0, *wrong, torch.tensor([0, 0]), addresses, counts, offsets)
    with pytest.raises(RuntimeError, match="row_utils has shape"):
        prune_embedding_tables(0, 1, addresses, counts[:3], offsets, sizes)
    with pytest.raises(RuntimeError, match="1 emb_sizes for 2 tables"):
        init_address_lookup(addresses, offsets, sizes[:1])
    with pytest.raises(RuntimeError, match="buffer_offsets is"):
        init_address_lookup(addresses, offsets + 1, sizes)


def test_the_operators_are_registered_as_torch_wants_them():
    addresses, counts, offsets, sizes = buffers((30, 8), (4, 2))
    counts[20:30] = 3.0
    features = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([2, 1]), torch.tensor([0, 2])
    ops = torch.ops.flambeau_rec
    torch.library.opcheck(ops.init_address_lookup, (addresses, offsets, sizes))
    torch.library.opcheck(ops.prune_embedding_tables, (3, 1, addresses, counts, offsets, sizes))
    given = (0, *features, torch.tensor([4, 25, 1]), addresses, counts, offsets)
    torch.library.opcheck(ops.remap_indices_update_utils, given)
