"""Environments: steps, resets of some of them, rollouts, and what their specs promise."""

from __future__ import annotations

import pickle

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Bounded, Categorical, Composite, Unbounded
from flambeau.rl.envs import EnvBase, EnvMetaData, PendulumEnv, check_env_specs, make_tensordict, step_mdp


class Counting(EnvBase):
    """Counts its steps; entry i of a batch by i + 1, and is done beyond 3."""

    def __init__(self, batch_size=(), **options):
        super().__init__(batch_size=batch_size, **options)
        size = tuple(batch_size)
        self.observation_spec = Composite(count=Unbounded((*size, 1)), shape=size)
        self.action_spec = Categorical(2, size)
        self.reward_spec = Unbounded((*size, 1))

    def _reset(self, tensordict, **_):
        fresh = torch.zeros(*self.batch_size, 1)
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.count = fresh if mask is None else torch.where(mask, fresh, self.count)
        return TensorDict({"count": self.count}, self.batch_size)

    def _step(self, tensordict):
        self.count = self.count + torch.arange(1.0, 1 + self.count.numel()).reshape(self.count.shape)
        return TensorDict({"count": self.count, "reward": self.count, "done": self.count > 3}, self.batch_size)

    def _set_seed(self, seed):
        self.seed = seed


def test_specs_hold_for_what_an_environment_gives():
    check_env_specs(Counting())
    check_env_specs(Counting((2,)))
    check_env_specs(PendulumEnv())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda env: setattr(env, "observation_spec", Composite(count=Unbounded((2,)))), "has shape"),
        (lambda env: setattr(env, "observation_spec", Composite(count=Unbounded(1, dtype=torch.int64))), "has dtype"),
        (lambda env: setattr(env, "observation_spec", Composite(count=Bounded(0, 1, 1))), "not in its spec"),
        (lambda env: setattr(env, "observation_spec", Composite(number=Unbounded(1))), "the env did not give"),
    ],
)
def test_specs_that_do_not_hold_are_found_out(change, message):
    env = Counting()
    change(env)
    with pytest.raises(AssertionError, match=message):
        check_env_specs(env)


def test_a_part_of_a_batch_begins_anew_and_the_rest_goes_on():
    env = Counting((3,))
    rollout = env.rollout(8, break_when_any_done=False)
    assert rollout["next", "count"].squeeze(-1).tolist() == [[1, 2, 3, 4] * 2, [2, 4] * 4, [3, 6] * 4]
    assert rollout["count"].squeeze(-1).tolist() == [[0, 1, 2, 3] * 2, [0, 2] * 4, [0, 3] * 4]


def test_a_rollout_stops_when_all_have_ended_and_entries_that_have_stay_as_they_are():
    rollout = Counting((3,)).rollout(10, break_when_all_done=True)
    assert rollout["next", "count"].squeeze(-1).tolist() == [[1, 2, 3, 4], [2, 4, 4, 4], [3, 6, 6, 6]]


def test_ends_that_are_not_given_are_derived():
    last = Counting().rollout(10)[-1]["next"]
    assert last["done"].all()
    assert last["terminated"].all()
    truncated = Counting().add_truncated_keys().rollout(2, set_truncated=True)["next"]
    assert truncated["truncated"].flatten().tolist() == [False, True]
    assert truncated["done"].flatten().tolist() == [False, True]


def test_an_episode_that_is_over_when_it_begins_is_an_error():
    class Over(Counting):
        def _reset(self, tensordict, **_):
            return super()._reset(tensordict).set("done", torch.ones(1, dtype=torch.bool))

    with pytest.raises(RuntimeError, match="done right after its reset"):
        Over().reset()
    assert Over(allow_done_after_reset=True).reset()["done"].all()


