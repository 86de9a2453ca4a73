"""Distributions built from entries: which value is taken, where it goes, and its log-probability."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as D

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import (
    CompositeDistribution,
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    composite_lp_aggregate,
    interaction_type,
    set_composite_lp_aggregate,
    set_interaction_type,
)


def params() -> TensorDict:
    return TensorDict({"loc": torch.zeros(3), "scale": torch.ones(3)}, [3])


def normal(**options) -> ProbabilisticTensorDictModule:
    return ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=D.Normal, **options)


DISTRIBUTIONS = {
    "bernoulli": (D.Bernoulli, {"probs": torch.tensor([0.3, 0.8])}),
    "categorical": (D.Categorical, {"probs": torch.tensor([[0.3, 0.7], [0.8, 0.2]])}),
    "exponential": (D.Exponential, {"rate": torch.tensor([2.0])}),
    "beta": (D.Beta, {"concentration1": torch.tensor([2.0]), "concentration0": torch.tensor([3.0])}),
}


# The expected values are what the replaced library gives.
@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("bernoulli", "mode", [0.0, 1.0]),
        ("bernoulli", "mean", [0.3, 0.8]),
        ("bernoulli", "deterministic", [0.0, 1.0]),
        ("categorical", "deterministic", [1, 0]),
        ("exponential", "mode", [0.0]),
        ("exponential", "deterministic", [0.5]),
        ("exponential", "median", [0.34657]),
        ("beta", "mode", [1 / 3]),
        ("beta", "deterministic", [0.4]),
    ],
)
def test_the_interaction_type_chooses_the_value(name, kind, expected):
    distribution, arguments = DISTRIBUTIONS[name]
    module = ProbabilisticTensorDictModule(list(arguments), ["a"], distribution_class=distribution)
    with set_interaction_type(kind):
        value = module(TensorDict(arguments, [len(next(iter(arguments.values())))]))["a"]
    torch.testing.assert_close(value, torch.tensor(expected))


def test_a_median_that_does_not_exist_says_what_to_do():
    with set_interaction_type("median"), pytest.raises(NotImplementedError, match="interaction type"):
        ProbabilisticTensorDictModule(["probs"], ["a"], distribution_class=D.Bernoulli)(TensorDict(probs=torch.ones(1)))


def test_a_mean_without_formula_is_estimated():
    class Uniform(D.Uniform):
        @property
        def mean(self):
            raise NotImplementedError

    module = ProbabilisticTensorDictModule(
        ["low", "high"], ["a"], distribution_class=Uniform, default_interaction_type="mean", n_empirical_estimate=4000
    )
    value = module(TensorDict(low=torch.zeros(1), high=torch.ones(1)))["a"]
    torch.testing.assert_close(value, torch.tensor([0.5]), rtol=0, atol=0.05)


def test_types_nest_decorate_and_are_set():
    with set_interaction_type("random"):
        with set_interaction_type(None):
            assert interaction_type() is None
        assert interaction_type() is InteractionType.RANDOM

    @set_interaction_type(InteractionType.MODE)
    def inside():
        return interaction_type()

    assert (inside(), interaction_type()) == (InteractionType.MODE, None)
    set_interaction_type("mean").set()
    try:
        assert interaction_type() is InteractionType.MEAN
    finally:
        set_interaction_type(None).set()
    with pytest.raises(ValueError, match="'mode'"):
        InteractionType.from_str("fashion")


def test_keys_follow_from_what_is_asked_for():
    module = normal(return_log_prob=True)
    assert (module.in_keys, module.out_keys) == (["loc", "scale"], ["a", "a_log_prob"])
    assert (module.dist_params_keys, module.dist_sample_keys) == (["loc", "scale"], ["a"])
    assert (module.log_prob_key, module.log_prob_keys) == ("a_log_prob", ["a_log_prob"])
    mapped = ProbabilisticTensorDictModule(
        {"loc": ("p", "l"), "scale": "s"}, ["a"], distribution_class=D.Normal, return_log_prob=True, log_prob_key="lp"
    )
    assert (mapped.in_keys, mapped.out_keys) == ([("p", "l"), "s"], ["a", "lp"])
    out = mapped(TensorDict({"p": {"l": torch.zeros(3)}, "s": torch.ones(3)}, [3]))
    torch.testing.assert_close(out["lp"], torch.full((3,), -0.9189385))
    assert ProbabilisticTensorDictModule(["loc"], distribution_class=D.Normal).out_keys == ["_"]


def test_log_probabilities_are_summed_when_asked():
    with set_composite_lp_aggregate(True):
        module = normal(return_log_prob=True)
        assert composite_lp_aggregate() and module.out_keys == ["a", "sample_log_prob"]
        assert "sample_log_prob" in module(params())
    assert not composite_lp_aggregate()


def test_the_environment_chooses_the_default(monkeypatch):
    monkeypatch.setenv("COMPOSITE_LP_AGGREGATE", "1")
    assert composite_lp_aggregate()
    set_composite_lp_aggregate(False).set()
    assert not composite_lp_aggregate()
    set_composite_lp_aggregate(False).unset()
    assert not composite_lp_aggregate()


def test_several_samples_widen_the_whole_tensordict():
    out = normal(num_samples=5, default_interaction_type="random", return_log_prob=True)(params())
    assert {out.batch_size, out["a"].shape, out["a_log_prob"].shape, out["loc"].shape} == {(5, 3)}
    assert out["a"][0].tolist() != out["a"][1].tolist()


@pytest.mark.parametrize("form", ["generator", "seed", "entry", "entry with a seed"])
def test_a_generator_decides_the_draws_and_nothing_else(form):
    expected = torch.randn(3, generator=torch.Generator().manual_seed(7))
    data = params()
    data.batch_size = []
    if form == "entry":
        data["g"] = torch.Generator().manual_seed(7)
    elif form == "entry with a seed":
        data["g"] = torch.tensor(7)
    before = torch.get_rng_state()
    given = {"generator": torch.Generator().manual_seed(7), "seed": 7}.get(form, "g")
    module = normal(generator=given, default_interaction_type="random")
    assert torch.equal(module(data)["a"], expected)
    assert torch.equal(torch.get_rng_state(), before)
    if form in ("generator", "seed"):
        assert not torch.equal(module(params())["a"], expected)  # it goes on


def test_absent_parameters_and_wrong_arguments_are_named():
    with pytest.raises(KeyError, match="scale"):
        normal()(TensorDict(loc=torch.zeros(1)))
    with pytest.raises(TypeError, match=r"Normal.*\['mu', 'scale'\]"):
        ProbabilisticTensorDictModule(["mu", "scale"], ["a"], distribution_class=D.Normal)(
            TensorDict(mu=torch.zeros(1), scale=torch.ones(1))
        )


def test_a_cached_distribution_is_updated():
    from flambeau.data.tensordict.nn.distributions import Delta

    module = ProbabilisticTensorDictModule(["param"], ["a"], distribution_class=Delta, cache_dist=True)
    first = module.get_dist(TensorDict(param=torch.zeros(2)))
    assert module.get_dist(TensorDict(param=torch.ones(2))) is first and first.mode.tolist() == [1.0, 1.0]


# --- sequences


def policy(**options) -> ProbabilisticTensorDictSequential:
    return ProbabilisticTensorDictSequential(
        TensorDictModule(lambda o: (o, o.abs() + 1), ["o"], ["loc", "scale"]), normal(return_log_prob=True), **options
    )


def two() -> ProbabilisticTensorDictSequential:
    return ProbabilisticTensorDictSequential(
        *policy(),
        TensorDictModule(lambda a: (a, a.abs() + 1), ["a"], ["loc2", "scale2"]),
        ProbabilisticTensorDictModule(
            {"loc": "loc2", "scale": "scale2"}, ["b"], distribution_class=D.Normal, return_log_prob=True
        ),
    )


def test_a_sequence_gives_its_distribution_and_runs_nothing_more():
    data = TensorDict(o=torch.ones(3))
    found, dist = policy().get_dist_params(data), policy().get_dist(data)
    assert (type(dist), sorted(found.keys()), sorted(data.keys())) == (
        D.Normal,
        ["loc", "o", "scale"],
        ["loc", "o", "scale"],
    )
    out = TensorDict()
    assert policy().get_dist_params(TensorDict(o=torch.ones(3)), out) is out and "loc" in set(out.keys())
    assert policy().default_interaction_type is InteractionType.DETERMINISTIC
    torch.testing.assert_close(policy().log_prob(data.set("a", torch.zeros(3))), torch.full((3,), -1.7370857))


def test_several_distributions_make_a_composite_one():
    sequence = two()
    assert sequence.dist_params_keys == ["loc2", "scale2", "loc", "scale"]
    assert (sequence.dist_sample_keys, sequence.log_prob_keys) == (["b", "a"], ["b_log_prob", "a_log_prob"])
    data = TensorDict(o=torch.ones(3), a=torch.zeros(3), b=torch.zeros(3))
    dist = sequence.get_dist(data)
    assert isinstance(dist, CompositeDistribution) and dist["b"].mean.tolist() == [0.0] * 3  # of the `a` that is given
    log_prob = sequence.log_prob(data)
    assert sorted(log_prob.keys()) == ["a_log_prob", "b_log_prob"]
    with set_composite_lp_aggregate(True):
        torch.testing.assert_close(sequence.log_prob(data), sum(log_prob.values()).sum())  # no batch
    out = sequence(TensorDict(o=torch.ones(3)))
    assert {"a", "a_log_prob", "b", "b_log_prob"} <= set(out.keys())


def test_slices_are_probabilistic_if_they_end_so():
    sequence = policy()
    assert type(sequence[:1]) is TensorDictSequential
    assert type(sequence[1:]) is ProbabilisticTensorDictSequential
    assert type(sequence.det_part) is TensorDictSequential and len(sequence.det_part) == 1
    with pytest.raises(ValueError, match="probabilistic"):
        ProbabilisticTensorDictSequential(*sequence[:1]).get_dist(TensorDict(o=torch.ones(1)))


def test_a_policy_compiles_as_one_graph():
    compiled = torch.compile(policy(), fullgraph=True, backend="eager")
    assert compiled(TensorDict(o=torch.ones(3)))["a"].tolist() == [1.0] * 3


def test_without_a_composite_the_last_module_gives_the_distribution():
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=D.Normal)
    after = TensorDictModule(torch.neg, ["a"], ["b"])
    with pytest.raises(TypeError, match="last module gives the distribution"):
        ProbabilisticTensorDictSequential(draw, after, return_composite=False)


def test_a_probabilistic_module_prints_what_it_builds():
    module = ProbabilisticTensorDictModule(["loc", "scale"], ["a"], distribution_class=D.Normal, num_samples=3)
    assert repr(module) == (
        "ProbabilisticTensorDictModule(\n    in_keys=['loc', 'scale'],\n    out_keys=['a'],\n"
        "    distribution_class=<class 'torch.distributions.normal.Normal'>,\n    distribution_kwargs={},\n"
        "    default_interaction_type=deterministic,\n    num_samples=(3,))"
    )


def test_a_part_of_a_sequence_is_of_its_class_and_an_empty_one_is_refused():
    assert type(policy().select_subsequence(out_keys=["loc"])) is ProbabilisticTensorDictSequential
    with pytest.raises(ValueError, match="at least one module"):
        ProbabilisticTensorDictSequential()
