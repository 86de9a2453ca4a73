"""Conditions on stored trajectories, and batches of recorded and collected items."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    LazyTensorStorage,
    OfflineToOnlineReplayBuffer,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
    filter_trajectories,
    iter_trajectories,
    prefill_replay_buffer,
    traj,
)


def steps(lengths=(3, 2, 1)):
    """Rewards 0, 1, 2, ... of three episodes."""
    count = sum(lengths)
    episode = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[torch.tensor(lengths).cumsum(0) - 1] = True
    follows = {"reward": torch.arange(float(count))[:, None], "done": done}
    return TensorDict({"seen": torch.arange(float(count)), "episode": episode, "next": follows}, [count])


@pytest.mark.parametrize(
    ("condition", "lengths"),
    [
        (traj.reward.sum() > 3, [2, 1]),
        ((traj.reward.sum() > 3) & ~(traj.length < 2), [2]),
        ((traj.reward.sum() > 6) | (traj.length == 1), [2, 1]),
        ((traj.reward > 4).any(), [1]),
        ((traj.reward >= 3).all(), [2, 1]),
        (traj["seen"].last() == 4, [2]),
        (traj["next", "reward"].max() <= 2, [3]),
        (traj.seen.first() != 0, [2, 1]),
        (traj.total_reward >= 5, [2, 1]),
        (traj.reward.mean() < 2, [3]),
        (lambda trajectory: trajectory.length == 1, [1]),
        (None, [3, 2, 1]),
    ],
    ids=lambda value: "function" if callable(value) and not isinstance(value, type(traj.length == 1)) else str(value),
)
def test_a_condition_chooses_trajectories(condition, lengths):
    assert [each.length for each in filter_trajectories(steps(), condition)] == lengths


def test_a_condition_says_what_it_reads():
    condition = (traj.reward.sum() > 100) & (traj[("a", "b")].max() < 1)
    assert condition.required_keys() == {"reward", ("a", "b")}
    assert repr(traj.reward.sum() > 3) == "TrajectoryPredicate((traj.reward.sum() > 3))"
    with pytest.raises(TypeError, match="join conditions by"):
        bool(condition)


def test_entries_of_a_trajectory_are_attributes_also_of_what_followed():
    first = next(iter_trajectories(steps()))
    assert first.seen.tolist() == first["seen"].tolist() == [0, 1, 2]
    assert first.reward.shape == (3, 1)
    assert first.total_reward == 3
    with pytest.raises(KeyError, match="has no entry"):
        first["none"]
    with pytest.raises(AttributeError):
        _ = first.none


def test_flags_tell_trajectories_where_nothing_numbers_them():
    with pytest.warns(UserWarning, match="flags at their ends"):
        found = list(iter_trajectories(steps().exclude("episode")))
    assert [each.length for each in found] == [3, 2, 1]
    with pytest.raises(KeyError, match="nothing tells trajectories"):
        list(iter_trajectories(TensorDict({"a": torch.zeros(2)}, [2])))
    with pytest.raises(ValueError, match="expected"):
        list(iter_trajectories(steps().unsqueeze(0)))


def test_a_full_ring_is_asked_from_its_oldest_step_on():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(6), batch_size=2)
    buffer.extend(steps())
    buffer.extend(steps((2,)).set("episode", torch.tensor([3, 3])))
    found = buffer.query(traj.length > 0)
    assert [each.episode[0].item() for each in found] == [0, 1, 2, 3]
    assert [each.length for each in found] == [1, 2, 1, 2]
    assert [each.length for each in buffer.query(traj.reward.max() == 5)] == [1]
    assert TensorDictReplayBuffer(storage=LazyTensorStorage(6)).query() == []


def buffers(fraction=0.25, **arguments):
    recorded = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
    recorded.extend(TensorDict({"from": torch.zeros(100)}, [100]))
    both = OfflineToOnlineReplayBuffer(
        recorded, online_capacity=50, offline_fraction=fraction, batch_size=8, **arguments
    )
    return recorded, both


def test_each_batch_has_its_share_of_recorded_items():
    recorded, both = buffers()
    assert both.sample()["from"].tolist() == [0] * 8  # there is nothing else yet
    both.extend(TensorDict({"from": torch.ones(10)}, [10]))
    for _ in range(5):
        assert both.sample()["from"].tolist() == [0] * 2 + [1] * 6
    assert (len(recorded), len(both.online_buffer)) == (100, 10)
    batch, known = both.sample(4, return_info=True)
    assert batch.batch_size == torch.Size([4])
    assert sorted(known) == ["offline", "online"]


def test_the_share_of_recorded_items_is_annealed():
    _, both = buffers(0.5)
    both.extend(TensorDict({"from": torch.ones(10)}, [10]))
    for step, share in ((0, 0.5), (5, 0.25), (10, 0.0)):
        both.anneal(0.0, step, 10)
        assert both.offline_fraction == pytest.approx(share)
    assert both.sample()["from"].tolist() == [1] * 8


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"online_capacity": 3, "online_storage": LazyTensorStorage(3)},
        {"online_capacity": 3, "offline_fraction": 1.0},
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments):
    with pytest.raises(ValueError, match=r"online_capacity|offline_fraction"):
        OfflineToOnlineReplayBuffer(ReplayBuffer(), **arguments)


def test_recorded_items_are_copied_in_chunks():
    recorded, _ = buffers()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(200), batch_size=4)
    assert prefill_replay_buffer(buffer, recorded, n_samples=25, chunk_size=10) is buffer
    assert len(buffer) == 25


def test_parts_of_a_buffer_are_exchanged():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=5)
    buffer.extend(steps())
    assert isinstance(buffer.set_sampler(SamplerWithoutReplacement(shuffle=False)), RandomSampler)
    assert buffer.sample()["seen"].tolist() == [0, 1, 2, 3, 4]
    assert isinstance(buffer.set_writer(RoundRobinWriter()), RoundRobinWriter)
    buffer.add(steps()[5])
    assert buffer[0]["seen"] == 5


def test_batches_of_a_pass_are_given_one_by_one():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(6), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=3
    )
    buffer.extend(steps())
    assert [None if batch is None else len(batch) for batch in (buffer.next() for _ in range(4))] == [3, 3, None, 3]
