"""Collectors: whole batches of steps, trajectories that keep their numbers, and errors that say what to do."""

from __future__ import annotations

import time

import gymnasium
import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors import Collector, SyncDataCollector, VanillaWeightUpdater
from flambeau.rl.collectors.utils import split_trajectories
from flambeau.rl.data import Categorical, Composite, LazyTensorStorage, ReplayBuffer, Unbounded
from flambeau.rl.envs import EnvBase, GymEnv, GymWrapper, SerialEnv


class Count(EnvBase):
    """Counts its steps, and is done at `length`."""

    def __init__(self, length=4, fault=None):
        super().__init__()
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Categorical(2)
        self.reward_spec = Unbounded((1,))
        self.length, self.fault, self.count = length, fault, 0

    def _given(self):
        return TensorDict({"count": torch.tensor([float(self.count)])})

    def _reset(self, tensordict, **_):
        self.count = 0
        return self._given()

    def _step(self, tensordict):
        self.count += 1
        if self.fault is not None and self.count == 3:
            raise self.fault
        done = torch.tensor([self.count >= self.length])
        return self._given().update({"reward": torch.ones(1), "done": done})

    def _set_seed(self, seed):
        self.seed = seed


def test_trajectories_go_on_from_batch_to_batch():
    batches = list(Collector(Count(4), frames_per_batch=6, total_frames=12))
    steps = torch.cat(batches)
    assert steps["collector", "traj_ids"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert steps["count"].flatten().tolist() == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("environments", [1, 3])
def test_what_follows_a_step_is_where_the_next_begins_unless_an_episode_ended(environments):
    torch.manual_seed(0)
    env = SerialEnv(environments, lambda: GymEnv("CartPole-v1"))
    env.set_seed(0)
    batch = Collector(env, frames_per_batch=100 * environments, total_frames=100 * environments).next()
    following, root = batch["next", "observation"][:, :-1], batch["observation"][:, 1:]
    goes_on = ~batch["next", "done"][:, :-1, 0]
    assert goes_on.any() and not goes_on.all()
    assert torch.equal(following[goes_on], root[goes_on])
    assert not torch.equal(following[~goes_on], root[~goes_on])


def test_batches_share_no_memory():
    first, second = Collector(Count(), frames_per_batch=4, total_frames=8)
    before = first.clone()
    second.zero_()
    assert (first == before).all()


def test_a_collector_that_was_loaded_goes_on_with_counts_and_numbers():
    one = Collector(Count(), frames_per_batch=6, total_frames=18)
    one.next()
    other = Collector(Count(), frames_per_batch=6, total_frames=18)
    other.load_state_dict(one.state_dict())
    rest = list(other)
    assert len(rest) == 2
    assert other.stats()["completed"]
    assert rest[1]["collector", "traj_ids"].min() >= 2


def test_the_first_steps_are_random_and_the_others_the_policys():
    both = ["action", "more"]
    policy = TensorDictModule(lambda count: (torch.tensor(1), count + 1), in_keys=["count"], out_keys=both)
    first, second = Collector(Count(), policy, frames_per_batch=20, total_frames=40, init_random_frames=20)
    assert 0 < first["action"].sum() < 20
    assert first["more"].count_nonzero() == 0
    assert torch.equal(second["action"], torch.ones(20, dtype=torch.int64))
    assert torch.equal(second["more"], second["count"] + 1)


def test_whole_trajectories_are_put_together_from_several_batches():
    batches = list(Collector(Count(5), frames_per_batch=3, total_frames=33, trajs_per_batch=2, traj_format="cat"))
    assert [batch["count"].flatten().tolist() for batch in batches] == [[0, 1, 2, 3, 4] * 2] * 3


def test_padded_trajectories_have_a_mask_of_their_steps():
    steps = Collector(Count(4), frames_per_batch=6, total_frames=6, split_trajs=True).next()
    assert steps["collector", "mask"].tolist() == [[True] * 4, [True] * 2 + [False] * 2]
    assert steps["count"][1, 2:].count_nonzero() == 0


def test_nested_trajectories_have_the_steps_of_each():
    nested = split_trajectories(Collector(Count(4), frames_per_batch=6).next(), as_nested=True)
    assert [part.flatten().tolist() for part in nested["count"].unbind()] == [[0, 1, 2, 3], [0, 1]]


def test_a_replay_buffer_gets_the_steps_that_batches_would_have():
    buffer = ReplayBuffer(storage=LazyTensorStorage(30), batch_size=4)
    assert list(Collector(Count(), frames_per_batch=6, total_frames=18, replay_buffer=buffer)) == [None] * 3
    expected = torch.cat(list(Collector(Count(), frames_per_batch=6, total_frames=18)))
    assert torch.equal(buffer[:]["count"], expected["count"])
    assert torch.equal(buffer[:]["collector", "traj_ids"], expected["collector", "traj_ids"])


def test_what_fails_in_the_background_is_raised_at_the_shutdown():
    buffer = ReplayBuffer(storage=LazyTensorStorage(30), batch_size=4)
    collector = Collector(Count(fault=ValueError("out of steps")), frames_per_batch=6, replay_buffer=buffer)
    collector.start()
    while collector.is_running():  # else it may be told to end before it has begun
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="ValueError: out of steps"):
        collector.async_shutdown(timeout=60)


