"""Segment trees: what a plain array gives, by the native kernels and by the references alike."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rl._torchrl import MinSegmentTreeFp32, MinSegmentTreeFp64, SumSegmentTreeFp32, SumSegmentTreeFp64
from flambeau.rl.ops import segment_tree

SUMS = (SumSegmentTreeFp32, SumSegmentTreeFp64)
MINIMA = (MinSegmentTreeFp32, MinSegmentTreeFp64)


@st.composite
def writes(draw):
    """A size, and some rounds of places with new values, which may name a place twice."""
    size = draw(st.integers(1, 40))
    place = st.integers(0, size - 1)
    value = st.integers(0, 64).map(lambda number: number / 8)
    rounds = st.lists(st.lists(st.tuples(place, value), min_size=1, max_size=12), min_size=1, max_size=4)
    return size, draw(rounds)


@given(writes())
def test_native_and_reference_write_the_same_bits(case):
    size, rounds = case
    native = SumSegmentTreeFp32(size)._tree
    for minimum in (False, True):
        plain = native.clone()
        other = native.clone()
        for pairs in rounds:
            index = torch.tensor([place for place, _ in pairs])
            values = torch.tensor([value for _, value in pairs])
            segment_tree.segment_tree_write(other, index, values, minimum)
            segment_tree._write_reference(plain, index, values, minimum)
            assert torch.equal(other, plain)


@given(writes(), st.randoms(use_true_random=False))
def test_queries_are_those_of_a_plain_array(case, random):
    size, rounds = case
    for kind in (SumSegmentTreeFp64, MinSegmentTreeFp64):
        tree = kind(size)
        array = np.full(size, tree.identity_element)
        for pairs in rounds:
            tree[[place for place, _ in pairs]] = [value for _, value in pairs]
            for place, value in pairs:
                array[place] = value
        left = random.randrange(size + 1)
        right = random.randrange(left, size + 1)
        join = np.sum if kind is SumSegmentTreeFp64 else np.min
        expected = join(array[left:right]) if right > left else tree.identity_element
        assert tree.query(left, right) == expected
        asked = (torch.tensor([left, 0]), torch.tensor([right, size]))
        reference = segment_tree._query_reference(tree._tree, *asked, tree.identity_element, tree._minimum)
        assert torch.equal(tree.query(*asked), reference)


@given(writes(), st.lists(st.integers(0, 200).map(lambda number: number / 16), min_size=1, max_size=8))
def test_a_mass_is_found_at_the_first_entry_whose_running_sum_reaches_it(case, masses):
    size, rounds = case
    tree = SumSegmentTreeFp64(size)
    for pairs in rounds:
        tree[[place for place, _ in pairs]] = [value for _, value in pairs]
    sums = np.cumsum(tree.DumpValues())
    asked = torch.tensor(masses, dtype=torch.float64)
    found = tree.scan_lower_bound(asked)
    assert found.tolist() == np.searchsorted(sums, masses, side="left").tolist()
    assert torch.equal(found, segment_tree._find_reference(tree._tree, asked, size))


@pytest.mark.parametrize("kind", [*SUMS, *MINIMA])
def test_a_tree_takes_ints_lists_arrays_and_tensors(kind):
    tree = kind(6)
    assert (tree.size, tree.capacity, len(tree)) == (6, 8, 6)
    tree[0] = 4.0
    tree[[1, 2]] = [3.0, 5.0]
    tree[np.array([3])] = np.array([1.0])
    tree[torch.tensor([4, 5])] = 2.0
    assert tree[0] == 4.0
    assert isinstance(tree[[1, 2]], np.ndarray)
    assert torch.equal(tree[torch.arange(6)], torch.tensor([4.0, 3.0, 5.0, 1.0, 2.0, 2.0], dtype=tree._dtype))


@pytest.mark.parametrize("kind", [*SUMS, *MINIMA])
def test_a_tree_survives_pickling(kind):
    tree = kind(5)
    tree[torch.arange(5)] = torch.arange(5.0)
    twin = pickle.loads(pickle.dumps(tree))
    assert twin.DumpValues().tolist() == [0, 1, 2, 3, 4]
    twin[0] = 9.0
    assert tree[0] == 0.0


def test_rounding_never_ends_at_an_entry_without_mass():
    tree = SumSegmentTreeFp32(5)
    tree[torch.arange(3)] = torch.tensor([0.1, 0.2, 0.3])
    total = tree.query(0, 5)
    assert tree.scan_lower_bound(total) == 2


def test_bad_input_is_named():
    tree = SumSegmentTreeFp32(4)
    with pytest.raises(ValueError, match="size is 0"):
        SumSegmentTreeFp32(0)
    with pytest.raises(IndexError, match="index is 4, expected 0 to 3"):
        tree[4]
    with pytest.raises(IndexError, match="index is -1, expected 0 to 3"):
        tree[torch.tensor([-1])] = 1.0
    with pytest.raises(ValueError, match="2 values for 3 entries"):
        tree[[0, 1, 2]] = [1.0, 2.0]
    with pytest.raises(ValueError, match="5 values for 4 entries"):
        tree.LoadValues(np.zeros(5))


def test_operators_name_bad_input_alike():
    tree, index = torch.zeros(8), torch.tensor([0])
    wrong = [
        (torch.zeros(7), index, torch.ones(1), r"tree has shape \(7,\)"),
        (tree, index.int(), torch.ones(1), "index has dtype torch.int32, expected int64"),
        (tree, index, torch.ones(2), r"index and values have shapes \(1,\) and \(2,\)"),
        (tree, index, torch.ones(1).double(), "values have dtype torch.float64, expected torch.float32 as the tree"),
        (tree, index + 4, torch.ones(1), "index has 4, expected 0 to 3"),
    ]
    for *arguments, message in wrong:
        for function in (segment_tree.segment_tree_write, segment_tree._write_reference):
            with pytest.raises(RuntimeError, match=message):
                function(*arguments, False)


def test_the_operators_keep_torchs_rules():
    tree, index = torch.rand(8), torch.tensor([0, 2])
    ops = torch.ops.flambeau_rl
    torch.library.opcheck(ops.segment_tree_write.default, (tree, index, torch.rand(2), False))
    torch.library.opcheck(ops.segment_tree_query.default, (tree, index, index + 1, 0.0, False))
    torch.library.opcheck(ops.segment_tree_find.default, (tree, torch.rand(3), 4))
