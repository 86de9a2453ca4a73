"""Measures of attributions, against their definitions."""

from __future__ import annotations

import pytest
import torch

from flambeau.influence.errors import InfluenceError
from flambeau.influence.measures import (
    leave_one_out,
    linear_datamodeling_score,
    mislabel_auc,
    random_subsets,
    subset_outputs,
)

GENERATOR = torch.Generator().manual_seed(0)
VALUES = torch.randn(3, 12, generator=GENERATOR)


def summed(positions, seed):
    """A "training" to whose outputs examples add their values, with noise that the mean of two seeds takes away."""
    return VALUES[:, positions].sum(1) + (-1) ** seed


def test_true_attributions_have_the_score_one_and_their_opposite_minus_one():
    subsets = random_subsets(12, 9)
    outputs = subset_outputs(summed, subsets, repeats=2)
    torch.testing.assert_close(outputs, subsets.float() @ VALUES.T)
    assert linear_datamodeling_score(VALUES, subsets, outputs).tolist() == pytest.approx([1, 1, 1])
    assert linear_datamodeling_score(-VALUES, subsets, outputs).tolist() == pytest.approx([-1, -1, -1])


def test_the_score_is_spearmans_correlation():
    stats = pytest.importorskip("scipy.stats", reason="needs SciPy's spearmanr")
    subsets, scores = random_subsets(12, 30, 0.3, seed=1), VALUES.round()
    outputs = torch.randn(30, 3, generator=GENERATOR).round()  # with ties on both sides
    expected = [stats.spearmanr(subsets.double() @ scores[i].double(), outputs[:, i]).statistic for i in range(3)]
    assert linear_datamodeling_score(scores, subsets, outputs).tolist() == pytest.approx(expected)


def test_subsets_have_one_size_and_differ():
    subsets = random_subsets(10, 20, 0.4)
    assert subsets.sum(1).tolist() == [4] * 20 and len({tuple(row.tolist()) for row in subsets}) > 10


def test_leaving_one_out_gives_what_it_added():
    torch.testing.assert_close(leave_one_out(summed, 12, repeats=3), VALUES)


def test_the_auc_is_the_share_of_pairs_in_order():
    scores, wrong = torch.tensor([3.0, 1.0, 2.0, 2.0, 5.0]), torch.tensor([True, False, True, False, False])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[wrong].tolist() for b in scores[~wrong].tolist()]
    assert mislabel_auc(scores, wrong) == pytest.approx(sum(pairs) / len(pairs))
    assert mislabel_auc(wrong.float(), wrong.tolist()) == 1 and mislabel_auc(torch.zeros(5), wrong) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mislabel_auc(torch.zeros(3), [True] * 3), "expected both kinds"),
        (lambda: mislabel_auc(torch.zeros(3), [True] * 2), "do not fit"),
        (lambda: mislabel_auc(torch.tensor([float("nan"), 1.0]), [True, False]), "scores has NaN"),
        (lambda: random_subsets(3, 2, 1.5), r"share is 1\.5"),
        (lambda: subset_outputs(summed, torch.ones(2, 12)), r"subsets is torch\.float32"),
        (lambda: subset_outputs(summed, random_subsets(12, 2), 0), "repeats is 0"),
        (lambda: leave_one_out(summed, 1), "examples is 1"),
        (lambda: linear_datamodeling_score(VALUES, random_subsets(12, 4), torch.zeros(3, 4)), "do not fit"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InfluenceError, match=message):
        call()