def test_nothing_is_collected_while_it_is_paused():
    buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
    collector = Collector(Count(), frames_per_batch=5, replay_buffer=buffer)
    collector.start()
    with collector.pause():
        before = buffer.write_count
        assert buffer.sample() is not None if before else True
        assert buffer.write_count == before
    collector.async_shutdown(timeout=60)
    assert not collector.is_running()


def test_an_error_in_the_loop_shuts_the_collector_down():
    collector = Collector(Count(fault=ValueError("out of steps")), frames_per_batch=6)
    with pytest.raises(ValueError, match="out of steps"):
        list(collector)
    assert collector.closed
    with pytest.raises(RuntimeError, match="is shut down"):
        list(collector)


def test_weights_come_from_a_module_a_tensordict_or_a_state_dict():
    policy = TensorDictModule(nn.Linear(1, 1), in_keys=["count"], out_keys=["more"])
    collector = Collector(Count(), nn.Sequential(policy), frames_per_batch=4, trust_policy=True, use_buffers=True)
    other = nn.Sequential(TensorDictModule(nn.Linear(1, 1), in_keys=["count"], out_keys=["more"]))
    for source in (other, TensorDict.from_module(other), other.state_dict()):
        nn.init.normal_(other[0].module.weight)
        collector.update_policy_weights_(source)
        assert torch.equal(policy.module.weight, other[0].module.weight)
        assert policy.module.weight.requires_grad


def test_weights_of_another_shape_are_refused_by_name():
    policy = TensorDictModule(nn.Linear(1, 1), in_keys=["count"], out_keys=["more"])
    collector = Collector(Count(), nn.Sequential(policy), frames_per_batch=4, trust_policy=True)
    with pytest.raises(RuntimeError, match=r"0.module.weight has shape \(1, 1\); got \(2, 1\)"):
        collector.update_policy_weights_({"0.module.weight": torch.zeros(2, 1)})


def test_a_weight_updater_brings_the_weights():
    net = nn.Linear(1, 1)
    policy = nn.Sequential(TensorDictModule(net, in_keys=["count"], out_keys=["more"]))
    source = TensorDict.from_module(policy).data.clone().zero_()
    updater = VanillaWeightUpdater(weight_getter=lambda: source, policy_weights=policy)
    collector = Collector(Count(), policy, frames_per_batch=4, trust_policy=True, weight_updater=updater)
    seen = []
    updater.register_post_hook(lambda: seen.append(True))
    collector.update_policy_weights_()
    assert net.weight.item() == 0
    assert seen == [True]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"frames_per_batch": 0}, ValueError, "frames_per_batch must be 1 or more"),
        ({"policy": lambda other: other}, TypeError, r"takes \['other'\], the environment observes \['count'\]"),
        ({"policy": 3}, TypeError, "must be callable"),
        ({"create_env_fn": lambda: 3}, TypeError, "it returned int"),
        ({"create_env_fn": [Count, Count]}, ValueError, "takes one environment; got 2"),
        ({"set_truncated": True}, RuntimeError, "add_truncated_keys"),
        ({"color": 3}, TypeError, r"no arguments \['color'\]"),
        ({"traj_format": "rows", "trajs_per_batch": 2}, ValueError, "must be 'padded' or 'cat'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        SyncDataCollector(**({"create_env_fn": Count, "frames_per_batch": 4} | arguments))


def test_random_actions_of_several_choices_are_drawn_step_by_step():
    class Choices(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.MultiDiscrete([3, 2])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action)
            return self.observation_space.sample(), 1.0, False, False, {}

    batch = Collector(GymWrapper(Choices(), categorical_action_encoding=True), frames_per_batch=20).next()
    assert batch["action"].shape == (20, 2)
    assert torch.equal(batch["next", "observation"][:-1], batch["observation"][1:])
