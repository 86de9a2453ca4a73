"""Environments of gymnasium: rollouts that write arrays equal those of steps; vectors in all modes of resetting."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import GymEnv, GymWrapper, check_env_specs, default_info_dict_reader, set_gym_backend
from flambeau.rl.envs.libs.gym import _gym_to_torchrl_spec_transform, gym_backend, register_gym_spec_conversion

MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


class Dictionary(gymnasium.Env):
    """Observations in a dictionary of dictionaries, an action that must be in [1, 3], infos of all kinds."""

    observation_space = gymnasium.spaces.Dict(
        {
            "inner": gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(-1, 1, (2,), np.float64)}),
            "y": gymnasium.spaces.Box(0, 255, (2, 2), np.uint8),
        }
    )
    action_space = gymnasium.spaces.Discrete(3, start=1)

    def _observed(self):
        return {"inner": {"x": np.full(2, self.count / 10)}, "y": np.full((2, 2), self.count, np.uint8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._observed(), {}

    def step(self, action):
        assert action in (1, 2, 3)
        self.count += 1
        info = {"level": self.count, "ratio": 0.5, "flag": True, "word": "w", "array": np.ones(3), "_private": 1}
        return self._observed(), float(self.count), self.count > 3, False, info


class Pixels(gymnasium.Env):
    """Renders the number of its steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    metadata = {"render_modes": ["rgb_array"]}  # gymnasium's own form
    render_mode = "rgb_array"
    count = 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(2, np.float32), 0.0, False, False, {}

    def render(self):
        return np.full((4, 5, 3), self.count, np.uint8)


def rollouts(env, steps, **options):
    """The same rollout by arrays, and by steps."""
    both = []
    for policy in (None, env.rand_action):
        env.set_seed(0)
        torch.manual_seed(0)
        both.append((env.rollout(steps, policy=policy, **options), torch.rand(1)))
    return both


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0"])
@pytest.mark.parametrize(("steps", "stops"), [(5, True), (300, True), (300, False)])
def test_a_rollout_by_arrays_is_the_one_by_steps(name, steps, stops):
    (fast, draw), (slow, other) = rollouts(GymEnv(name), steps, break_when_any_done=stops)
    assert set(fast.keys(True, True)) == set(slow.keys(True, True))
    assert (fast == slow).all()
    assert fast.names == slow.names
    if stops:
        assert torch.equal(draw, other), "as many random numbers are used up"


def test_steps_of_a_rollout_share_no_memory():
    rollout = GymEnv("CartPole-v1").rollout(5)
    kept = rollout["next", "observation"].clone()
    rollout["observation"].zero_()
    assert torch.equal(rollout["next", "observation"], kept)


def test_a_rollout_by_arrays_is_left_where_a_method_is_redefined():
    class Halved(GymEnv):
        def read_reward(self, reward):
            return super().read_reward(reward / 2)

    assert Halved("CartPole-v1").rollout(3)["next", "reward"].flatten().tolist() == [0.5] * 3


