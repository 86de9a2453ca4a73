"""The toy environment of vision, language and action."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs import check_env_specs
from flambeau.rl.envs.custom import ToyVLAEnv


@pytest.mark.parametrize(
    "arguments",
    [{}, {"batch_size": [2]}, {"action_dim": 2, "success_steps": 2, "from_pixels": True, "group_repeats": 2}],
)
def test_it_keeps_to_its_specs(arguments):
    check_env_specs(ToyVLAEnv(seed=0, **arguments))


def test_the_state_shows_the_last_action_and_effort_costs():
    env = ToyVLAEnv(action_dim=2, state_dim=3, seed=0)
    step = env.step(env.reset().set("action", torch.tensor([0.6, -0.8])))["next"]
    torch.testing.assert_close(step["observation", "state"], torch.tensor([0.6, -0.8, 0.0]))
    assert step["reward"].item() == pytest.approx(-1.0)


def test_success_takes_several_steps_in_a_row():
    env = ToyVLAEnv(action_dim=1, state_dim=2, success_steps=2, seed=0)
    td = env.reset()
    target = td["observation", "state"][1:]
    successes = []
    for action in (target, target + 0.5, target, target):
        step = env.step(td.set("action", action.clone()))
        successes.append((step["next", "success"].item(), step["next", "terminated"].item()))
        td = env.step_mdp(step)
    assert successes == [(False, False)] * 3 + [(True, True)]


def test_a_group_of_episodes_has_one_target():
    env = ToyVLAEnv(action_dim=2, success_steps=1, group_repeats=3, group_id_offset=5, seed=0)
    episodes = [env.reset() for _ in range(6)]
    assert [int(one["group_id"]) for one in episodes] == [5] * 3 + [6] * 3
    targets = torch.stack([one["observation", "state"] for one in episodes])
    assert (targets[:3] == targets[0]).all()
    assert (targets[3:] == targets[3]).all()
    assert not torch.equal(targets[0], targets[3])


def test_some_of_several_begin_anew():
    env = ToyVLAEnv(action_dim=1, success_steps=1, batch_size=[2], seed=0)
    before = env.reset()["observation", "state"][:, 1].clone()
    env.reset(TensorDict({"_reset": torch.tensor([[True], [False]])}, [2]))
    step = env.step(TensorDict({"action": torch.zeros(2, 1)}, [2]))["next"]
    after = step["observation", "state"][:, 1]
    assert after[1] == before[1]
    assert after[0] != before[0]


def test_pictures_show_action_and_target():
    env = ToyVLAEnv(action_dim=2, success_steps=9, from_pixels=True, render_size=32, seed=0)
    td = env.reset()
    picture = env.step(td.set("action", torch.tensor([1.0, -1.0])))["next", "pixels"]
    assert picture[0, -1].tolist() == [220, 60, 60]
    assert (picture == torch.tensor([60, 200, 60])).all(-1).sum() == 25


@pytest.mark.parametrize(
    "arguments",
    [
        {"action_dim": 4, "state_dim": 3},
        {"action_dim": 4, "state_dim": 6, "success_steps": 1},
        {"group_repeats": 2},
        {"action_dim": 2, "success_steps": 1, "group_repeats": 2, "batch_size": [2]},
    ],
)
def test_what_makes_no_sense_is_refused(arguments):
    with pytest.raises(ValueError, match="ToyVLAEnv"):
        ToyVLAEnv(**arguments)