def test_errors_say_what_is_wrong():
    env = Counting((2,))
    with pytest.raises(RuntimeError, match=r"batch size \(2,\), the tensordict \(3,\)"):
        env.step(TensorDict({}, [3]))
    with pytest.raises(ValueError, match="must begin with the env's batch size"):
        env.action_spec = Categorical(2)
    with pytest.raises(ValueError, match="dtype bool"):
        env.reset(TensorDict({"_reset": torch.ones(2, 1)}, [2]))
    with pytest.raises(RuntimeError, match="at least one step"):
        env.rollout(0)
    with pytest.raises(RuntimeError, match="fewer actions than steps"):
        Counting().rollout(3, actions=[torch.tensor(1)])
    with pytest.raises(RuntimeError, match="add_truncated_keys"):
        env.rollout(2, set_truncated=True)


def test_specs_without_the_batch_are_set_and_read():
    env = Counting((2,))
    env.action_spec_unbatched = Categorical(5)
    assert env.action_spec == Categorical(5, (2,))
    assert env.action_spec_unbatched == Categorical(5)


def test_a_policy_and_given_actions_are_followed():
    rollout = Counting().rollout(3, actions=torch.tensor([1, 0, 1]))
    assert rollout["action"].tolist() == [1, 0, 1]
    rollout = Counting().rollout(3, policy=lambda data: data.set("action", data["count"][0].long() % 2))
    assert rollout["action"].tolist() == [0, 1, 0]


def test_specs_are_found_out_from_steps():
    env = Counting()
    env.auto_specs_(lambda data: data.set("action", torch.zeros(2)), observation_key="count")
    assert env.observation_spec == Composite(count=Unbounded((1,)))
    assert env.action_spec == Unbounded((2,))


def test_seeds_follow_one_another():
    env = Counting()
    assert env.set_seed(0) == 795726461
    assert env.set_seed(5, static_seed=True) == 5 == env.seed


def test_metadata_is_enough_to_make_room_for_several():
    data = EnvMetaData.metadata_from_env(Counting()).expand(4)
    assert data.tensordict.batch_size == (4,)
    assert data.specs["input_spec"].shape == (4,)
    assert pickle.loads(pickle.dumps(data)).batch_size == (4,)


def test_a_pendulum_takes_any_batch_and_obeys_its_equation():
    env = PendulumEnv(seed=0)
    start = env.reset(env.gen_params(batch_size=[5]))
    following = env.step(start.clone().set("action", torch.full((5, 1), 9.0)))["next"]
    velocity = start["thdot"] + (15 * start["th"].sin() + 3 * 2.0) * 0.05
    torch.testing.assert_close(following["thdot"], velocity.clamp(-8, 8))
    cost = start["th"] ** 2 + 0.1 * start["thdot"] ** 2 + 0.001 * 4
    torch.testing.assert_close(following["reward"], -cost.unsqueeze(-1))


def test_step_mdp_keeps_what_it_was_given():
    data = TensorDict({"x": 1, "action": 2, "next": {"x": 3, "reward": 4.0}}, [])
    assert step_mdp(data)["x"] == 3
    assert set(data.keys(True, True)) == {"x", "action", ("next", "x"), ("next", "reward")}


def test_a_step_in_zeros_has_all_that_a_step_has():
    data = make_tensordict(Counting())
    assert set(data.keys(True, True)) == set(Counting().fake_tensordict().keys(True, True))


def test_environments_that_begin_anew_by_themselves_give_first_observations_with_the_reset():
    class Restless(Counting):
        def _step(self, tensordict):
            following = super()._step(tensordict)
            self.count = torch.where(following["done"], 0.0, self.count)
            return following.set("count", self.count)

        def _reset(self, tensordict, **_):
            assert tensordict is None
            return super()._reset(tensordict)

    rollout = Restless((2,), auto_reset=True).rollout(6, break_when_any_done=False)
    nan = float("nan")
    expected = torch.tensor([[1, 2, 3, nan, 1, 2], [2, nan, 2, nan, 2, nan]])
    torch.testing.assert_close(rollout["next", "count"].squeeze(-1), expected, equal_nan=True)
    assert rollout["count"].squeeze(-1).tolist() == [[0, 1, 2, 3, 0, 1], [0, 2, 0, 2, 0, 2]]
