"""The ranker that ships with its weights: its features, what it is worth, and its recipe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rec.errors import OptionError
from flambeau.rec.models import get_model
from flambeau.rec.models.interaction_features import (
    DENSE,
    SPARSE,
    InteractionFeatures,
    Interactions,
    InteractionStatistics,
)
from flambeau.rec.weights.interaction_ranker import Interaction_Ranker_Weights

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
import generated_interactions as generated
import interaction_ranker as recipe

WEIGHTS = Interaction_Ranker_Weights.GENERATED_V1


@pytest.fixture(scope="module")
def model():
    return get_model("interaction_ranker", weights="DEFAULT").eval()


def interactions(pairs, **more):
    users, items = zip(*pairs, strict=True)
    return Interactions(torch.tensor(users), torch.tensor(items), **more)


# --- features --------------------------------------------------------------------------------------------------------


def test_candidates_are_the_items_that_a_user_has_not_seen():
    found = InteractionFeatures()(interactions([(0, 0), (0, 1), (1, 1), (1, 2), (1, 1)]))
    assert list(zip(found.users.tolist(), found.items.tolist(), strict=True)) == [(0, 2), (1, 0)]
    assert found.dense.shape == (2, len(DENSE))
    assert found.sparse.keys() == list(SPARSE)
    assert found.sparse["history"].lengths().tolist() == [2, 2]


def test_items_are_similar_as_their_users_are_the_same():
    statistics = InteractionStatistics(interactions([(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 0)]))
    similar = statistics._similarity
    assert similar[0, 1] > similar[0, 2] > 0
    assert similar[1, 2] == 0
    assert torch.equal(similar, similar.T)
    assert torch.equal(similar.diagonal(), torch.zeros(3))


def test_similarities_counted_in_blocks_are_those_counted_at_once(monkeypatch):
    world = generated.tastes(3)
    whole = InteractionStatistics(world)._similarity
    monkeypatch.setattr("flambeau.rec.models.interaction_features._AT_ONCE", 300)
    assert torch.equal(InteractionStatistics(world)._similarity, whole)
    taken = torch.zeros(int(world.users.max()) + 1, int(world.items.max()) + 1)
    taken[world.users, world.items] = 1
    together = taken.T @ taken
    norm = together.diagonal().sqrt()
    torch.testing.assert_close(whole, (together / (norm.outer(norm) + 3)).fill_diagonal_(0))


def test_the_reason_is_the_most_similar_item_of_the_history():
    pairs = [(user, item) for user in range(5) for item in (0, 1)] + [(9, 0), (9, 2), (8, 2), (8, 3)]
    users = torch.tensor([user for user, _ in pairs]).unique(return_inverse=True)[1]
    found = InteractionFeatures()(Interactions(users, torch.tensor([item for _, item in pairs])))
    reasons = {(user, item): because for user, item, because in zip(
        found.users.tolist(), found.items.tolist(), found.because.tolist(), strict=True
    )}  # fmt: skip
    last = int(users.max())
    assert reasons[last, 1] == 0  # who had 0 and 2
    assert reasons[last, 3] == 2
    assert reasons[0, 3] == -1  # nobody had it with 0 or 1


def test_times_order_the_history():
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2)]
    ordered = interactions(pairs, times=torch.arange(6.0))
    turned = interactions(pairs[::-1], times=torch.arange(6.0).flip(0))
    for mine, other in zip(InteractionFeatures()(ordered).dense, InteractionFeatures()(turned).dense, strict=True):
        torch.testing.assert_close(mine, other)


def described(world: Interactions) -> dict[tuple[int, int], list[float]]:
    found = InteractionFeatures()(world)
    pairs = zip(found.users.tolist(), found.items.tolist(), strict=True)
    return dict(zip(pairs, found.dense.tolist(), strict=True))


@given(seed=st.integers(0, 10_000), shuffle=st.integers(0, 10_000))
def test_features_do_not_depend_on_how_users_and_items_are_numbered(seed, shuffle):
    draw = torch.Generator().manual_seed(seed)
    users, items = torch.randint(6, (40,), generator=draw), torch.randint(9, (40,), generator=draw)
    world = Interactions(users.unique(return_inverse=True)[1], items.unique(return_inverse=True)[1])
    again = torch.Generator().manual_seed(shuffle)
    new_users = torch.randperm(int(world.users.max()) + 1, generator=again)
    new_items = torch.randperm(int(world.items.max()) + 1, generator=again)
    before = described(world)
    after = described(Interactions(new_users[world.users], new_items[world.items]))
    assert len(before) == len(after)
    for (user, item), features in before.items():
        assert after[int(new_users[user]), int(new_items[item])] == pytest.approx(features, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.tensor([0, 1]), torch.tensor([0])), "items has shape"),
        ((torch.tensor([]), torch.tensor([])), "n of at least 1"),
        ((torch.tensor([0]), torch.tensor([0]), torch.zeros(2)), "times has shape"),
    ],
)
def test_columns_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        Interactions(*arguments)


def test_too_many_items_are_refused():
    with pytest.raises(OptionError, match="keep the most frequent"):
        InteractionStatistics(interactions([(0, 0), (1, 5000)]))


# --- the weights -----------------------------------------------------------------------------------------------------


def test_the_model_is_better_than_popularity_and_similarity_alone(model):
    for kind in (generated.tastes, generated.sessions):
        found = recipe.measure(model, [kind(seed) for seed in (1000, 1001)])
        assert found["AUC"] > found["AUC of popularity"]
        assert found["AUC"] > found["AUC of similarity"]
        assert found["NE"] < 1


@pytest.mark.slow
def test_the_recorded_metrics_are_those_of_the_weights(model):
    recorded = list(WEIGHTS.meta["_metrics"].values())
    for kind, count, expected in ((generated.tastes, 16, recorded[0]), (generated.sessions, 8, recorded[1])):
        found = recipe.measure(model, [kind(seed) for seed in range(1000, 1000 + count)])
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, abs=2e-3), name


def test_training_is_deterministic_and_learns():
    threads = torch.get_num_threads()
    worlds = [generated.tastes(0)]
    try:
        first, second = (recipe.train(worlds, epochs=4, size=256) for _ in range(2))
    finally:
        torch.set_num_threads(threads)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert recipe.measure(first, worlds)["AUC"] > 0.65


def test_generated_collections_are_the_same_each_time():
    for kind in (generated.tastes, generated.sessions):
        one, other = kind(5), kind(5)
        assert torch.equal(one.users, other.users)
        assert torch.equal(one.items, other.items)
        assert not torch.equal(one.items[:50], kind(6).items[:50])
