"""Losses of world models, and of actors and critics that are trained in them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.core.testing.fill import tensor
from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule, TensorDictSequential
from flambeau.rl.objectives import (
    DreamerActorLoss,
    DreamerModelLoss,
    DreamerV3ActorLoss,
    DreamerV3Loss,
    DreamerV3ModelLoss,
    DreamerV3ValueLoss,
    DreamerValueLoss,
    ExponentialQuadraticCost,
    WorldModelLoss,
    categorical_kl_balanced,
    categorical_kl_terms,
)
from flambeau.rl.objectives.value import TDLambdaEstimator


def test_world_models_are_compared_with_what_happened():
    double = TensorDictModule(lambda x: 2 * x, ["observation"], [("next", "reward")])
    data = TensorDict({"observation": torch.ones(3, 1), "next": {"reward": torch.zeros(3, 1)}}, [3])
    out = WorldModelLoss(double, reward_weight=0.5)(data)
    assert out["loss_reward"] == 2 and data["next", "reward"].eq(0).all()
    with pytest.raises(ValueError, match="losses"):
        WorldModelLoss(double, losses=["reward", "weather"])
    with pytest.raises(KeyError, match="done"):
        WorldModelLoss(double, losses=["done"])(data)


def test_costs_rise_from_0_at_the_target_to_1_far_from_it():
    cost = ExponentialQuadraticCost(target=torch.tensor([1.0, 0.0]), reduction="none")
    mean = torch.tensor([[1.0, 0.0], [100.0, 0.0]])
    found = cost(TensorDict({"observation": {"mean": mean, "var": torch.zeros(2, 2, 2)}}, [2]))
    torch.testing.assert_close(found["loss_cost"], torch.tensor([0.0, 1.0]))


def test_costs_are_those_of_many_draws():
    torch.manual_seed(0)
    mean, covariance = torch.tensor([0.5, -0.2]), torch.tensor([[0.3, 0.1], [0.1, 0.2]])
    weights = torch.tensor([[1.0, 0.2], [0.2, 2.0]])
    drawn = torch.distributions.MultivariateNormal(mean, covariance).sample((200_000,))
    expected = (1 - (-0.5 * torch.einsum("ni,ij,nj->n", drawn, weights, drawn)).exp()).mean()
    state = TensorDict({"observation": {"mean": mean, "var": covariance}})
    found = ExponentialQuadraticCost(weights=weights)(state)["loss_cost"]
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3)


def part(*names):
    return TensorDictModule(lambda *values: values, [("said", n) for n in names], [("next", n) for n in names])


def said(**entries):
    shape = (2, 3)
    data = {"said": entries, "next": {"reward": torch.zeros(*shape, 1), "pixels": torch.zeros(*shape, 1, 2, 2)}}
    return TensorDict(data, shape)


def test_divergences_below_the_free_nats_count_as_these():
    same = {"prior_mean": torch.zeros(2, 3, 4), "prior_std": torch.ones(2, 3, 4)}
    same |= {"posterior_mean": torch.zeros(2, 3, 4), "posterior_std": torch.ones(2, 3, 4)}
    model = TensorDictSequential(TensorDictSequential(part(*same), part("reco_pixels")), part("reward"))
    data = said(**same, reco_pixels=torch.ones(2, 3, 1, 2, 2), reward=torch.ones(2, 3, 1))
    losses, predicted = DreamerModelLoss(model, free_nats=2)(data)
    assert losses["loss_model_kl"] == 2 and losses["loss_model_reco"] == 4 and losses["loss_model_reward"] == 1
    assert predicted["next", "true_reward"].eq(0).all()


def test_critics_count_later_steps_less():
    value = TensorDictModule(nn.Identity(), ["v"], ["state_value"])
    data = TensorDict({"v": torch.ones(2, 3, 1), "lambda_target": torch.zeros(2, 3, 1)}, [2, 3])
    loss, _ = DreamerValueLoss(value, gamma=0.5)(data)
    assert loss["loss_value"] == 1.75


def test_each_side_of_balanced_divergences_is_trained_by_its_part():
    posterior, prior = tensor("posterior", (4, 2, 5)).requires_grad_(), tensor("prior", (4, 2, 5)).requires_grad_()
    categorical_kl_balanced(posterior, prior, alpha=1.0, free_bits=0.0).backward()
    assert prior.grad.any() and not posterior.grad.any()
    dynamics, representation = categorical_kl_terms(posterior, prior, free_nats=0.0, unimix=0.0)
    torch.testing.assert_close(dynamics, representation)
    assert categorical_kl_terms(prior, prior)[0] == 1


class Imagined(nn.Module):
    """An environment whose reward is its only state, which grows by the action."""

    def __init__(self):
        super().__init__()
        from flambeau.rl.data import Bounded, Composite, Unbounded
        from flambeau.rl.envs.model_based.dreamer import DreamerEnv
        from flambeau.rl.modules import WorldModelWrapper

        step = TensorDictModule(
            lambda state, belief, action: (state + action, belief), ["state", "belief", "action"], ["state", "belief"]
        )
        reward = TensorDictModule(lambda state: 1.0 * state, ["state"], ["reward"])
        self.env = DreamerEnv(WorldModelWrapper(step, reward), prior_shape=(1,), belief_shape=(1,))
        self.env.observation_spec = Composite(state=Unbounded(1), belief=Unbounded(1))
        self.env.state_spec = self.env.observation_spec.clone()
        self.env.action_spec = Bounded(-1, 1, (1,))
        self.env.reward_spec = Unbounded((1,))


def actor():
    from flambeau.rl.modules import ProbabilisticActor, TanhNormal

    class Moments(nn.Module):
        def __init__(self):
            super().__init__()
            self.loc = nn.Parameter(torch.zeros(1))

        def forward(self, state):
            return self.loc.expand_as(state), torch.full_like(state, 0.1)

    module = TensorDictModule(Moments(), ["state"], ["loc", "scale"])
    return ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True)


def value():
    return TensorDictModule(nn.Linear(1, 1), ["state"], ["state_value"])


def start():
    return TensorDict({"state": torch.zeros(4, 1), "belief": torch.zeros(4, 1)}, [4])


@pytest.mark.parametrize("cls", [DreamerActorLoss, DreamerV3ActorLoss])
def test_actors_are_pushed_towards_imagined_returns_by_gradients_through_the_model(cls):
    torch.manual_seed(0)
    policy = actor()
    loss = cls(policy, value(), Imagined().env, imagination_horizon=5)
    loss.make_value_estimator(gamma=0.9, lmbda=0.9)
    found, imagined = loss(start())
    found["loss_actor"].backward()
    assert imagined.shape == (4, 5) and not imagined["lambda_target"].requires_grad
    assert next(policy.parameters()).grad < 0  # larger actions bring more


def test_imagined_returns_look_ahead():
    loss = DreamerActorLoss(actor(), value(), Imagined().env)
    loss.make_value_estimator(gamma=0.5, lmbda=0.5)
    reward, following = tensor("reward", (2, 4, 1)), tensor("value", (2, 4, 1))
    never = torch.zeros(2, 4, 1, dtype=torch.bool)
    data = {"reward": reward, "state_value": following, "done": never, "terminated": never}
    expected = TDLambdaEstimator(gamma=0.5, lmbda=0.5, value_network=None).value_estimate(
        TensorDict({"next": data}, [2, 4])
    )
    torch.testing.assert_close(loss.lambda_target(reward, following), expected)


def test_certain_continuation_changes_nothing():
    loss = DreamerV3ActorLoss(actor(), value(), Imagined().env)
    loss.make_value_estimator(gamma=0.5, lmbda=0.5)
    reward, following = tensor("reward", (2, 4, 1)), tensor("value", (2, 4, 1))
    with_it = loss.lambda_target(reward, following, torch.ones(2, 4, 1))
    torch.testing.assert_close(with_it, loss.lambda_target(reward, following))


def test_critics_of_dreamer_v3_learn_targets_on_a_logarithmic_scale_and_stay_near_slow_ones():
    model = TensorDictModule(nn.Linear(1, 1, bias=False), ["state"], ["state_value"])
    loss = DreamerV3ValueLoss(model, discount_loss=False, slow_critic_regularization=1.0)
    loss.__dict__["_told"] = True
    data = TensorDict({"state": torch.ones(2, 3, 1), "lambda_target": torch.zeros(2, 3, 1)}, [2, 3])
    with torch.no_grad():
        model.module.weight.fill_(torch.e - 1)  # symlog of which is 1
        loss.target_value_model_params["module", "weight"].fill_(0)
    found, _ = loss(data)
    torch.testing.assert_close(found["loss_value"], torch.tensor(2.0))
    torch.testing.assert_close(found["value_slow_loss"], torch.tensor(1.0))


def test_discounts_of_critics_follow_their_actors():
    actor_loss = DreamerV3ActorLoss(actor(), value(), Imagined().env)
    actor_loss.make_value_estimator(gamma=0.25)
    assert DreamerV3ValueLoss(value(), actor_loss=actor_loss).gamma == 0.25
    loss = DreamerV3ValueLoss(value())
    loss.sync_gamma_with_actor_loss(actor_loss)
    assert loss.gamma == 0.25


def test_replay_losses_that_train_the_model_need_its_gradients():
    model = DreamerV3ModelLoss(part("reward"), reward_two_hot=False)
    with pytest.raises(ValueError, match="detach_output"):
        DreamerV3Loss(model, DreamerV3ActorLoss(actor(), value(), Imagined().env), DreamerV3ValueLoss(value()))
