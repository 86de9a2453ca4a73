"""Norms and transforms of values, scores of tree search."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import TensorDict
from flambeau.rl.modules import (
    ComposeValueTransform,
    EXP3Score,
    MCTSScores,
    PercentileValueNorm,
    PopArtValueNorm,
    PUCTScore,
    RunningValueNorm,
    SignedHyperbolicValueTransform,
    SymLogValueTransform,
    UCB1TunedScore,
)


@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6))
def test_running_statistics_are_those_of_all_targets(sizes):
    torch.manual_seed(0)
    norm, batches = RunningValueNorm(shape=2), [torch.randn(size, 2) * 3 + 1 for size in sizes]
    for batch in batches:
        norm.update(batch)
    everything = torch.cat(batches)
    if len(everything):
        torch.testing.assert_close(norm.mean, everything.mean(0), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(norm.m2, (everything - everything.mean(0)).square().sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "norm", [PopArtValueNorm(shape=2, beta=0.9), RunningValueNorm(shape=2), PercentileValueNorm(shape=2, center=True)]
)
def test_normalizing_can_be_undone(norm):
    values = torch.randn(20, 2) * 5
    norm.update(values)
    torch.testing.assert_close(norm.denormalize(norm.normalize(values)), values)
    assert norm.scale().shape == (2,)


@pytest.mark.parametrize("norm", [PopArtValueNorm(shape=2), RunningValueNorm(shape=2), PercentileValueNorm(shape=2)])
def test_empty_batches_change_nothing_and_wrong_shapes_are_refused(norm):
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    norm.update(torch.zeros(0, 2))
    torch.testing.assert_close(dict(norm.state_dict()), before)
    with pytest.raises(ValueError, match=r"expected \(..., 2\)"):
        norm.update(torch.zeros(4, 3))


def test_small_values_are_not_made_large_by_percentiles():
    norm = PercentileValueNorm(rate=1.0)
    norm.update(torch.linspace(0, 0.1, 50).unsqueeze(-1))
    assert float(norm.scale()) == 1.0


def test_composed_transforms_are_inverted_from_the_last():
    transform = ComposeValueTransform(SymLogValueTransform(), SignedHyperbolicValueTransform())
    values = torch.linspace(-50, 50, 21, dtype=torch.float64)
    torch.testing.assert_close(transform.inverse(transform(values)), values, rtol=1e-6, atol=1e-6)


def node(**entries):
    start = {
        "win_count": torch.tensor([1.0, 2.0]),
        "visits": torch.tensor([2.0, 4.0]),
        "total_visits": torch.tensor(6.0),
    }
    return TensorDict(
        {**start, "prior_prob": torch.tensor([0.3, 0.7]), "sum_squared_rewards": torch.tensor([1.0, 1.5]), **entries}
    )


def test_scores_prefer_what_was_visited_less():
    scores = PUCTScore(c=1.0)(node(prior_prob=torch.tensor([0.5, 0.5])))["score"]
    assert float(scores[0]) > float(scores[1])
    assert bool(UCB1TunedScore()(node(visits=torch.tensor([2.0, 0.0])))["score"].argmax() == 1)
    assert isinstance(MCTSScores.PUCT(), PUCTScore)


def test_weights_of_rewarded_actions_grow():
    score, tree = EXP3Score(gamma=0.2), TensorDict(num_actions=torch.tensor(3))
    before = score(tree)["score"].clone()
    score.update_weights(tree, 1, 1.0)
    after = score(tree)["score"]
    assert float(after[1]) > float(before[1]) and float(after.sum()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="expected the number of actions"):
        score(TensorDict(weights=torch.ones(3)))
