"""Planners find actions of high return in a model whose best actions are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Bounded, Composite, Unbounded
from flambeau.rl.modules import CEMPlanner, MPPIPlanner


class Reaching(nn.Module):
    """A point is moved by actions, and rewarded for being near 1; its episode ends where it was told."""

    batch_locked, batch_size, done_keys = False, torch.Size(), ["done", "terminated"]

    def __init__(self, ends_after=None):
        super().__init__()
        self.ends_after = ends_after
        self.observation_spec = Composite(x=Unbounded((2,)))
        self.action_spec = Bounded(-1, 1, (2,))

    def rollout(self, max_steps, policy, auto_reset, tensordict, break_when_any_done):
        assert not auto_reset and not break_when_any_done
        steps = []
        for at in range(max_steps):
            tensordict = policy(tensordict)
            x = tensordict["x"] + tensordict["action"]
            reward = -(x - 1).square().sum(-1, keepdim=True)
            if self.ends_after is not None and at >= self.ends_after:
                reward = torch.full_like(reward, 1e6) * x[..., :1]
            done = torch.full_like(reward, self.ends_after == at + 1, dtype=torch.bool)
            after = TensorDict({"x": x, "reward": reward, "done": done}, tensordict.batch_size)
            steps.append(tensordict.clone().set("next", after))
            tensordict = after.select("x")
        return torch.stack(steps, -1)


class Return(nn.Module):
    """The advantage of a step is what comes from it on."""

    def forward(self, tensordict):
        rewards = tensordict["next", "reward"]
        return tensordict.set("advantage", rewards.flip(-2).cumsum(-2).flip(-2))


def planner(kind, env, **options):
    sizes = {"planning_horizon": 3, "optim_steps": 8, "num_candidates": 200, "top_k": 20, **options}
    return CEMPlanner(env, **sizes) if kind == "cem" else MPPIPlanner(env, Return(), 5.0, **sizes)


@pytest.mark.parametrize("kind", ["cem", "mppi"])
def test_the_best_action_is_found_for_each_state(kind):
    torch.manual_seed(0)
    td = TensorDict(x=torch.tensor([[0.5, 0.5], [1.0, 1.5], [-3.0, 3.0]]), batch_size=[3])
    action = planner(kind, Reaching())(td)["action"]
    torch.testing.assert_close(action, torch.tensor([[0.5, 0.5], [0.0, -0.5], [1.0, -1.0]]), rtol=0, atol=0.05)


@pytest.mark.parametrize("kind", ["cem", "mppi"])
def test_rewards_after_the_end_of_an_episode_do_not_count(kind):
    torch.manual_seed(0)
    td = TensorDict(x=torch.full((1, 2), 0.5), batch_size=[1])
    action = planner(kind, Reaching(ends_after=1))(td)["action"]
    torch.testing.assert_close(action, torch.full((1, 2), 0.5), rtol=0, atol=0.05)


@pytest.mark.parametrize("kind", ["cem", "mppi"])
def test_environments_of_one_batch_size_and_numbers_without_sense_are_refused(kind):
    env = Reaching()
    with pytest.raises(ValueError, match="top_k is 30, more than num_candidates, 20"):
        planner(kind, env, num_candidates=20, top_k=30)
    with pytest.raises(ValueError, match="optim_steps is 0"):
        planner(kind, env, optim_steps=0)
    env.batch_locked = True
    with pytest.raises(ValueError, match="batch_locked"):
        planner(kind, env)
