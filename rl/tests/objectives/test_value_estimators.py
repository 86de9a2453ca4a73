"""Value estimators: what they read and write, where gradients go, and how often they call the network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
from flambeau.rl.modules import IndependentNormal, ProbabilisticActor
from flambeau.rl.objectives.value import GAE, MultiAgentGAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, VTrace
from flambeau.rl.objectives.value.functional import vtrace_advantage_estimate

ESTIMATORS = {
    "td0": lambda net, **options: TD0Estimator(gamma=0.9, value_network=net, **options),
    "td1": lambda net, **options: TD1Estimator(gamma=0.9, value_network=net, **options),
    "td-lambda": lambda net, **options: TDLambdaEstimator(gamma=0.9, lmbda=0.8, value_network=net, **options),
    "gae": lambda net, **options: GAE(gamma=0.9, lmbda=0.8, value_network=net, **options),
}
each = pytest.mark.parametrize("build", ESTIMATORS.values(), ids=ESTIMATORS)


def network():
    return TensorDictModule(nn.Linear(4, 1), ["observation"], ["state_value"])


def rollout(batch=(2, 6), ends=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    observed = torch.randn(*batch[:-1], batch[-1] + 1, 4, generator=generator)
    done = torch.rand(*batch, 1, generator=generator) > (0.6 if ends else 1.0)
    later = torch.where(done, torch.randn(*batch, 4, generator=generator), observed[..., 1:, :])
    following = {"observation": later, "reward": torch.randn(*batch, 1, generator=generator), "done": done}
    return TensorDict({"observation": observed[..., :-1, :], "next": following | {"terminated": done.clone()}}, batch)


@each
def test_advantage_target_and_both_values_are_written(build):
    data = build(network())(rollout())
    for key in ("advantage", "value_target", "state_value", ("next", "state_value")):
        assert data[key].shape == (2, 6, 1)
    torch.testing.assert_close(data["advantage"] + data["state_value"], data["value_target"])


@each
def test_keys_are_renamed(build):
    estimator = build(network())
    estimator.set_keys(advantage="better", reward="gain")
    data = rollout()
    data["next"].rename_key_("reward", "gain")
    assert "better" in estimator(data) and ("next", "gain") in estimator.in_keys
    assert estimator.out_keys == ["better", "value_target"]
    with pytest.raises(KeyError, match="zzz is not an accepted tensordict key"):
        estimator.set_keys(zzz="a")
    with pytest.raises(ValueError, match="advantage must be a string or a tuple of strings, got 1"):
        estimator.set_keys(advantage=1)


@each
def test_what_is_missing_is_named(build):
    with pytest.raises(KeyError, match=r"reward.*is missing, which .* reads; set_keys renames it"):
        build(network())(rollout().exclude(("next", "reward")))
    with pytest.raises(RuntimeError, match="at least one dimension"):
        build(network())(rollout()[0, 0])


@each
def test_gradients_reach_given_parameters_alone(build):
    estimator = build(network(), differentiable=True)
    assert not estimator(rollout())["advantage"].requires_grad
    params = TensorDict.from_module(network())
    data = estimator(rollout(), params=params, target_params=params.clone())
    assert data["advantage"].requires_grad
    assert all(one.requires_grad for one in estimator.value_network.parameters())


@each
@pytest.mark.parametrize(
    "options", [{"value_chunk_size": 2}, {"num_chunks": 2}, {"deactivate_vmap": True}, {"shifted": True}], ids=str
)
def test_ways_of_calling_the_network_agree(build, options):
    net, data = network(), rollout()
    plain, other = build(net)(data.clone()), build(net, **options)(data.clone())
    torch.testing.assert_close(other["advantage"], plain["advantage"])


@each
def test_shifted_steps_without_room_are_marked_and_count_for_nothing(build):
    net, data = network(), rollout(ends=False)
    data["next", "done"][:, 2] = True  # cut off, not terminated
    plain = build(net)(data.clone())
    roomy = build(net, shifted=True, shifted_budget=2)(data.clone())
    torch.testing.assert_close(roomy["advantage"], plain["advantage"])
    narrow = build(net, shifted=True)(data.clone())
    assert narrow["shifted_valid"].tolist() == [[True] * 5 + [False]] * 2
    assert (narrow["advantage"][:, -1] == 0).all() and (narrow["value_target"][:, -1] == 0).all()
    torch.testing.assert_close(narrow["advantage"][:, :3], plain["advantage"][:, :3])


def test_shifted_estimators_call_the_network_once_on_one_more_state():
    seen = []

    class Counting(nn.Linear):
        def forward(self, x):
            seen.append(tuple(x.shape))
            return super().forward(x)

    net = TensorDictModule(Counting(4, 1), ["observation"], ["state_value"])
    GAE(gamma=0.9, lmbda=0.8, value_network=net, shifted=True)(rollout())
    assert seen == [(2, 7, 4)]


@each
def test_existing_values_are_taken_when_asked(build):
    data = rollout()
    data["state_value"] = data["next", "state_value"] = torch.ones(2, 6, 1)
    assert (build(network(), skip_existing=True)(data)["state_value"] == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value_chunk_size": 0}, "value_chunk_size must be >= 1, got 0"),
        ({"num_chunks": 2, "num_chunk": 3}, "num_chunks and num_chunk"),
        ({"num_chunks": 2, "value_chunk_size": 3}, "value_chunk_size and num_chunks"),
        ({"shifted": "yes"}, "shifted is 'yes', expected True or False"),
        ({"shifted_budget": 0}, "shifted_budget must be >= 1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        GAE(gamma=0.9, lmbda=0.8, value_network=network(), **options)


@each
def test_the_networks_parameters_stay_its_own(build):
    estimator = build(network())
    assert not list(estimator.parameters()) and "gamma" in estimator.state_dict()
    assert not any("value_network" in key for key in estimator.state_dict())


def test_advantages_without_a_network_come_from_stored_values():
    with pytest.raises(ValueError, match="state_value is missing, and no value network was provided"):
        GAE(gamma=0.9, lmbda=0.8, value_network=None)(rollout())


def test_ends_are_shared_by_agents():
    data = rollout()
    data["state_value"] = data["next", "state_value"] = torch.arange(36.0).view(2, 6, 3, 1)
    shared = MultiAgentGAE(gamma=0.9, lmbda=0.8, value_network=None)(data.clone())
    alone = data.clone()
    for key in ("state_value", ("next", "state_value")):
        alone[key] = alone[key][..., 1, :]
    expected = GAE(gamma=0.9, lmbda=0.8, value_network=None)(alone)
    torch.testing.assert_close(shared["advantage"][..., 1, :], expected["advantage"])


@pytest.mark.parametrize(
    ("build", "options"),
    [(ESTIMATORS["td0"], {"average_rewards": True}), (ESTIMATORS["gae"], {"average_gae": True})],
    ids=["rewards", "advantages"],
)
def test_groups_are_standardized_each_by_itself(build, options):
    data = rollout((4, 6))
    data["task"] = torch.tensor([3, 3, 7, 7]).unsqueeze(-1).expand(4, 6)
    found = build(network(), group_key="task", **options)(data)
    standardized = found["advantage"] if "average_gae" in options else found["next", "reward"]
    for group in (standardized[:2], standardized[2:]):
        torch.testing.assert_close(group.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
        torch.testing.assert_close(group.std(), torch.tensor(1.0))


def test_a_group_of_one_step_becomes_zero():
    data = rollout((1, 2))
    data["task"] = torch.tensor([[0, 1]])
    assert (
        GAE(gamma=0.9, lmbda=0.8, value_network=network(), average_gae=True, group_key="task")(data)["advantage"] == 0
    ).all()


def test_states_after_a_cut_are_not_read_where_environments_reset_themselves():
    data = rollout(ends=False)
    data["next", "done"][:, 2] = True  # cut off, not terminated
    spoiled = data.clone()
    spoiled["next", "observation"][:, 2] = torch.nan
    gae = GAE(gamma=0.9, lmbda=0.8, value_network=network(), auto_reset_env=True)
    torch.testing.assert_close(gae(spoiled)["advantage"], gae(data)["advantage"])


def actor():
    net = nn.Sequential(nn.Linear(4, 6), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]), ["loc", "scale"],
        distribution_class=IndependentNormal, return_log_prob=True, default_interaction_type="random",
    )  # fmt: skip


def test_vtrace_scores_the_actions_that_were_taken_when_asked():
    policy, net, data = actor(), network(), rollout()
    data["action"], data["action_log_prob"] = torch.randn(2, 6, 3), torch.randn(2, 6) - 3
    found = VTrace(gamma=0.9, actor_network=policy, value_network=net, score_taken=True)(data)
    following, log_pi = data["next"], policy.get_dist(data.clone()).log_prob(data["action"])
    expected, _ = vtrace_advantage_estimate(
        0.9, log_pi.unsqueeze(-1), data["action_log_prob"].unsqueeze(-1),
        found["state_value"], found["next", "state_value"], following["reward"], following["done"],
        following["terminated"],
    )  # fmt: skip
    torch.testing.assert_close(found["advantage"], expected.detach())


def test_vtrace_gives_the_actor_no_gradients_and_keeps_what_it_requires():
    policy, data = actor(), rollout()
    data["action_log_prob"] = torch.zeros(2, 6)
    found = VTrace(gamma=0.9, actor_network=policy, value_network=network(), differentiable=True)(data)
    assert not found["advantage"].requires_grad
    assert all(one.requires_grad for one in policy.parameters())


def test_vtrace_names_the_score_that_is_missing():
    with pytest.raises(KeyError, match=r"action_log_prob.* is missing, which VTrace reads"):
        VTrace(gamma=0.9, actor_network=actor(), value_network=network())(rollout())


def test_keys_are_not_given_to_the_constructor():
    with pytest.raises(RuntimeError, match=r"set_keys\(advantage='a'\) after construction"):
        GAE(gamma=0.9, lmbda=0.8, value_network=network(), advantage_key="a")
