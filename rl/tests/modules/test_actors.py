"""Policies, values and exploration on tensordicts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule, set_interaction_type
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, MultiOneHot, OneHot
from flambeau.rl.modules import (
    MLP,
    ActorCriticOperator,
    ActorValueOperator,
    AdditiveGaussianModule,
    DiffusionActor,
    DistributionalQValueModule,
    EGreedyModule,
    IndependentNormal,
    MultiStepActorWrapper,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    RandomPolicy,
    SafeModule,
    SafeSequential,
    TanhModule,
    TanhNormal,
    ValueOperator,
    WorldModel,
    set_exploration_modules_spec_from_env,
)


def policy(**options):
    network = nn.Sequential(MLP(3, 4, num_cells=[8]), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]), ["loc", "scale"],
        distribution_class=options.pop("distribution_class", TanhNormal), **options,
    )  # fmt: skip


def observations(count=5):
    return TensorDict(observation=torch.randn(count, 3), batch_size=[count])


def test_safe_modules_project_what_they_write():
    module = SafeModule(nn.Linear(3, 2), ["o"], ["a"], spec=Bounded(-1, 1, (2,)), safe=True)
    assert bool((module(TensorDict(o=torch.randn(4, 3) * 99, batch_size=[4]))["a"].abs() <= 1).all())
    assert bool((module(torch.randn(4, 3) * 99).abs() <= 1).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"safe": True}, "there is no spec to project into"),
        ({"spec": Composite(b=OneHot(2))}, "the spec keys are"),
        ({"spec": OneHot(2), "out_keys": ["a", "b"]}, "but got one spec"),
    ],
)
def test_specs_that_do_not_fit_are_refused(options, message):
    with pytest.raises(RuntimeError, match=message):
        SafeModule(nn.Linear(3, 2), ["o"], options.pop("out_keys", ["a"]), **options)


def test_random_writes_an_element_of_the_spec():
    module = SafeModule(nn.Linear(3, 2), ["o"], ["a"], spec=Bounded(-1, 1, (2,)))
    assert module.random(TensorDict(batch_size=[4]))["a"].shape == (4, 2)
    with pytest.raises(RuntimeError, match="no spec of 'a'"):
        SafeModule(nn.Linear(3, 2), ["o"], ["a"]).random(TensorDict(batch_size=[4]))


def test_the_spec_of_a_sequence_is_that_of_its_modules():
    first = SafeModule(nn.Linear(3, 2), ["o"], ["a"], spec=Bounded(-1, 1, (2,)))
    sequence = SafeSequential(first, SafeModule(nn.Linear(2, 1), ["a"], ["b"]))
    assert isinstance(sequence.spec["a"], Bounded) and sequence.spec["b"] is None


def test_actions_and_scores_of_a_policy_agree_with_its_distribution():
    actor = policy(return_log_prob=True, distribution_class=IndependentNormal)
    with set_interaction_type("random"):
        out = actor(observations())
    torch.testing.assert_close(out["action_log_prob"], actor.get_dist(out).log_prob(out["action"]))


def test_scores_of_saturated_actions_are_those_of_what_was_drawn():
    actor = policy(return_log_prob=True)
    with torch.no_grad():
        actor[0].module[0][-1].bias[:2] = 30.0
    with set_interaction_type("random"):
        out = actor(observations())
    assert bool(out["action_log_prob"].isfinite().all()) and bool((out["action"].abs() < 1).all())


def test_a_policy_needs_modules_with_keys():
    with pytest.raises(TypeError, match="Linear has no keys"):
        ProbabilisticActor(nn.Linear(3, 2), ["loc", "scale"])


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, of its compiler
@pytest.mark.parametrize("kind", ["deterministic", "random"])
def test_policies_compile_without_breaks(kind):
    actor = policy(return_log_prob=True)

    def act(tensordict):
        with set_interaction_type(kind):
            return actor(tensordict)

    start = observations()
    torch.manual_seed(0)
    plain = act(start.clone())
    torch.manual_seed(0)
    compiled = torch.compile(act, backend="eager", fullgraph=True)(start.clone())
    torch.testing.assert_close(compiled["action"], plain["action"])
    torch.testing.assert_close(compiled["action_log_prob"], plain["action_log_prob"])


def test_policies_work_with_stacked_parameters():
    actor, start = policy(), observations()
    values = TensorDict.from_module(actor)

    def score(parameters):
        with parameters.to_module(actor):
            return actor.get_dist(start).log_prob(torch.zeros(5, 2))

    both = torch.vmap(score)(values.apply(lambda value: torch.stack([value, value + 1])))
    torch.testing.assert_close(both[0], actor.get_dist(start).log_prob(torch.zeros(5, 2)))


def test_masked_actions_are_not_chosen():
    values, mask = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[True, False, True]])
    action, _, chosen = QValueModule("one-hot", action_mask_key="mask")(values, mask)
    assert action.tolist() == [[0, 0, 1]] and chosen.tolist() == [[2.0]]


@pytest.mark.parametrize("spec", [OneHot(4), Categorical(4), MultiOneHot([2, 2])])
def test_greedy_actions_lie_in_their_spec(spec):
    actor = QValueActor(nn.Linear(3, 4), spec=spec)
    out = actor(observations())
    assert all(bool(spec.is_in(action.to(spec.dtype))) for action in out["action"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither action_space nor spec"),
        ({"action_space": "circle"}, "cannot be chosen by their values"),
        ({"action_space": "categorical", "spec": OneHot(4)}, "leave one of them out"),
        ({"action_space": "mult-one-hot"}, "needs var_nums"),
    ],
)
def test_action_spaces_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        QValueModule(**arguments)


def test_distributions_of_values_are_to_be_normalized():
    module = DistributionalQValueModule("one-hot", torch.arange(3.0))
    with pytest.raises(ValueError, match="above 0"):
        module(torch.ones(2, 3, 4))
    with pytest.raises(RuntimeError, match="an atom for each element"):
        module(torch.zeros(2, 5, 4))


def test_operators_share_their_features():
    common = SafeModule(nn.Linear(3, 4), ["o"], ["h"])
    operator = ActorValueOperator(
        common, SafeModule(nn.Linear(4, 2), ["h"], ["action"]), ValueOperator(nn.Linear(4, 1), ["h"])
    )
    td = TensorDict(o=torch.randn(5, 3), batch_size=[5])
    both = operator(td.clone())
    torch.testing.assert_close(operator.get_policy_operator()(td.clone())["action"], both["action"])
    torch.testing.assert_close(operator.get_value_operator()(td.clone())["state_value"], both["state_value"])
    with pytest.raises(RuntimeError, match="the key of states' values"):
        ActorCriticOperator(common, operator[1], operator[2])


def test_a_random_action_is_taken_with_probability_epsilon():
    torch.manual_seed(0)
    module = EGreedyModule(OneHot(4), eps_init=0.3)
    td = TensorDict(action=torch.nn.functional.one_hot(torch.zeros(20000, dtype=torch.int64), 4), batch_size=[20000])
    with set_interaction_type("random"):
        changed = (module(td.clone())["action"].argmax(-1) != 0).float().mean()
    assert abs(float(changed) - 0.3 * 3 / 4) < 0.01
    with set_interaction_type("deterministic"):
        assert bool((module(td.clone())["action"] == td["action"]).all())


@pytest.mark.parametrize(
    "module",
    [AdditiveGaussianModule(Bounded(-1, 1, (3,))), OrnsteinUhlenbeckProcessModule(Bounded(-1, 1, (3,)), sigma=9.0)],
)
def test_noisy_actions_stay_within_their_spec(module):
    td = TensorDict(action=torch.ones(100, 3), batch_size=[100])
    with set_interaction_type("random"):
        assert bool((module(td)["action"].abs() <= 1).all())


def test_exploration_falls_to_its_end_and_stays():
    module = EGreedyModule(OneHot(4), eps_init=1.0, eps_end=0.1, annealing_num_steps=10)
    for _ in range(5):
        module.step()
    assert float(module.eps) == pytest.approx(0.55)
    module.step(100)
    assert float(module.eps) == pytest.approx(0.1)
    with pytest.raises(RuntimeError, match="cannot grow"):
        EGreedyModule(OneHot(4), eps_init=0.1, eps_end=0.2)


def test_exploration_takes_its_spec_from_an_environment():
    class Env:
        full_action_spec = Composite(action=Bounded(-1, 1, (3,)))

    module = AdditiveGaussianModule()
    with pytest.raises(RuntimeError, match="spec has not been set"):
        module(TensorDict(action=torch.ones(3)))
    set_exploration_modules_spec_from_env(nn.Sequential(module), Env())
    assert module(TensorDict(action=torch.ones(3)))["action"].shape == (3,)
    random_policy = RandomPolicy()
    random_policy.set_action_spec_from_env(Env())
    assert random_policy(TensorDict())["action"].shape == (3,)


def test_tanh_maps_into_the_bounds_of_a_spec():
    module = TanhModule(["a"], spec=Bounded(-2, 1, (3,)), clamp=True)
    value = module(TensorDict(a=torch.tensor([-99.0, 0.0, 99.0])))["a"]
    assert -2 < float(value[0]) < -1.99 and float(value[1]) == -0.5 and 0.99 < float(value[2]) < 1


def test_plans_are_executed_action_by_action():
    planner = TensorDictModule(lambda o: o.unsqueeze(-1) + torch.arange(3.0).view(3, 1), ["o"], ["action"])
    actor = MultiStepActorWrapper(planner, n_steps=3)
    td = TensorDict(o=torch.zeros(1, 1), is_init=torch.ones(1, 1, dtype=torch.bool), batch_size=[1])
    taken = []
    for _ in range(5):
        td = actor(td)
        taken.append(float(td["action"]))
        td["is_init"], td["o"] = torch.zeros(1, 1, dtype=torch.bool), td["o"] + 10
    assert taken == [0.0, 1.0, 2.0, 30.0, 31.0]


def test_deterministic_diffusion_repeats_itself():
    actor = DiffusionActor(2, 3, num_steps=4)
    with set_interaction_type("deterministic"):
        assert torch.equal(
            actor(observations(1).fill_("observation", 1.0))["action"],
            actor(observations(1).fill_("observation", 1.0))["action"],
        )
    with pytest.raises(ValueError, match="num_steps is 0"):
        DiffusionActor(2, num_steps=0)


def test_world_models_encode_step_and_decode():
    model = WorldModel(
        TensorDictModule(nn.Linear(3, 4), ["o"], ["z"]),
        TensorDictModule(lambda z, a: z + a, ["z", "action"], [("next", "z")]),
        TensorDictModule(nn.Linear(4, 1), [("next", "z")], [("next", "reward")]),
    )
    out = model.step(model.encode(TensorDict(o=torch.randn(2, 3), action=torch.ones(2, 4), batch_size=[2])))
    torch.testing.assert_close(out["next", "z"], out["z"] + 1)
    with pytest.raises(RuntimeError, match="there is no decoder"):
        model.decode(out)
