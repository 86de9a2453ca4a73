"""Distributions beside torch's: values against their definitions, and composite ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as D

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import (
    AddStateIndependentNormalScale,
    CompositeDistribution,
    Delta,
    NormalParamExtractor,
    OneHotCategorical,
    TruncatedNormal,
    add_custom_mapping,
    biased_softplus,
    inv_softplus,
    mappings,
    rand_one_hot,
    set_composite_lp_aggregate,
)
from flambeau.data.tensordict.nn.distributions.truncated_normal import TruncatedStandardNormal


@settings(max_examples=30, deadline=None)
@given(loc=st.floats(-2, 2), scale=st.floats(0.3, 3), low=st.floats(-3, 0), width=st.floats(0.5, 5))
def test_moments_of_a_truncated_normal_are_those_of_its_density(loc, scale, low, width):
    parts = (torch.tensor(each, dtype=torch.float64) for each in (loc, scale, low, low + width))
    cut = TruncatedNormal(*parts)
    x = torch.linspace(low, low + width, 20001, dtype=torch.float64)
    density = cut.log_prob(x).exp()
    if float(cut.auc) < 1e-4:
        return  # the normal's tail: the lower bound of its mass counts there
    assert float(torch.trapezoid(density, x)) == pytest.approx(1.0, abs=1e-5)
    mean = torch.trapezoid(density * x, x)
    torch.testing.assert_close(cut.mean, mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(cut.variance, torch.trapezoid(density * (x - mean) ** 2, x), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(cut.entropy, -torch.trapezoid(density * density.log(), x), rtol=1e-4, atol=1e-5)
    inside = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    torch.testing.assert_close(cut.cdf(cut.icdf(inside)), inside, rtol=1e-3, atol=1e-3)


def test_a_truncated_normal_has_the_peers_values_and_refuses_what_is_outside():
    cut = TruncatedNormal(torch.tensor([0.5]), torch.tensor([2.0]), -1.0, 2.0, validate_args=True)
    for got, expected in (
        (cut.mean, 0.5), (cut.variance, 0.6953), (cut.entropy, 1.0952), (cut.log_prob(torch.tensor([0.3])), -1.0133),
        (cut.cdf(torch.tensor([0.3])), 0.4272), (cut.icdf(torch.tensor([0.4])), 0.2250),
    ):  # fmt: skip
        torch.testing.assert_close(got, torch.tensor([expected]), rtol=0, atol=6e-5)
    drawn = TruncatedNormal(torch.zeros(2), 1.0, -1.0, 2.0).rsample((50,))
    assert drawn.shape == (50, 2) and bool(((drawn >= -1) & (drawn <= 2)).all())
    with pytest.raises(ValueError, match="support"):
        cut.log_prob(torch.tensor([5.0]))
    with pytest.raises(ValueError, match="lower bound"):
        TruncatedStandardNormal(1.0, 0.0, validate_args=True)
    assert cut.expand([4, 1]).mean.shape == (4, 1)


def test_one_hot_samples_have_the_categorical_log_probability_and_a_gradient():
    dist = OneHotCategorical(probs=torch.tensor([0.2, 0.5, 0.3]))
    assert (dist.mode.tolist(), dist.deterministic_sample.tolist()) == ([0, 1, 0], [0, 1, 0])
    torch.testing.assert_close(dist.log_prob(torch.tensor([0, 1, 0])), torch.tensor(0.5).log())
    assert bool((dist.sample((7,)).sum(-1) == 1).all())
    logits = torch.zeros(3, requires_grad=True)
    drawn = OneHotCategorical(logits=logits).rsample((2,))
    torch.testing.assert_close(drawn.sum(-1), torch.ones(2))
    (drawn * torch.arange(3.0)).sum().backward()
    assert bool(logits.grad.any())
    assert bool((rand_one_hot(torch.zeros(5, 3)).sum(-1) == 1).all())
    assert rand_one_hot(torch.tensor([0.0, 1.0]), do_softmax=False).tolist() == [0, 1]


def test_a_point_mass_is_all_or_nothing():
    dist = Delta(torch.zeros(3))
    assert (dist.batch_shape, dist.event_shape, dist.sample((2,)).shape) == ((), (3,), (2, 3))
    assert (dist.log_prob(torch.zeros(3)).item(), dist.log_prob(torch.ones(3)).item()) == (torch.inf, -torch.inf)
    rows = Delta(torch.zeros(2, 3), event_shape=(3,))
    assert (rows.batch_shape, rows.log_prob(torch.zeros(2, 3)).shape) == ((2,), (2,))
    assert rows.expand([5, 2]).mean.shape == (5, 2, 3)


def test_mappings_are_positive_named_and_can_be_added():
    x = torch.linspace(-4, 4, 9)
    for name in ("softplus", "exp", "relu", "expln", "sigmoid", "biased_softplus", "biased_softplus_0.7"):
        assert bool((mappings(name)(x) >= 0).all())
    torch.testing.assert_close(mappings("biased_softplus_0.7_0.1")(torch.zeros(1)), torch.tensor([0.7]))
    torch.testing.assert_close(biased_softplus(1.0)(torch.zeros(1)), torch.tensor([1.0]))
    assert inv_softplus(1.0) == pytest.approx(float(inv_softplus(torch.tensor(1.0))), rel=1e-5)
    add_custom_mapping("square", torch.square)
    assert mappings("square")(torch.tensor(3.0)).item() == 9.0
    with pytest.raises(NotImplementedError, match="Unknown mapping 'zzz'"):
        mappings("zzz")
    with pytest.raises(NotImplementedError, match="min_val"):
        mappings("biased_softplus_0.1_0.2")


def test_scales_come_from_the_input_or_beside_it():
    loc, scale, other = NormalParamExtractor(scale_mapping="exp")(torch.zeros(2, 4), torch.ones(1))
    assert (loc.shape, scale.tolist(), other.tolist()) == ((2, 2), [[1.0, 1.0]] * 2, [1.0])
    beside = AddStateIndependentNormalScale(3)
    loc, scale = beside(torch.ones(2, 3))
    assert (scale.shape, list(beside.state_dict())) == ((2, 3), ["state_independent_scale"])
    with pytest.raises(RuntimeError, match="expected"):
        beside(torch.ones(2, 4))
    fixed = AddStateIndependentNormalScale((), make_param=False, init_value=0.3)
    assert not list(fixed.parameters()) and float(fixed(torch.ones(2))[1][0]) == pytest.approx(1.3499, abs=1e-4)


# --- composite


def composite(**options) -> CompositeDistribution:
    normal = {"loc": torch.zeros(3), "scale": torch.ones(3)}
    params = TensorDict({"x": normal, "n": {"y": {"logits": torch.zeros(3, 4)}}}, [3])
    return CompositeDistribution(params, {"x": D.Normal, ("n", "y"): D.Categorical}, **options)


def names(td) -> list[str]:
    return sorted(map(str, td.keys(True, True)))


def test_samples_have_the_batch_of_the_parameters():
    dist = composite()
    assert (len(dist), list(dist), dist.batch_shape) == (2, ["x", ("n", "y")], (3,))
    assert (names(dist.sample((2,))), dist.sample((2,)).batch_size) == (["('n', 'y')", "x"], (2, 3))
    assert dist.mode["x"].tolist() == [0.0] * 3 == dist.deterministic_sample["x"].tolist()
    assert not dist.has_rsample
    with pytest.raises(NotImplementedError):
        dist.rsample()


def test_log_probabilities_and_entropies_stand_beside_their_names():
    dist = composite()
    sample = dist.sample()
    single = ["('n', 'y_log_prob')", "x_log_prob"]
    assert names(dist.log_prob(sample)) == names(dist.log_prob_composite(sample)) == single
    summed = dist.log_prob_composite(sample, include_sum=True)
    assert names(summed) == [single[0], "sample_log_prob", single[1]]
    torch.testing.assert_close(summed["sample_log_prob"], summed["x_log_prob"] + summed["n", "y_log_prob"])
    assert names(dist.entropy(include_sum=True)) == ["('n', 'y_entropy')", "entropy", "x_entropy"]
    torch.testing.assert_close(dist.entropy(aggregate_probabilities=True), torch.full((3,), 1.4189385 + 1.3862944))
    with set_composite_lp_aggregate(True):
        torch.testing.assert_close(dist.log_prob(sample), summed["sample_log_prob"])
        assert {"x", "sample_log_prob"} <= set(dist.log_prob_composite(sample).keys())


def test_more_leading_dimensions_of_samples_are_batch():
    dist = composite()
    many = dist.sample((5,))
    assert dist.log_prob(many).batch_size == (5, 3)
    with set_composite_lp_aggregate(True):
        assert dist.log_prob(many).shape == (5, 3)
    wide = CompositeDistribution(
        TensorDict({"x": {"loc": torch.zeros(3, 2), "scale": torch.ones(3, 2)}}, [3]), {"x": D.Normal}
    )
    with set_composite_lp_aggregate(True):
        assert wide.log_prob(TensorDict({"x": torch.zeros(3, 2)}, [3])).shape == wide.entropy().shape == (3,)
        assert wide.log_prob(wide.sample((5,))).shape == (5, 3)


def test_names_of_samples_may_differ_and_wrong_ones_are_refused():
    mapped = composite(name_map={"x": ("act", "x"), ("n", "y"): ("act", "y")})
    assert names(mapped.sample()) == ["('act', 'x')", "('act', 'y')"]
    with pytest.raises(KeyError, match="zz"):
        composite(name_map={"zz": "a"})
    with pytest.raises(KeyError, match="zz"):
        CompositeDistribution(TensorDict(x=TensorDict()), {"zz": D.Normal})


def test_distribution_functions_are_inverse():
    params = TensorDict({"x": {"loc": torch.zeros(3), "scale": torch.ones(3)}}, [3])
    dist = CompositeDistribution(params, {"x": D.Normal})
    below = dist.cdf(TensorDict({"x": torch.tensor([-1.0, 0.0, 1.0])}, [3]))
    torch.testing.assert_close(dist.icdf(below)["x_icdf"], torch.tensor([-1.0, 0.0, 1.0]))


def test_one_hot_vectors_look_up_one_uniform_number_in_each_row():
    probabilities = torch.tensor([[0.1, 0.9], [0.5, 0.5]])
    torch.manual_seed(0)
    drawn = rand_one_hot(probabilities, do_softmax=False)
    torch.manual_seed(0)
    assert drawn.argmax(-1).tolist() == (torch.rand(2) >= probabilities[:, 0]).long().tolist()


def test_log_probabilities_keep_the_order_of_nested_samples():
    normal, choice = {"loc": torch.zeros(3), "scale": torch.ones(3)}, {"probs": torch.ones(3, 2)}
    params = TensorDict({"x": normal, "n": {"y": choice}}, [3])
    dist = CompositeDistribution(params, distribution_map={"x": D.Normal, ("n", "y"): D.Categorical})
    assert list(dist.log_prob(dist.sample()).keys()) == ["n", "x_log_prob"]
