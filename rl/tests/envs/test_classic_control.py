"""Control problems in tensor code: gymnasium's numbers step by step, for any batch size, dtype and in compiled code."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import (
    AcrobotEnv,
    CartPoleEnv,
    MountainCarContinuousEnv,
    MountainCarEnv,
    PendulumEnv,
    check_env_specs,
)

ENVS = {
    "CartPole-v1": (CartPoleEnv, torch.float64),
    "MountainCar-v0": (MountainCarEnv, torch.float64),
    "MountainCarContinuous-v0": (MountainCarContinuousEnv, torch.float32),
    "Acrobot-v1": (AcrobotEnv, torch.float64),
}
CLASSES = [kind for kind, _ in ENVS.values()]
every = pytest.mark.parametrize("kind", CLASSES)


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("seed", [0, 1])
def test_whole_episodes_are_those_of_gymnasium(name, seed):
    kind, dtype = ENVS[name]
    theirs = gymnasium.make(name, disable_env_checker=True)
    theirs.reset(seed=seed)
    theirs.action_space.seed(seed)
    ours = kind(dtype=dtype, seed=0, categorical_action_encoding=True)
    tolerance = {"rtol": 0, "atol": 1e-9 if dtype is torch.float64 else 1e-5}
    data = ours.reset()
    data[ours._state_key] = torch.as_tensor(np.asarray(theirs.unwrapped.state), dtype=dtype)
    ended = False
    while not ended:
        action = theirs.action_space.sample()
        observation, reward, terminated, truncated, _ = theirs.step(action)
        following = ours.step(data.set("action", torch.as_tensor(action)))["next"]
        state = following[ours._state_key]
        np.testing.assert_allclose(state, np.asarray(theirs.unwrapped.state), **tolerance)
        np.testing.assert_allclose(following["observation"].float(), observation, rtol=0, atol=1e-6)
        np.testing.assert_allclose(following["reward"].item(), reward, rtol=1e-6)
        assert (following["terminated"].item(), following["truncated"].item()) == (terminated, truncated)
        ended = terminated or truncated
        assert following["done"].item() == ended
        data = ours.step_mdp(data)
        # Rounding in the last place grows where the motion is chaotic; it is not what is compared here.
        data[ours._state_key] = torch.as_tensor(np.asarray(theirs.unwrapped.state), dtype=dtype)


def test_pendulums_are_those_of_gymnasium():
    theirs, ours = gymnasium.make("Pendulum-v1", disable_env_checker=True), PendulumEnv(seed=0)
    theirs.reset(seed=0)
    theirs.action_space.seed(0)
    data = ours.reset()
    for _ in range(200):
        data["th"], data["thdot"] = torch.tensor(theirs.unwrapped.state, dtype=torch.float32)
        action = theirs.action_space.sample()
        observation, reward, *_ = theirs.step(action)
        data = ours.step(data.set("action", torch.as_tensor(action)))
        angle, speed = data["next", "th"], data["next", "thdot"]
        np.testing.assert_allclose(torch.stack([angle.cos(), angle.sin(), speed]), observation, atol=2e-5)
        np.testing.assert_allclose(data["next", "reward"].item(), reward, rtol=1e-5, atol=1e-5)


@every
@pytest.mark.parametrize("options", [{}, {"max_steps": None, "categorical_action_encoding": True}])
@pytest.mark.parametrize("batch_size", [(), (2, 3)])
def test_specs_hold(kind, options, batch_size):
    check_env_specs(kind(batch_size, seed=0, dtype=torch.float64, **options))


@every
def test_a_batch_moves_as_each_entry_does_alone(kind):
    env, single = kind([5], seed=0), kind(seed=0)
    steps = env.rollout(10)
    for entry in steps:
        alone = single.rollout(
            10, auto_reset=False, tensordict=entry[0].exclude("next", "action"), actions=entry["action"]
        )
        torch.testing.assert_close(alone["next", "observation"], entry["next", "observation"][: len(alone)])


@every
def test_the_batch_size_may_come_with_the_data(kind):
    env = kind(seed=0)
    data = env.reset(TensorDict({}, [7]))
    assert env.rollout(3, auto_reset=False, tensordict=data).batch_size == (7, 3)


@every
def test_episodes_are_truncated_after_max_steps_and_begin_anew(kind):
    steps = kind([2], seed=0, max_steps=4).rollout(9, break_when_any_done=False)
    assert steps["next", "truncated"][0].flatten().nonzero().flatten().tolist() == [3, 7]
    assert steps["step_count"][0].flatten().tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]


@every
def test_episodes_begin_where_gymnasiums_do(kind):
    state = kind([2000], seed=0).reset()[kind(seed=0)._state_key]
    low, high = torch.tensor(kind._first_low), torch.tensor(kind._first_high)
    assert (state >= low).all() and (state <= high).all()
    torch.testing.assert_close(state.mean(0), (low + high) / 2, rtol=0, atol=0.01)


def test_a_reset_of_some_leaves_the_others():
    env = CartPoleEnv([3], seed=0)
    data = env.rollout(3)[:, -1]["next"].exclude("reward")
    before = data["observation"].clone()
    fresh = env.reset(data.set("_reset", torch.tensor([[False], [True], [False]])))
    assert torch.equal(fresh["observation"][[0, 2]], before[[0, 2]])
    assert not torch.equal(fresh["observation"][1], before[1])
    assert fresh["step_count"].flatten().tolist() == [3, 0, 3]
    assert torch.equal(data["observation"], before)


def test_seeds_decide_where_episodes_begin():
    first, second, third = (CartPoleEnv(seed=seed).reset()["observation"] for seed in (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, third)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own
@every
def test_compiled_steps_are_the_same(kind):
    env, compiled = kind([6], seed=0), kind([6], seed=0).compile(fullgraph=True)
    data = env.rand_action(env.reset())
    torch.testing.assert_close(
        compiled.step(data.clone())["next", "observation"], env.step(data.clone())["next", "observation"]
    )
    assert compiled.eager()._moves is kind._move
