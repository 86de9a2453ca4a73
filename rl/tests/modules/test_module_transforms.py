"""What modules ask of environments: states that begin with episodes, noise and masks that stay for one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict.nn import TensorDictModule, TensorDictSequential
from flambeau.rl.envs import ExplorationType, PendulumEnv, SerialEnv, check_env_specs, set_exploration_type
from flambeau.rl.envs.transforms import CatTensors, Compose, InitTracker, TransformedEnv, UnsqueezeTransform, gSDENoise
from flambeau.rl.modules import ConsistentDropoutModule, GRUModule, LSTMModule
from flambeau.rl.modules.models import gSDEModule
from flambeau.rl.modules.utils import get_env_transforms_from_module, get_primers_from_module


def pendulum(*transforms, count=0):
    """Angle and velocity as one vector, with further transforms."""
    base = PendulumEnv(seed=0) if not count else SerialEnv(count, lambda: PendulumEnv(seed=0))
    vector = (
        UnsqueezeTransform(dim=-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]),
        CatTensors(in_keys=["th", "thdot"], out_key="o", del_keys=False),
    )
    return TransformedEnv(base, Compose(*vector, *transforms))


def noisy_policy():
    def scaled(o):
        return torch.zeros(*o.shape[:-1], 1)

    return TensorDictSequential(
        TensorDictModule(scaled, ["o"], ["mu"]),
        TensorDictModule(
            gSDEModule(state_dim=2, action_dim=1), ["mu", "o", "_eps_gSDE"], ["mu", "sigma", "action", "_eps_gSDE"]
        ),
    )


@pytest.mark.parametrize("count", [0, 3])
def test_noise_of_states_stays_for_an_episode_and_is_drawn_anew_with_the_next(count):
    env = pendulum(gSDENoise(state_dim=2, action_dim=1, shape=(count,) if count else ()), count=count)
    check_env_specs(env)
    with set_exploration_type(ExplorationType.RANDOM):
        first, second = (env.rollout(4, noisy_policy(), break_when_any_done=False)["_eps_gSDE"] for _ in range(2))
    time = 1 if count else 0
    assert (first == first.select(time, 0).unsqueeze(time)).all()
    assert not torch.allclose(first, second)
    if count:
        assert not torch.allclose(first[0], first[1])


def test_noise_without_sizes_is_drawn_by_the_policy():
    env = pendulum(gSDENoise())
    assert env.reset()["_eps_gSDE"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("module", "states"),
    [
        (lambda: LSTMModule(2, 4, in_key="o", out_key="f"), {"recurrent_state_h", "recurrent_state_c"}),
        (lambda: GRUModule(2, 4, in_key="o", out_key="f"), {"recurrent_state"}),
    ],
    ids=["LSTM", "GRU"],
)
def test_recurrent_states_begin_with_zeros_and_go_on_from_step_to_step(module, states):
    recurrent = module()
    policy = TensorDictSequential(recurrent, TensorDictModule(nn.Linear(4, 1), ["f"], ["action"]))
    env = pendulum(get_env_transforms_from_module(policy))
    assert [type(each).__name__ for each in env.transform[2]] == ["InitTracker", "TensorDictPrimer"]
    rollout = env.rollout(4, policy)
    for key in states:
        assert (rollout[key][0] == 0).all()
        assert (rollout[key][1:] == rollout["next", key][:-1]).all()
        assert not (rollout[key][1] == 0).all()


def test_a_mask_of_dropout_stays_for_an_episode():
    dropout = ConsistentDropoutModule(0.5, in_keys=["o", "mask"], input_shape=(2,))
    env = pendulum(get_primers_from_module(dropout))
    check_env_specs(env)
    masks = env.rollout(5)["mask"]
    assert (masks == masks[0]).all()


def test_primers_of_several_modules_come_together():
    both = TensorDictSequential(LSTMModule(2, 4, in_key="o", out_key="f"), GRUModule(4, 4, in_key="f", out_key="g"))
    primers = get_primers_from_module(both)
    assert isinstance(primers, Compose)
    env = pendulum(InitTracker(), primers)
    assert {"recurrent_state", "recurrent_state_h", "recurrent_state_c"} <= set(env.reset().keys())


def test_modules_without_states_need_no_primer():
    with pytest.warns(UserWarning, match="no module has a primer"):
        assert get_primers_from_module(nn.Linear(1, 1)) is None
    assert isinstance(get_env_transforms_from_module(nn.Linear(1, 1)), InitTracker)