def test_observations_in_dictionaries_are_nested():
    env = GymWrapper(Dictionary())
    check_env_specs(env)
    rollout = env.rollout(10)
    assert rollout["next", "inner", "x"][:, 0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert rollout["next", "y"].dtype == torch.uint8
    (fast, _), (slow, _) = rollouts(GymWrapper(Dictionary(), categorical_action_encoding=True), 10)
    assert (fast == slow).all()


def test_infos_of_all_kinds_are_read():
    env = GymWrapper(Dictionary()).auto_register_info_dict()
    following = env.rollout(2)["next"]
    assert following["level"].flatten().tolist() == [1, 2]
    assert following["ratio"].flatten().tolist() == [0.5, 0.5]
    assert following["flag"].all()
    assert following["array"].shape == (2, 3)
    assert following[0]["word"] == "w"
    assert "_private" not in following.keys()  # noqa: SIM118


def test_what_an_info_lacks_is_zero():
    reader = default_info_dict_reader(["level"])
    assert reader({}, TensorDict({}, [2]))["level"].tolist() == [0, 0]


@pytest.mark.parametrize("only", [True, False])
def test_pixels_are_what_is_rendered(only):
    env = GymWrapper(Pixels(), from_pixels=True, pixels_only=only)
    check_env_specs(env)
    rollout = env.rollout(3)
    assert rollout["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert ("observation" in rollout.keys()) is not only  # noqa: SIM118


@pytest.mark.parametrize("mode", MODES)
def test_vectors_begin_anew_where_an_episode_ended_whatever_they_do_by_themselves(mode):
    vector = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=getattr(gymnasium.vector.AutoresetMode, mode)
    )
    env = GymWrapper(vector)
    check_env_specs(env)
    rollouts = []
    for wrapped in (env, GymEnv("CartPole-v1")):
        wrapped.set_seed(0)
        rollouts.append(wrapped)
    torch.manual_seed(0)
    rollout = env.rollout(60, break_when_any_done=False)
    done = rollout["next", "done"].squeeze(-1)
    assert done.any()
    first, last = rollout["observation"][:, 1:], rollout["next", "observation"][:, :-1]
    assert torch.equal(first[~done[:, :-1]], last[~done[:, :-1]])
    assert (first[done[:, :-1]].abs() <= 0.05).all(), "an episode of CartPole begins near zero"
    ended = last[done[:, :-1]]
    assert ((ended[:, 0].abs() > 2.4) | (ended[:, 2].abs() > 0.2095)).all(), "and ends beyond its limits"


def test_all_modes_of_vectors_give_the_same():
    results = []
    for mode in MODES:
        vector = gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=getattr(gymnasium.vector.AutoresetMode, mode)
        )
        env = GymWrapper(vector)
        env.set_seed(0)
        torch.manual_seed(0)
        results.append(env.rollout(80, break_when_any_done=False))
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


@pytest.mark.parametrize("mode", MODES)
def test_episodes_that_have_not_ended_begin_anew_when_a_mask_says_so(mode):
    vector = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=getattr(gymnasium.vector.AutoresetMode, mode)
    )
    env = GymWrapper(vector)
    env.set_seed(0)
    root = env.step_mdp(env.rollout(8)[:, -1])
    anew = env.reset(root.clone().set("_reset", torch.tensor([[False], [True]])))
    assert torch.equal(anew["observation"][0], root["observation"][0])
    assert (anew["observation"][1].abs() <= 0.05).all()
    following = env.step(anew.set("action", torch.tensor([[1, 0], [1, 0]])))["next", "observation"]
    assert (following - anew["observation"]).abs().max() < 0.5, "both go on from where they are"


def test_vectors_that_begin_all_episodes_at_once_do_not_pretend_otherwise():
    env = GymWrapper(gymnasium.make_vec("CartPole-v1", 3))
    assert env.rollout(200)["next", "done"][:, -1].any()
    torch.manual_seed(0)
    with pytest.raises(RuntimeError, match="cannot begin some episodes anew"):
        env.rollout(200, break_when_any_done=False)


def test_names_and_backends_that_are_not_there_are_errors():
    with pytest.raises(gymnasium.error.NameNotFound):
        GymEnv("Nothing-v7")
    with pytest.raises(TypeError, match="needs an environment of gymnasium"):
        GymWrapper(3)
    with pytest.raises(ModuleNotFoundError):
        set_gym_backend("nothing_of_the_kind").set()


def test_a_backend_is_set_for_a_block_and_for_a_function():
    with set_gym_backend(gymnasium):
        assert gym_backend() is gymnasium
    assert set_gym_backend("gymnasium")(lambda: gym_backend("spaces").__name__)() == "gymnasium.spaces"


def test_conversions_of_spaces_can_be_added():
    class Own(gymnasium.spaces.Space):
        pass

    with pytest.raises(NotImplementedError, match="register_gym_spec_conversion"):
        _gym_to_torchrl_spec_transform(Own())
    marker = object()
    register_gym_spec_conversion(Own)(lambda spec, **options: marker)
    assert _gym_to_torchrl_spec_transform(Own()) is marker
