"""Losses of critics and actors: what they train, towards what, and what they leave."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from flambeau.core.testing.fill import tensor
from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
from flambeau.rl.data.tensor_specs import Bounded, Composite, OneHot
from flambeau.rl.modules import Actor, OneHotCategorical, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from flambeau.rl.objectives import (
    CQLLoss,
    CrossQLoss,
    DDPGLoss,
    DiscreteCQLLoss,
    DiscreteIQLLoss,
    DiscreteSACLoss,
    DQNLoss,
    IQLLoss,
    REDQLoss,
    SACLoss,
    SoftUpdate,
    TD3BCLoss,
    TD3Loss,
    TQCLoss,
    ValueEstimators,
)

OBS, ACT = 4, 3


class Critic(nn.Module):
    def __init__(self, out=1):
        super().__init__()
        self.l = nn.Linear(OBS + ACT, out)

    def forward(self, observation, action):
        return self.l(torch.cat([observation, action.to(observation.dtype)], -1))


def policy(spec=True):
    net = TensorDictModule(
        nn.Sequential(nn.Linear(OBS, 2 * ACT), NormalParamExtractor()), ["observation"], ["loc", "scale"]
    )
    return ProbabilisticActor(
        net, in_keys=["loc", "scale"], distribution_class=TanhNormal, spec=Bounded(-1, 1, (ACT,)) if spec else None
    )


def chooser():
    net = TensorDictModule(nn.Linear(OBS, ACT), ["observation"], ["logits"])
    return ProbabilisticActor(net, in_keys=["logits"], distribution_class=OneHotCategorical, spec=OneHot(ACT))


def deterministic():
    return Actor(nn.Sequential(nn.Linear(OBS, ACT), nn.Tanh()), spec=Bounded(-1, 1, (ACT,)), in_keys=["observation"])


def critic(out=1):
    return ValueOperator(Critic(out), in_keys=["observation", "action"])


def values_of_actions(key="action_value"):
    return ValueOperator(nn.Linear(OBS, ACT), in_keys=["observation"], out_keys=[key])


def state_value():
    return ValueOperator(nn.Linear(OBS, 1), in_keys=["observation"])


def q_actor():
    return QValueActor(nn.Linear(OBS, ACT), spec=OneHot(ACT), in_keys=["observation"])


LOSSES = {
    "DQNLoss": lambda **o: DQNLoss(q_actor(), **o),
    "DDPGLoss": lambda **o: DDPGLoss(deterministic(), critic(), **o),
    "TD3Loss": lambda **o: TD3Loss(deterministic(), critic(), bounds=(-1, 1), **o),
    "TD3BCLoss": lambda **o: TD3BCLoss(deterministic(), critic(), bounds=(-1, 1), **o),
    "SACLoss": lambda **o: SACLoss(policy(), critic(), **o),
    "SACLoss with a value network": lambda **o: SACLoss(policy(), critic(), state_value(), **o),
    "DiscreteSACLoss": lambda **o: DiscreteSACLoss(chooser(), values_of_actions(), num_actions=ACT, **o),
    "CrossQLoss": lambda **o: CrossQLoss(policy(), critic(), **o),
    "REDQLoss": lambda **o: REDQLoss(policy(), critic(), **o),
    "TQCLoss": lambda **o: TQCLoss(policy(), critic(5), num_qvalue_nets=2, top_quantiles_to_drop_per_net=1, **o),
    "IQLLoss": lambda **o: IQLLoss(policy(), critic(), state_value(), **o),
    "DiscreteIQLLoss": lambda **o: DiscreteIQLLoss(
        chooser(), values_of_actions("state_action_value"), state_value(), **o
    ),
    "CQLLoss": lambda **o: CQLLoss(policy(), critic(), num_random=2, **o),
    "DiscreteCQLLoss": lambda **o: DiscreteCQLLoss(q_actor(), **o),
}
CHOICES = ("DQNLoss", "DiscreteSACLoss", "DiscreteIQLLoss", "DiscreteCQLLoss")


def batch(name="SACLoss", shape=(6,)):
    action = tensor("action", (*shape, ACT)) * 0.9
    if name in CHOICES:
        action = nn.functional.one_hot(action.argmax(-1), ACT)
    done = tensor("done", (*shape, 1)) > 0.3
    following = {"observation": tensor("next", (*shape, OBS)), "reward": tensor("reward", (*shape, 1)), "done": done}
    now = {"observation": tensor("now", (*shape, OBS)), "action": action}
    return TensorDict({**now, "next": {**following, "terminated": done.clone()}}, shape)


def total(out):
    return sum(value for key, value in out.items() if key.startswith("loss"))


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setenv("RL_WARNINGS", "0")


def without_warnings(loss):
    loss.__dict__["_told"] = True  # of targets that nothing updates
    return loss


@pytest.mark.parametrize("name", LOSSES)
def test_every_trained_parameter_gets_a_gradient_and_targets_get_none(name):
    loss = without_warnings(LOSSES[name]())
    total(loss(batch(name))).backward()
    assert all(parameter.grad is not None for _, parameter in loss.named_parameters())
    assert not any(buffer.requires_grad for buffer in loss.buffers())


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_gets_priorities_of_its_shape_without_gradients(name):
    data = batch(name, (2, 3))
    without_warnings(LOSSES[name]())(data)
    assert data["td_error"].shape[:2] == (2, 3) and not data["td_error"].requires_grad
    assert data["td_error"].ge(0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_not_reduced_sums_up_to_the_sum(name):
    loss = without_warnings(LOSSES[name](reduction="none"))
    torch.manual_seed(1)
    single = loss(batch(name))
    loss.reduction = "sum"
    torch.manual_seed(1)
    for key, value in loss(batch(name)).items():
        if key.startswith("loss"):
            torch.testing.assert_close(single[key].sum(), value)


@pytest.mark.parametrize(
    "name", [name for name in LOSSES if name not in ("DQNLoss", "DDPGLoss", "DiscreteCQLLoss", "DiscreteIQLLoss")]
)
def test_critics_called_together_or_one_by_one_give_the_same(name):
    loss = without_warnings(LOSSES[name]())
    results = []
    for loss.deactivate_vmap in (False, True):
        torch.manual_seed(1)
        results.append(loss(batch(name)))
    for key in loss.out_keys:
        torch.testing.assert_close(*(out[key] for out in results))


@pytest.mark.parametrize("name", LOSSES)
def test_the_discount_is_the_estimators(name):
    loss = without_warnings(LOSSES[name]())
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.0)
    none = loss(batch(name))
    loss.make_value_estimator(gamma=0.99)
    key = "loss" if name == "DQNLoss" else "loss_value" if name == "DDPGLoss" else "loss_qvalue"
    assert not torch.equal(none[key], loss(batch(name))[key])


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_called_by_arguments_too(name):
    loss, data = without_warnings(LOSSES[name]()), batch(name)
    given = {"_".join(key) if isinstance(key, tuple) else key: data.get(key, None) for key in loss.in_keys}
    given = {key: value for key, value in given.items() if value is not None}
    torch.manual_seed(1)
    expected = loss(data.clone())
    torch.manual_seed(1)
    found = loss(**given)
    torch.testing.assert_close((found if isinstance(found, tuple) else (found,))[0], expected[loss.out_keys[0]])


@pytest.mark.parametrize("name", LOSSES)
def test_select_out_keys_keeps_some_results(name):
    loss = without_warnings(LOSSES[name]())
    loss.select_out_keys(loss.out_keys[0])
    assert list(loss(batch(name)).keys()) == loss.out_keys == loss.out_keys_source[:1]


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in CHOICES])
def test_keys_of_the_step_can_be_renamed(name):
    loss = without_warnings(LOSSES[name]())
    loss.set_keys(reward="gain", done="over", terminated="dead", priority="urgency")
    data = batch(name)
    torch.manual_seed(1)
    expected = without_warnings(copy.deepcopy(loss))
    for old, new in (("reward", "gain"), ("done", "over"), ("terminated", "dead")):
        data["next"].rename_key_(old, new)
    assert torch.isfinite(total(expected(data))) and "urgency" in data.keys() and "td_error" not in data.keys()  # noqa: SIM118


@pytest.mark.parametrize("name", ["DQNLoss", "DDPGLoss", "TD3Loss", "SACLoss", "DiscreteSACLoss", "TQCLoss"])
def test_weights_of_a_prioritized_buffer_weigh_errors_unless_they_are_not_wanted(name):
    key = "loss" if name == "DQNLoss" else "loss_value" if name == "DDPGLoss" else "loss_qvalue"
    one = batch(name).set("priority_weight", torch.tensor([1.0, 0, 0, 0, 0, 0]))
    seen = []
    for wanted in ("auto", False):
        torch.manual_seed(0)
        loss = without_warnings(LOSSES[name](use_prioritized_weights=wanted))
        torch.manual_seed(1)
        seen.append(loss(one)[key])
    assert not torch.isclose(*seen)


@pytest.mark.parametrize("name", LOSSES)
def test_states_are_stored_and_loaded_whole(name):
    loss, other = LOSSES[name](), LOSSES[name]()
    other.load_state_dict(loss.state_dict())
    for key, value in other.state_dict().items():
        assert torch.equal(value, loss.state_dict()[key]), key


def test_targets_follow_critics_slowly():
    loss = SACLoss(policy(), critic())
    update = SoftUpdate(loss, eps=0.5)
    with torch.no_grad():
        loss.qvalue_network_params["module", "l", "bias"].add_(2)
    before = loss.target_qvalue_network_params["module", "l", "bias"].clone()
    update.step()
    torch.testing.assert_close(loss.target_qvalue_network_params["module", "l", "bias"], before + 1)


def test_the_temperature_rises_while_the_entropy_is_below_its_target():
    loss = without_warnings(SACLoss(policy(), critic(), target_entropy=100.0))
    loss(batch())["loss_alpha"].backward()
    assert loss.log_alpha.grad < 0  # a step of an optimizer makes it larger


def test_the_temperature_stays_between_its_limits_and_these_are_part_of_the_state():
    loss = without_warnings(SACLoss(policy(), critic(), alpha_init=0.1, min_alpha=0.5))
    torch.testing.assert_close(loss(batch())["alpha"], torch.tensor(0.5))
    assert {"min_log_alpha", "max_log_alpha"} <= set(loss.state_dict())


def test_a_fixed_temperature_is_no_parameter():
    assert "log_alpha" not in dict(SACLoss(policy(), critic(), fixed_alpha=True).named_parameters())


@pytest.mark.parametrize("cls", [SACLoss, CrossQLoss, REDQLoss, CQLLoss])
def test_the_target_entropy_is_minus_the_number_of_action_elements(cls):
    assert cls(policy(), critic()).target_entropy == -ACT
    assert cls(policy(spec=False), critic(), action_spec=Composite(action=Bounded(-1, 1, (7,)))).target_entropy == -7
    with pytest.raises(RuntimeError, match="action_spec"):
        cls(policy(spec=False), critic()).target_entropy


def test_results_that_are_no_steps_are_left_out_or_wrapped_where_nothing_is_reduced():
    make = lambda mode: without_warnings(SACLoss(policy(), critic(), reduction="none", scalar_output_mode=mode))  # noqa: E731
    assert "alpha" not in make("exclude")(batch()).keys()  # noqa: SIM118
    assert make("non_tensor")(batch()).get_non_tensor("alpha") == 1
    with pytest.raises(ValueError, match="scalar_output_mode"):
        make("other")


def test_each_critic_of_the_first_soft_actor_critic_learns_from_its_own_part():
    loss = without_warnings(SACLoss(policy(), critic(), state_value(), num_qvalue_nets=4))
    with pytest.raises(RuntimeError, match="divided"):
        loss(batch())


def test_td3_wants_bounds_once():
    with pytest.raises(ValueError, match="action_spec"):
        TD3Loss(deterministic(), critic())
    with pytest.raises(ValueError, match="bounds"):
        TD3Loss(deterministic(), critic(), bounds=(-1, 1), action_spec=Bounded(-1, 1, (ACT,)))


def test_discounts_and_priority_keys_are_refused_by_constructors():
    with pytest.raises(TypeError, match="make_value_estimator"):
        SACLoss(policy(), critic(), gamma=0.9)
    with pytest.raises(RuntimeError, match="set_keys"):
        SACLoss(policy(), critic(), priority_key="p")


def test_masks_leave_steps_out_of_every_loss():
    for name in LOSSES:
        if name == "SACLoss with a value network":  # each step is another critic's
            continue
        loss = without_warnings(LOSSES[name](reduction="none"))
        out = loss(batch(name).set(("collector", "mask"), torch.tensor([True] * 5 + [False])))
        for key, value in out.items():
            if key.startswith("loss"):
                assert not value[..., 5].any(), (name, key)


def test_conservative_values_of_other_actions_go_down_and_those_of_taken_ones_up():
    loss = without_warnings(CQLLoss(policy(), critic(), num_random=20))
    data = batch()
    optimizer = torch.optim.SGD(loss.parameters(), 0.1)
    gap = []
    for _ in range(20):
        found = loss(data.clone())["loss_cql"]
        gap.append(found.item())
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    assert gap[-1] < gap[0]


def test_the_multiplier_grows_while_the_conservative_loss_is_above_its_threshold():
    loss = without_warnings(CQLLoss(policy(), critic(), with_lagrange=True, lagrange_thresh=-100.0))
    loss(batch())["loss_alpha_prime"].backward()
    assert loss.log_alpha_prime.grad < 0
    with pytest.raises(KeyError, match="cql_loss"):
        loss.alpha_prime_loss(batch())


def test_the_highest_atoms_are_left_out_of_targets():
    def target(drop):
        torch.manual_seed(0)
        loss = TQCLoss(policy(), critic(5), num_qvalue_nets=2, top_quantiles_to_drop_per_net=drop)
        torch.manual_seed(1)
        return loss.compute_target(batch())

    full, truncated = target(0), target(2)
    assert truncated.shape == (6, 6) and torch.equal(full[:, :6], truncated)
    with pytest.raises(ValueError, match="top_quantiles"):
        target(5)


def test_expectiles_above_the_mean_weigh_what_lies_above():
    found = IQLLoss.loss_value_diff(torch.tensor([2.0, -2.0]), 0.75)
    assert found.tolist() == [3.0, 1.0]


def test_states_after_the_end_are_not_looked_at_where_they_are_skipped():
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(OBS, 2 * ACT)

        def forward(self, observation):
            assert observation.isfinite().all()
            return self.l(observation)

    net = TensorDictModule(nn.Sequential(Fragile(), NormalParamExtractor()), ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(
        net, in_keys=["loc", "scale"], distribution_class=TanhNormal, spec=Bounded(-1, 1, (ACT,))
    )
    loss = without_warnings(SACLoss(actor, critic(), skip_done_states=True))
    data = batch()
    data["next", "observation"][data["next", "done"].squeeze(-1)] = float("nan")
    assert torch.isfinite(total(loss(data)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # of torch, while it compiles
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "SACLoss with a value network"])
def test_losses_compile_without_graph_breaks(name):
    torch.compiler.reset()
    loss = without_warnings(LOSSES[name]())
    loss.make_value_estimator(gamma=0.9)
    torch.manual_seed(1)
    expected = loss(batch(name))
    torch.manual_seed(1)
    found = torch.compile(loss, fullgraph=True, backend="eager")(batch(name))
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value)
