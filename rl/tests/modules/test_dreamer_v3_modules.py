"""DreamerV3's networks, and PILCO's model and controller."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.modules import (
    DreamerV3BlockGRU,
    DreamerV3DiscreteActor,
    DreamerV3SeededPolicy,
    GPWorldModel,
    RBFController,
    RSSMPosteriorV3,
    RSSMPriorV3,
    RSSMRolloutV3,
    RSSMStateEstimatorV3,
)

SIZES = {"hidden_dim": 6, "rnn_hidden_dim": 8, "num_categoricals": 2, "num_classes": 4}
PRIOR_OUT = [("next", "prior_logits"), ("next", "state"), ("next", "belief")]
POSTERIOR_OUT = [("next", "posterior_logits"), ("next", "state")]


def rssm(prior_out=PRIOR_OUT, posterior_out=POSTERIOR_OUT):
    torch.manual_seed(0)
    prior, posterior = RSSMPriorV3(action_shape=(2,), action_dim=2, **SIZES), RSSMPosteriorV3(obs_embed_dim=3, **SIZES)
    return (
        TensorDictModule(prior, ["state", "belief", "action"], prior_out),
        TensorDictModule(posterior, [("next", "belief"), ("next", "encoded_latents")], posterior_out),
    )


def sequence():
    torch.manual_seed(1)
    return TensorDict(
        {
            "state": torch.randn(2, 4, 8), "belief": torch.randn(2, 4, 8), "action": torch.randn(2, 4, 2),
            "is_init": torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]], dtype=torch.bool),
            "next": {"encoded_latents": torch.randn(2, 4, 3)},
        },
        [2, 4],
    )  # fmt: skip


def test_the_scan_gives_the_outputs_and_gradients_of_the_reference():
    torch.manual_seed(0)
    gru = DreamerV3BlockGRU(6, 8, projection_size=4, num_blocks=2)
    starts = torch.tensor([[0, 1, 0], [1, 0, 0]], dtype=torch.bool)
    found = []
    for backend in ("reference", "scan"):
        gru.recurrent_backend = backend
        inputs, hidden = torch.full((2, 3, 6), 0.3, requires_grad=True), torch.full((2, 8), 0.2, requires_grad=True)
        output, last = gru(inputs, hidden, starts)
        gradients = torch.autograd.grad(output.square().sum() + last.sum(), [inputs, hidden, *gru.parameters()])
        found.append([output, last, *gradients])
    torch.testing.assert_close(found[0], found[1])


def test_the_scan_cannot_be_differentiated_twice():
    gru = DreamerV3BlockGRU(6, 8, projection_size=4, num_blocks=2, recurrent_backend="scan")
    inputs = torch.randn(2, 3, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(gru(inputs)[0].square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_states_and_actions_are_dropped_where_an_episode_begins():
    data = sequence()
    torch.manual_seed(2)
    rolled = RSSMRolloutV3(*rssm())(data)
    starts = data["is_init"]
    for key in ("state", "belief", "action"):
        assert not rolled[key][starts].any()
    torch.testing.assert_close(rolled["state"][0, 1], rolled["next", "state"][0, 0])
    torch.testing.assert_close(rolled["belief"][0, 3], rolled["next", "belief"][0, 2])


def test_tensors_and_tensordicts_give_the_same_rollout():
    fast = RSSMRolloutV3(*rssm())
    slow = RSSMRolloutV3(*rssm([("next", "other_logits"), *PRIOR_OUT[1:]]))
    torch.manual_seed(2)
    first = fast(sequence())
    torch.manual_seed(2)
    second = slow(sequence())
    for key in ("state", "belief", "action", ("next", "state"), ("next", "posterior_logits")):
        torch.testing.assert_close(first[key], second[key])


@pytest.mark.parametrize("unroll", [1, 3])
def test_steps_in_groups_depend_on_one_another_as_single_ones(unroll):
    rollout = RSSMRolloutV3(*rssm())
    rollout.compile_rollout("scan", unroll=unroll, compile=False)
    rolled = rollout(sequence())
    torch.testing.assert_close(rolled["state"][0, 1], rolled["next", "state"][0, 0])
    torch.testing.assert_close(rolled["state"][0, 3], rolled["next", "state"][0, 2])


def test_an_actor_that_steps_sees_what_the_rollout_sees():
    prior, posterior = rssm()
    data = sequence()
    estimator = RSSMStateEstimatorV3(prior.module, posterior.module)
    now = TensorDict(
        {
            "state": data["state"][:, 0], "belief": data["belief"][:, 0], "previous_action": data["action"][:, 0],
            "encoded_latents": data["next", "encoded_latents"][:, 0], "is_init": data["is_init"][:, 0],
        },
        [2],
    )  # fmt: skip
    estimator(now)
    torch.testing.assert_close(now["belief"], RSSMRolloutV3(prior, posterior)(data)["next", "belief"][:, 0])


def test_a_seeded_policy_goes_on_where_it_was_saved_and_leaves_torch_as_it_was():
    policy = DreamerV3SeededPolicy(DreamerV3DiscreteActor(6, 3, depth=1, num_cells=8), seed=7)
    data = TensorDict({"state": torch.zeros(40, 4), "belief": torch.zeros(40, 2)}, [40])
    before = torch.get_rng_state()
    first = policy(data.clone())["action"]
    saved = policy.state_dict()
    second = policy(data.clone())["action"]
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, second)
    policy.load_state_dict(saved)
    assert torch.equal(policy(data.clone())["action"], second)
    policy.reset_counter()
    assert torch.equal(policy(data.clone())["action"], first)


def line():
    """A state that moves by 0.3 times the action."""
    torch.manual_seed(0)
    state, action = torch.randn(40, 1, dtype=torch.float64), torch.randn(40, 1, dtype=torch.float64)
    after = state + 0.3 * action + 0.001 * torch.randn_like(state)
    return TensorDict({"observation": state, "action": action, "next": {"observation": after}}, [40])


def fitted():
    model = GPWorldModel(1, 1).double()
    model.fit(line())
    return model


def belief(state, action, variance):
    one = torch.ones(1, 1, dtype=torch.float64)
    return TensorDict(
        {
            "action": {"mean": action * one[0], "var": 0 * one, "cross_covariance": 0 * one},
            "observation": {"mean": state * one[0], "var": variance * one},
        },
        [],
    )


def test_a_gaussian_process_learns_how_a_state_moves():
    found = fitted()(belief(0.5, 1.0, 0.0))["next", "observation"]
    assert abs(found["mean"].item() - 0.8) < 0.01
    assert 0 <= found["var"].item() < 1e-3


def test_moments_of_a_belief_are_those_of_its_samples():
    model = fitted()
    matched = model(belief(0.2, 0.5, 0.3))["next", "observation"]
    torch.manual_seed(1)
    states = 0.2 + 0.3**0.5 * torch.randn(20000, 1, dtype=torch.float64)
    drawn = TensorDict(
        {"action": {"mean": torch.full_like(states, 0.5)}, "observation": {"mean": states}}, [len(states)]
    )
    points = model.deterministic_forward(drawn)["next", "observation"]
    variance = points["mean"].var() + points["var"].mean()
    torch.testing.assert_close(matched["mean"], points["mean"].mean(0), atol=0.01, rtol=0)
    torch.testing.assert_close(matched["var"].squeeze(), variance, atol=0, rtol=0.05)


def test_moments_of_actions_are_those_of_sampled_states():
    torch.manual_seed(0)
    controller = RBFController(2, 1, 1.5, 6).double()
    with torch.no_grad():
        controller.weights.mul_(10)
    mean, covariance = torch.tensor([0.3, -0.2]).double(), torch.tensor([[0.3, 0.1], [0.1, 0.2]]).double()
    with torch.no_grad():
        action, spread, cross = controller(mean, covariance)
        states = torch.distributions.MultivariateNormal(mean, covariance).sample((20000,))
        actions, _, _ = controller(states, torch.zeros(20000, 2, 2, dtype=torch.float64))
    together = (states - mean).mT @ (actions - actions.mean(0)) / len(states)
    # The weighted sum of basis functions is taken for Gaussian before the sine.
    torch.testing.assert_close(action, actions.mean(0), atol=0.05, rtol=0)
    torch.testing.assert_close(spread.squeeze(), actions.var(), atol=0.05, rtol=0)
    torch.testing.assert_close(covariance @ cross, together, atol=0.05, rtol=0)
