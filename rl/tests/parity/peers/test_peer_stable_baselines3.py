"""Environments of ours, registered with gymnasium, train under stable-baselines3 as they are."""

from __future__ import annotations

import gymnasium
import pytest
import torch

from flambeau.rl.data import Bounded, Composite, Unbounded
from flambeau.rl.envs import CartPoleEnv, EnvBase
from flambeau.rl.envs.custom import GymPendulumEnv

stable_baselines3 = pytest.importorskip("stable_baselines3", reason="`nox -s parity -- peers rl` has it")


class Target(EnvBase):
    """One step: the reward is the less, the further the action is from the observation."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(goal=Bounded(-1, 1, (1,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        self.generator = torch.Generator()

    def _reset(self, tensordict=None, **options):
        from flambeau.data.tensordict import TensorDict

        self.goal = torch.rand(1, generator=self.generator) * 2 - 1
        return TensorDict({"goal": self.goal}, [])

    def _step(self, tensordict):
        from flambeau.data.tensordict import TensorDict

        reward = -(tensordict["action"] - self.goal).abs()
        return TensorDict({"goal": self.goal, "reward": reward, "done": torch.ones(1, dtype=torch.bool)}, [])

    def _set_seed(self, seed):
        self.generator.manual_seed(0 if seed is None else seed)


@pytest.fixture(params=[CartPoleEnv, GymPendulumEnv, Target], ids=lambda kind: kind.__name__)
def registered(request):
    name = f"Flambeau{request.param.__name__}-v0"
    request.param.register_gym(name, backend="gymnasium", to_numpy=True, disable_env_checker=True)
    yield name
    del gymnasium.registry[name]


def test_its_own_check_passes(registered):
    from stable_baselines3.common.env_checker import check_env

    check_env(gymnasium.make(registered).unwrapped, warn=False)


def test_ppo_takes_it_by_name(registered):
    model = stable_baselines3.PPO("MultiInputPolicy", registered, n_steps=64, batch_size=32, n_epochs=1, seed=0)
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(128)
    assert any(not torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True))
