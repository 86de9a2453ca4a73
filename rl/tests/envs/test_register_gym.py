"""Environments of ours as gymnasium's: registered by name, with spaces, and passing gymnasium's own checks."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)
from flambeau.rl.envs import (
    AcrobotEnv,
    CartPoleEnv,
    EnvBase,
    GymEnv,
    MountainCarContinuousEnv,
    MountainCarEnv,
    PendulumEnv,
)
from flambeau.rl.envs._gym_export import space_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")


class Kept(EnvBase):
    """Keeps its state to itself, and says something that is no observation."""

    def __init__(self, start=0):
        super().__init__()
        self.observation_spec = Composite(
            count=Unbounded((1,)), inner=Composite(seen=Bounded(0, 10, (2,)), which=OneHot(3)), note=Unbounded(())
        )
        self.action_spec = Composite(move=OneHot(3), push=Bounded(-1, 1, (2,)))
        self.reward_spec = Unbounded((1,))
        self.start = start

    def _given(self):
        inner = {"seen": torch.ones(2), "which": torch.tensor([False, True, False])}
        return TensorDict({"count": torch.tensor([self.count]), "inner": inner, "note": torch.tensor(7.0)})

    def _reset(self, tensordict, **_):
        self.count = float(self.start)
        return self._given()

    def _step(self, tensordict):
        self.count += tensordict["move"].int().argmax().item()
        return self._given().update({"reward": tensordict["push"].sum(-1, keepdim=True), "done": self.count >= 5})

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (CartPoleEnv, {}),
        (CartPoleEnv, {"categorical_action_encoding": True, "max_steps": None}),
        (MountainCarEnv, {}),
        (MountainCarContinuousEnv, {}),
        (AcrobotEnv, {}),
        (PendulumEnv, {}),
        (GymEnv, {"env_name": "CartPole-v1"}),
        (Kept, {}),
    ],
)
def test_environments_pass_gymnasiums_checks(kind, kwargs):
    kind.register_gym(f"Checked{kind.__name__}{len(kwargs)}-v0", to_numpy=True, **kwargs)
    env = gymnasium.make(f"Checked{kind.__name__}{len(kwargs)}-v0")
    check_env(env.unwrapped, skip_render_check=True)


def test_steps_give_what_the_environment_gives():
    CartPoleEnv.register_gym("Same-v0", to_numpy=True, seed=0)
    env, ours = gymnasium.make("Same-v0"), CartPoleEnv(seed=0)
    observation, _ = env.reset(seed=3)
    ours.set_seed(3)
    data = ours.reset()
    np.testing.assert_array_equal(observation["observation"], data["observation"])
    for action in (0, 1, 1):
        observation, reward, terminated, truncated, info = env.step(action)
        data = ours.step(data.set("action", torch.nn.functional.one_hot(torch.tensor(action), 2)))
        np.testing.assert_array_equal(observation["observation"], data["next", "observation"])
        assert (reward, terminated, truncated, info) == (1.0, False, False, {})
        data = ours.step_mdp(data)


def test_tensors_come_as_they_are_unless_arrays_are_asked_for():
    PendulumEnv.register_gym("Tensors-v0", seed=0)
    env = gymnasium.make("Tensors-v0")
    observation, _ = env.reset()
    assert isinstance(observation["th"], torch.Tensor)
    _, reward, terminated, *_ = env.step(torch.tensor([0.5]))
    assert reward.shape == terminated.shape == (1,)
    assert isinstance(gymnasium.make("Tensors-v0", to_numpy=True).reset()[0]["th"], np.ndarray)


def test_keys_of_information_are_no_observations():
    PendulumEnv.register_gym("Informed-v0", to_numpy=True, info_keys=["params"])
    env = gymnasium.make("Informed-v0")
    observation, info = env.reset()
    assert set(observation) == set(env.observation_space.spaces) == {"th", "thdot"}
    assert info["params"]["g"] == 10.0
    with pytest.raises(KeyError, match=r"info_keys has 'nothing'"):
        gymnasium.make("Informed-v0", info_keys=["nothing"])


def test_arguments_and_limits_are_those_registered_unless_make_says_otherwise():
    Kept.register_gym("Kept-v0", to_numpy=True, max_episode_steps=2, start=2)
    env = gymnasium.make("Kept-v0")
    assert env.reset()[0]["count"] == 2.0
    still = {"move": 0, "push": np.array([0.5, 0.25], np.float32)}
    assert [env.step(still)[1:4] for _ in range(2)] == [(0.75, False, False), (0.75, False, True)]
    assert gymnasium.make("Kept-v0", start=4).reset()[0]["count"] == 4.0


def test_another_function_may_make_the_environment():
    Kept.register_gym("Other-v0", to_numpy=True, entry_point=lambda: Kept(3))
    assert gymnasium.make("Other-v0").reset()[0]["count"] == 3.0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (OneHot(3), gymnasium.spaces.Discrete(3)),
        (Categorical(3), gymnasium.spaces.Discrete(3)),
        (Categorical(3, (2,)), gymnasium.spaces.MultiDiscrete([3, 3])),
        (OneHot(3, (2, 3)), gymnasium.spaces.MultiDiscrete([3, 3])),
        (MultiOneHot([2, 3]), gymnasium.spaces.MultiDiscrete([2, 3])),
        (MultiCategorical([2, 3]), gymnasium.spaces.MultiDiscrete([2, 3])),
        (Binary(4), gymnasium.spaces.MultiBinary(4)),
        (Bounded(-1, 2, (3,)), gymnasium.spaces.Box(-1, 2, (3,), np.float32)),
        (Composite(a=OneHot(2)), gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2))),
    ],
)
def test_specs_have_spaces(spec, expected):
    assert space_of(spec, gymnasium.spaces) == expected


def test_a_step_before_the_first_reset_is_refused():
    Kept.register_gym("Early-v0", to_numpy=True, order_enforce=False)
    with pytest.raises(RuntimeError, match="Call reset"):
        gymnasium.make("Early-v0", disable_env_checker=True).unwrapped.step(0)
