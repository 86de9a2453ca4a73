"""Losses on a policy's own steps: what they teach, what they tell, and where advantages come from."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import (
    CompositeDistribution,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from flambeau.rl.modules import IndependentNormal, PercentileValueNorm, ProbabilisticActor, TanhNormal, ValueOperator
from flambeau.rl.modules.models.multiagent import QMixer
from flambeau.rl.modules.tensordict_module.actors import QValueModule
from flambeau.rl.objectives import A2CLoss, ClipPPOLoss, KLPENPPOLoss, PPOLoss, ReinforceLoss, SoftUpdate
from flambeau.rl.objectives._surrogates import effective_share, explained_variance, standardized
from flambeau.rl.objectives.multiagent import IPPOLoss, MAPPOLoss, QMixerLoss

ALL = [ReinforceLoss, A2CLoss, PPOLoss, ClipPPOLoss, KLPENPPOLoss, MAPPOLoss, IPPOLoss]
PPO = ALL[2:]


def actor(kind=IndependentNormal, bias=None, **options):
    linear = nn.Linear(4, 4)
    if bias is not None:
        nn.init.zeros_(linear.weight)
        linear.bias.data = torch.tensor(bias)
    normal = TensorDictModule(nn.Sequential(linear, NormalParamExtractor()), ["observation"], ["loc", "scale"])
    return ProbabilisticActor(
        normal, ["loc", "scale"], distribution_class=kind, return_log_prob=True, default_interaction_type="random",
        **options,
    )  # fmt: skip


def critic():
    return ValueOperator(nn.Linear(4, 1), ["observation"])


def steps(*shape, policy=None, advantages=True):
    """What a policy did, with advantages in the batch, or without."""
    torch.manual_seed(0)
    shape = shape or (3, 5)
    data = TensorDict({"observation": torch.randn(*shape, 4)}, shape)
    with torch.no_grad():
        data = (policy or actor())(data)
    done = torch.rand(*shape, 1) > 0.7
    data["next"] = TensorDict(
        {"observation": torch.randn(*shape, 4), "reward": torch.randn(*shape, 1), "done": done, "terminated": done},
        shape,
    )
    if advantages:
        for name in ("advantage", "value_target", "state_value"):
            data[name] = torch.randn(*shape, 1)
    return data


def test_reinforce_makes_likelier_what_had_an_advantage():
    policy, data = actor(bias=[0.0, 0.0, 0.5, 0.5]), steps()
    data["advantage"] = (data["action"][..., :1] > 0).float() * 2 - 1
    loss = ReinforceLoss(policy, critic())
    optimizer = torch.optim.SGD(loss.parameters(), 0.1)
    for _ in range(5):
        loss(data)["loss_actor"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert policy.module[0].module[0].bias[0] > 0.1


@pytest.mark.parametrize("kind", ALL)
def test_advantages_are_estimated_where_a_batch_has_none(kind):
    policy = actor()
    data = steps(policy=policy, advantages=False)
    loss = kind(policy, critic()).make_value_estimator("gae", gamma=0.9, lmbda=0.8)
    found = loss(data.clone())
    loss.value_estimator(data)
    given = loss(data)
    for name in loss.out_keys:
        torch.testing.assert_close(found[name], given[name])


def test_only_reinforce_writes_what_it_estimated():
    policy = actor()
    for kind in ALL[:4]:
        data = steps(policy=policy, advantages=False)
        before = set(data.keys(True, True))
        kind(policy, critic())(data)
        written = {"advantage", "value_target", "state_value", ("next", "state_value")}
        assert set(data.keys(True, True)) - before == (written if kind is ReinforceLoss else set())


def test_ratios_beyond_the_bound_earn_nothing_more():
    policy, data = actor(), steps(policy=None)
    data = policy(data).detach()
    data["advantage"], data["action_log_prob"] = torch.ones(3, 5, 1), data["action_log_prob"] - 1  # ratio e
    loss = ClipPPOLoss(policy, critic(), clip_epsilon=0.2, entropy_bonus=False)
    found = loss(data)
    found["loss_objective"].backward()
    torch.testing.assert_close(found["loss_objective"], torch.tensor(-1.2))
    assert found["clip_fraction"] == 1 and not policy.module[0].module[0].weight.grad.any()
    assert loss(data.set("advantage", -torch.ones(3, 5, 1)))["loss_objective"] > 2.7  # what harms counts in full


def test_bounds_of_ratios_may_differ_below_and_above():
    policy = actor()
    data = policy(steps()).detach()
    data["action_log_prob"] = data["action_log_prob"] - 1
    data["advantage"] = torch.ones(3, 5, 1)
    found = ClipPPOLoss(policy, critic(), clip_epsilon=(0.1, 0.5))(data)
    torch.testing.assert_close(found["loss_objective"], torch.tensor(-1.5))


def test_largest_ratios_keep_a_gradient():
    policy = actor()
    data = policy(steps()).detach()
    data["action_log_prob"] = data["action_log_prob"] - 50
    data["advantage"] = torch.ones(3, 5, 1)
    found = PPOLoss(policy, critic(), max_importance_ratio=2.0, entropy_bonus=False)(data)
    found["loss_objective"].backward()
    torch.testing.assert_close(found["loss_objective"], torch.tensor(-2.0))
    assert policy.module[0].module[0].weight.grad.any()


def test_penalties_follow_the_divergence_and_start_over():
    policy = actor()
    data = policy(steps()).detach()
    loss = KLPENPPOLoss(policy, critic(), dtarg=0.1, beta=1.0)
    assert loss(data)["kl"].abs().max() < 1e-6 and loss.beta == 0.5
    data["loc"] = data["loc"] + 3
    loss(data)
    assert loss.beta == 1.0
    loss(data)
    assert loss.beta == 2.0
    loss.reset()
    assert loss.beta == 1.0


def test_a_delayed_actor_is_what_the_policy_stays_near_to():
    policy = actor()
    data = policy(steps()).detach()
    data["action_log_prob"] = data["action_log_prob"] - 1
    data["action"] = data["loc"]
    data["action_log_prob"] = policy.log_prob(data).detach() - 1
    loss = ClipPPOLoss(policy, critic(), delay_actor=True)
    update = SoftUpdate(loss, eps=0.9)
    assert loss(data)["clip_fraction"] == 0 and loss(data)["kl_approx"] == 0
    with torch.no_grad():
        policy.module[0].module[0].bias[:2].add_(3)
    moved = loss(data)["kl_approx"]
    update.step()
    assert 0 < loss(data)["kl_approx"] < moved


def test_entropies_without_a_formula_are_estimated_by_samples():
    loss = A2CLoss(actor(TanhNormal, distribution_kwargs={"low": -1, "high": 1}), critic(), samples_mc_entropy=2000)
    known = A2CLoss(actor(), critic())
    torch.manual_seed(0)
    dist = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(3, 2), torch.ones(3, 2)), 1)
    squashed = TanhNormal(torch.zeros(3, 2), torch.full((3, 2), 0.1))
    assert known.get_entropy_bonus(dist).shape == (3, 1)
    uniform = torch.distributions.Normal(0.0, 0.1).entropy() * 2  # which tanh hardly changes near 0
    torch.testing.assert_close(loss.get_entropy_bonus(squashed).mean(), uniform, rtol=0, atol=0.1)


def heads():
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 5)

        def forward(self, observation):
            return self.layer(observation).split([3, 2], -1)

    kinds = {"arm": torch.distributions.Categorical, "leg": torch.distributions.Categorical}
    return ProbabilisticTensorDictSequential(
        TensorDictModule(Split(), ["observation"], [("params", "arm", "logits"), ("params", "leg", "logits")]),
        ProbabilisticTensorDictModule(
            in_keys=["params"], out_keys=["arm", "leg"], distribution_class=CompositeDistribution,
            distribution_kwargs={"distribution_map": kinds}, return_log_prob=True, default_interaction_type="random",
        ),
    )  # fmt: skip


@pytest.mark.parametrize("names", [("arm", "leg"), ("arm_entropy", "leg_entropy")])
def test_each_head_may_have_a_coefficient(names):
    policy = heads()
    data = policy(steps()).detach()
    loss = ClipPPOLoss(policy, critic(), entropy_coeff=dict(zip(names, (0.5, 2.0), strict=True)))
    found = loss(data)
    each = found["composite_entropy"]
    expected = -(0.5 * each["arm_entropy"].mean() + 2 * each["leg_entropy"].mean())
    torch.testing.assert_close(found["loss_entropy"].detach(), expected)
    with pytest.raises(KeyError, match="leg"):
        ClipPPOLoss(policy, critic(), entropy_coeff={"arm": 1.0})(data)


@pytest.mark.parametrize("kind", [A2CLoss, PPOLoss, ClipPPOLoss, ReinforceLoss])
def test_actors_of_several_heads_are_scored_by_all_of_them(kind):
    policy = heads()
    data = policy(steps()).detach()
    found = kind(policy, critic())(data)
    assert all(value.isfinite().all() for value in found.values(True, True))


@pytest.mark.parametrize("kind", ALL)
def test_networks_are_submodules_where_they_are_not_taken_apart(kind):
    policy, values, data = actor(), critic(), steps()
    data = policy(data).detach()
    apart, whole = kind(policy, values), kind(policy, values, functional=False)
    assert not whole.functional and whole.actor_network_params is None
    assert {name.partition(".")[0] for name, _ in whole.named_parameters()} == {"actor_network", "critic_network"}
    gradients = []
    for loss in (apart, whole):
        found = loss(data.clone())
        sum(value.sum() for name, value in found.items() if name.startswith("loss_")).backward()
        gradients.append([each.grad.clone() for each in loss.parameters()])
        loss.zero_grad()
    torch.testing.assert_close(*gradients)


def test_heads_of_critics_read_what_the_actor_worked_out():
    body = TensorDictModule(nn.Linear(4, 6), ["observation"], ["hidden"])
    head = TensorDictModule(nn.Sequential(nn.Linear(6, 4), NormalParamExtractor()), ["hidden"], ["loc", "scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=IndependentNormal)
    value = TensorDictModule(nn.Linear(6, 1), ["hidden"], ["state_value"])
    for kind, apart in ((ClipPPOLoss, False), (A2CLoss, True), (ReinforceLoss, True)):
        loss = kind(ProbabilisticTensorDictSequential(body, head, draw), value, separate_losses=apart)
        body.zero_grad()
        found = loss(steps().exclude("loc", "scale"))
        found["loss_value" if kind is ReinforceLoss else "loss_critic"].backward()
        assert (body.module.weight.grad is None) == apart


def test_advantages_are_divided_by_the_scale_of_targets_that_were_estimated_in_training():
    norm = PercentileValueNorm(shape=1, rate=1.0, min_scale=1e-3)
    policy = actor()
    loss = PPOLoss(policy, critic(), advantage_norm=norm)
    loss(steps(policy=policy))
    assert norm.scale() == 1e-3  # those that came with the batch were not this loss's
    loss.eval()(steps(policy=policy, advantages=False))
    assert norm.scale() == 1e-3
    loss.train()(steps(policy=policy, advantages=False))
    assert norm.scale() > 1e-3


def test_values_may_be_kept_near_to_those_in_the_batch():
    data = steps()
    data["state_value"] = data["state_value"] + 100
    found = ClipPPOLoss(actor(), critic(), clip_value=True)(data)
    assert found["value_clip_fraction"] == 1 and found["loss_critic"] > 90
    with pytest.raises(KeyError, match="state_value"):
        ClipPPOLoss(actor(), critic(), clip_value=0.1)(data.exclude("state_value"))


def test_the_effective_share_of_steps_falls_with_unequal_weights():
    assert effective_share(torch.zeros(4, 1)) == 1
    torch.testing.assert_close(effective_share(torch.tensor([[0.0], [-100.0]])), torch.tensor(0.5))
    assert effective_share(torch.tensor([[900.0], [900.0]])) == 1


def test_explained_variance_is_one_for_the_targets_themselves():
    target = torch.randn(6, 2)
    torch.testing.assert_close(explained_variance(target + 1, target), torch.ones(2))
    assert explained_variance(-target, target).max() < 0


def test_advantages_are_standardized_apart_along_chosen_dimensions():
    values = torch.randn(7, 3, 1) * torch.tensor([1.0, 10.0, 100.0]).view(3, 1)
    found = standardized(values, (1,))
    torch.testing.assert_close(found.std(0), torch.ones(3, 1))
    with pytest.raises(ValueError, match="exclude_dims"):
        standardized(values, (3,))


@pytest.mark.parametrize("kind", PPO)
def test_what_makes_no_sense_is_refused_by_name(kind):
    with pytest.raises(TypeError, match="zzz"):
        kind(actor(), critic(), zzz=1)
    with pytest.raises(TypeError, match="entropy_coeff"):
        kind(actor(), critic(), entropy_coef=0.1)
    with pytest.raises(TypeError, match="actor_network"):
        kind(None, critic())
    with pytest.raises(NotImplementedError, match="ProbabilisticActor"):
        kind(TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"]), critic())
    with pytest.raises(ValueError, match="delay_actor"):
        kind(actor(), critic(), delay_actor=True, functional=False)
    with pytest.raises(ValueError, match="advantage"):
        kind(actor(), critic(), normalize_advantage=False)(steps(5).set("advantage", torch.ones(5)))
    with pytest.raises(KeyError, match="action_log_prob"):
        kind(actor(), critic())(steps().exclude("action_log_prob"))


@pytest.mark.parametrize("kind", PPO)
def test_the_state_of_a_loss_has_its_coefficients(kind):
    loss = kind(actor(), critic())
    other = kind(actor(), critic(), entropy_coeff=0.5)
    other.load_state_dict(loss.state_dict())
    assert other.entropy_coeff == loss.entropy_coeff == torch.tensor(0.01)
    assert "entropy_coeff" in loss.state_dict() and "critic_network_params.module.weight" in loss.state_dict()


def test_some_of_the_results_can_be_selected():
    loss = ClipPPOLoss(actor(), critic()).select_out_keys("loss_objective", "ESS")
    assert set(loss(steps()).keys()) == {"loss_objective", "ESS"}


@pytest.mark.parametrize("kind", [ReinforceLoss, A2CLoss, PPOLoss, ClipPPOLoss])
def test_losses_are_functions_of_their_parameters(kind):
    """`torch.func` maps a loss over several sets of parameters, as meta-learning does."""
    policy = actor()
    data, loss = steps(policy=policy), kind(policy, critic())
    params = TensorDict.from_module(loss).data

    def objective(own):
        with own.to_module(loss):
            return loss(data.copy())[loss.out_keys[0]]

    both = torch.stack([params, params.apply(lambda one: one + 0.1)])
    found = torch.vmap(objective)(both)
    torch.testing.assert_close(found, torch.stack([objective(each) for each in both.unbind(0)]))
    gradient = torch.func.grad(objective)(params)
    assert gradient["actor_network_params", "module", "0", "module", "0", "weight"].any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ReinforceLoss, A2CLoss, PPOLoss, ClipPPOLoss, KLPENPPOLoss])
def test_losses_compile_without_graph_breaks(kind):
    policy = actor()
    data, loss = steps(policy=policy), kind(policy, critic())
    expected = loss(data.clone())
    if kind is KLPENPPOLoss:
        loss.reset()
    torch._dynamo.reset()
    found = torch.compile(loss, fullgraph=True, backend="aot_eager")(data.clone())
    for name in loss.out_keys:
        torch.testing.assert_close(found[name], expected[name])


# --- teams


def team(*shape):
    data = steps(*shape, advantages=False)
    shape = data.shape
    agents = TensorDict({"observation": torch.randn(*shape, 2, 4), "state_value": torch.zeros(*shape, 2, 1)}, shape)
    data["agents"] = agents
    data["next", "agents"] = TensorDict({"observation": torch.randn(*shape, 2, 4)}, shape)
    return data.exclude("observation", "action", "action_log_prob", "loc", "scale", ("next", "observation"))


@pytest.mark.parametrize("kind", [MAPPOLoss, IPPOLoss])
def test_rewards_of_a_team_reach_each_agent(kind):
    layers = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    normal = TensorDictModule(layers, [("agents", "observation")], [("agents", "loc"), ("agents", "scale")])
    policy = ProbabilisticActor(
        normal, [("agents", "loc"), ("agents", "scale")], [("agents", "action")], distribution_class=IndependentNormal,
        return_log_prob=True,
    )  # fmt: skip
    values = TensorDictModule(nn.Linear(4, 1), [("agents", "observation")], [("agents", "state_value")])
    loss = kind(policy, values, reduction="none")
    loss.set_keys(value=("agents", "state_value"))
    data = team(3, 5)
    with torch.no_grad():
        policy(data)
    found = loss(data)
    assert found["loss_objective"].shape == found["loss_critic"].shape == (3, 5, 2)


def test_the_value_of_a_team_mixes_what_its_agents_did():
    local = TensorDictModule(nn.Linear(4, 3), [("agents", "observation")], [("agents", "action_value")])
    keys = [("agents", "action"), ("agents", "action_value"), ("agents", "chosen_action_value")]
    choose = QValueModule(action_value_key=keys[1], out_keys=keys, action_space="categorical")
    from flambeau.data.tensordict.nn import TensorDictSequential

    network = TensorDictSequential(local, choose)
    mixer = TensorDictModule(QMixer(state_shape=(2,), mixing_embed_dim=4, n_agents=2, device="cpu"),
                             [("agents", "chosen_action_value"), "state"], ["chosen_action_value"])  # fmt: skip
    loss, data = QMixerLoss(network, mixer, action_space="categorical"), team(6)
    data["state"], data["next", "state"] = torch.randn(6, 2), torch.randn(6, 2)
    network(data)
    SoftUpdate(loss, eps=0.9)
    optimizer = torch.optim.Adam(loss.parameters(), 0.01)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        found = loss(data)["loss"]
        found.backward()
        optimizer.step()
        values.append(found.item())
    assert values[-1] < values[0] / 4 and data["td_error"].shape == (6, 1)
    with pytest.raises(TypeError, match="TensorDictModule"):
        QMixerLoss(network, nn.Linear(2, 1), action_space="categorical")
