"""Environments made of models: they step as their models do, and take the specs of others."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.data import Composite, Unbounded
from flambeau.rl.envs import (
    DreamerDecoder,
    DreamerEnv,
    GymEnv,
    ImaginedEnv,
    ModelBasedEnvBase,
    TensorDictPrimer,
    TransformedEnv,
    WorldModelEnv,
    check_env_specs,
)
from flambeau.rl.modules import WorldModel, WorldModelWrapper
from flambeau.rl.testing import ContinuousActionConvMockEnv


class Adding(ModelBasedEnvBase):
    """Adds actions to a hidden state."""

    def __init__(self, model, **kwargs):
        super().__init__(model, **kwargs)
        self.observation_spec = Composite(hidden=Unbounded((4,)))
        self.state_spec = Composite(hidden=Unbounded((4,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict, **kwargs):
        size = [] if tensordict is None else tensordict.batch_size
        return TensorDict({"hidden": torch.zeros(*size, 4)}, size)


def adding(scale=1.0):
    linear = torch.nn.Linear(1, 4, bias=False)
    linear.weight.data.fill_(scale)
    return WorldModelWrapper(
        TensorDictModule(lambda hidden, push: hidden + push, ["hidden", "push"], ["hidden"]),
        TensorDictModule(lambda hidden: hidden.sum(-1, True), ["hidden"], ["reward"]),
    ), TensorDictModule(linear, ["action"], ["push"])


def model(scale=1.0):
    from flambeau.data.tensordict.nn import TensorDictSequential

    wrapper, push = adding(scale)
    return TensorDictSequential(push, wrapper)


def one(tensordict):
    return tensordict.set("action", torch.ones(*tensordict.batch_size, 1))


def test_a_step_is_the_models():
    env = Adding(model())
    check_env_specs(env)
    rollout = env.rollout(3, one)
    assert rollout["next", "reward"].flatten().tolist() == [4, 8, 12]
    assert not rollout["next", "done"].any()


def test_it_takes_any_batch_size():
    env = Adding(model())
    rollout = env.rollout(3, one, auto_reset=False, tensordict=env.reset(TensorDict({}, [5])))
    assert rollout.batch_size == (5, 3)


def test_other_parameters_may_stand_for_the_models():
    doubled = [torch.full((4, 1), 2.0)]
    env = Adding(model(), params=doubled)
    assert env.rollout(1, one)["next", "reward"].item() == 8


def test_gradients_go_through_imagined_steps():
    env = Adding(model())
    rollout = env.rollout(3, one)
    rollout["next", "reward"].sum().backward()
    (weight,) = env.world_model.parameters()
    assert weight.grad.flatten().tolist() == [6, 6, 6, 6]


# Dreamer


def dreamer():
    real = TransformedEnv(
        ContinuousActionConvMockEnv(pixel_shape=(1, 4, 4)),
        TensorDictPrimer(state=Unbounded((5,)), belief=Unbounded((4,)), default_value=0.0),
    )
    dynamics = TensorDictModule(
        lambda state, belief, action: (state + 1, belief + action), ["state", "belief", "action"], ["state", "belief"]
    )
    reward = TensorDictModule(lambda state: state.sum(-1, True), ["state"], ["reward"])
    decoder = TensorDictModule(
        lambda state: state.sum(-1)[..., None, None, None].expand(*state.shape[:-1], 1, 4, 4),
        ["state"],
        ["reco_pixels"],
    )
    env = DreamerEnv(WorldModelWrapper(dynamics, reward), (5,), (4,), obs_decoder=decoder)
    env.set_specs_from_env(real)
    return env


def test_imagination_begins_where_it_is_told_to():
    env = dreamer()
    start = TensorDict({"state": torch.zeros(7, 5), "belief": torch.zeros(7, 4)}, [7])
    rollout = env.rollout(3, auto_reset=True, tensordict=start)
    assert rollout["next", "reward"].squeeze(-1).tolist() == [[5, 10, 15]] * 7
    assert not env.any_done(rollout)


@pytest.mark.parametrize("size", [(), (1,), (4,), (1, 1), (5, 5)])
def test_a_batch_is_never_taken_for_the_shape_of_a_spec(size):
    env = dreamer()
    start = TensorDict({"state": torch.zeros(*size, 5), "belief": torch.zeros(*size, 4)}, size)
    rollout = env.rollout(2, tensordict=start)
    for key in ("reward", "done", "terminated"):
        assert rollout["next", key].shape == (*size, 2, 1)
    assert rollout["done"].shape == (*size, 2, 1)


def test_imagined_observations_are_decoded():
    env = TransformedEnv(dreamer(), DreamerDecoder())
    assert env.full_observation_spec["reco_pixels"].shape == (1, 4, 4)
    rollout = env.rollout(2)
    torch.testing.assert_close(rollout["next", "reco_pixels"][:, 0, 0, 0], rollout["next", "reward"].squeeze(-1))


def test_an_environment_without_states_is_refused():
    env = dreamer()
    with pytest.raises(KeyError, match="TensorDictPrimer"):
        env.set_specs_from_env(ContinuousActionConvMockEnv())
    env.obs_decoder = None
    with pytest.raises(ValueError, match="obs_decoder"):
        env.decode_obs(env.reset())


# Other world models


def latent_model(done_head=None):
    return WorldModel(
        TensorDictModule(torch.nn.Linear(3, 2), ["observation"], ["latent"]),
        TensorDictModule(lambda latent, action: latent + action, ["latent", "action"], [("next", "latent")]),
        TensorDictModule(lambda latent: latent.sum(-1, True), [("next", "latent")], [("next", "reward")]),
        done_head=done_head,
    )


@pytest.mark.parametrize(("given", "size"), [(None, (1,)), (4, (4,)), ((2, 3), (2, 3))])
def test_a_world_model_steps_from_an_encoded_observation(given, size):
    world_model = latent_model()
    env = WorldModelEnv(world_model, GymEnv("Pendulum-v1"), batch_size=given)
    start = world_model.encode(TensorDict({"observation": torch.randn(*size, 3)}, size))
    rollout = env.rollout(5, tensordict=start)
    assert rollout.batch_size == (*size, 5)
    torch.testing.assert_close(rollout["next", "latent"], rollout["latent"] + rollout["action"])
    assert env.full_observation_spec["latent"].shape == (*size, 2)


def test_a_world_model_may_know_ends():
    over = TensorDictModule(lambda latent: latent[..., :1] > 2, [("next", "latent")], [("next", "done")])
    env = WorldModelEnv(latent_model(over), GymEnv("Pendulum-v1"), batch_size=1)
    rollout = env.rollout(9, one, tensordict=TensorDict({"latent": torch.zeros(1, 2)}, [1]))
    assert rollout.batch_size == (1, 3)


def test_a_world_model_needs_a_beginning():
    with pytest.raises(RuntimeError, match=r"world_model\.encode"):
        WorldModelEnv(latent_model(), GymEnv("Pendulum-v1")).reset()


def uncertain(action, observation):
    mean = observation["mean"]
    return mean + action, observation["var"] + torch.eye(3)


@pytest.mark.parametrize(("given", "size"), [(None, (1,)), (4, (4,))])
def test_imagined_observations_have_means_and_variances(given, size):
    module = TensorDictModule(
        uncertain, ["action", "observation"], [("next", "observation", "mean"), ("next", "observation", "var")]
    )
    env = ImaginedEnv(module, GymEnv("Pendulum-v1"), batch_size=given)
    check_env_specs(env)
    rollout = env.rollout(3)
    assert rollout["next", "observation", "mean"].shape == (*size, 3, 3)
    assert rollout["next", "observation", "var"][0, :, 0, 0].tolist() == [1, 2, 3]
