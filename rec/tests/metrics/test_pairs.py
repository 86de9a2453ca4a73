"""Pairs in order are counted as by comparing each with each."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rec.metrics._pairs import concordant_weight, increasing_weight, pair_weight, tied_weight
from flambeau.rec.metrics._sessions import number_below, sessions_sorted

VALUES = st.integers(0, 17).flatmap(
    lambda size: st.tuples(
        *[st.lists(st.integers(-3, 3), min_size=size, max_size=size) for _ in range(2)],
        st.lists(st.floats(0, 4, width=32), min_size=size, max_size=size),
    )
)


def rows(values):
    return [torch.tensor([column], dtype=torch.float64) for column in values]


def by_each(first, second, weights, counts):
    size = len(first)
    pairs = ((i, j) for i in range(size) for j in range(i + 1, size))
    return sum(weights[i] * weights[j] for i, j in pairs if counts(first[j] - first[i], second[j] - second[i]))


@given(VALUES)
def test_concordant_pairs_are_those_that_differ_in_the_same_direction(values):
    expected = by_each(*values, lambda a, b: a * b > 0)
    torch.testing.assert_close(concordant_weight(*rows(values)).item(), float(expected))


@given(VALUES)
def test_tied_pairs_are_equal_in_both(values):
    expected = by_each(*values, lambda a, b: a == 0 and b == 0)
    torch.testing.assert_close(tied_weight(*rows(values)).item(), float(expected), rtol=1e-6, atol=1e-6)


@given(VALUES)
def test_increasing_pairs_are_those_whose_later_value_is_the_larger_one(values):
    _, second, weights = rows(values)
    expected = by_each(*values, lambda a, b: b > 0)
    torch.testing.assert_close(increasing_weight(second, weights).item(), float(expected))


@given(VALUES)
def test_all_pairs_weigh_what_they_weigh_one_by_one(values):
    expected = by_each(*values, lambda a, b: True)
    torch.testing.assert_close(pair_weight(rows(values)[2]).item(), float(expected), rtol=1e-6, atol=1e-6)


def test_each_task_has_its_own_pairs():
    values = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert increasing_weight(values, torch.ones(2, 3)).tolist() == [3.0, 0.0]


@given(VALUES)
def test_ranks_within_sessions_count_the_smaller_values_of_the_same_session(values):
    sessions, scores, _ = values
    expected = [
        sum(s == sessions[i] and v < scores[i] for s, v in zip(sessions, scores, strict=True))
        for i in range(len(scores))
    ]
    assert number_below(torch.tensor(sessions).long(), torch.tensor(scores).float()).tolist() == expected


def test_sessions_are_sorted_by_value_and_equal_ones_keep_their_order():
    order, starts = sessions_sorted(torch.tensor([2, 1, 2, 1, 2]), torch.tensor([0.5, 0.1, 0.9, 0.1, 0.5]))
    assert order.tolist() == [1, 3, 2, 0, 4]
    assert starts.tolist() == [0, 0, 2, 2, 2]
