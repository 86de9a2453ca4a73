"""Distributions: what they promise beyond what torchrl's do."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributions as D

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import CompositeDistribution, set_composite_lp_aggregate
from flambeau.rl.modules import (
    Delta,
    IndependentNormal,
    LLMMaskedCategorical,
    MaskedCategorical,
    MaskedOneHotCategorical,
    OneHotCategorical,
    Ordinal,
    ReparamGradientStrategy,
    TanhNormal,
    TruncatedNormal,
    signed_hyperbolic,
    signed_parabolic,
    symexp,
    symlog,
)
from flambeau.rl.modules.distributions.utils import composite_entropy, rsample_and_log_prob, safeatanh, safetanh


def tanh_normal(**options):
    generator = torch.Generator().manual_seed(0)
    loc, scale = torch.randn(4, 2, generator=generator), torch.rand(4, 2, generator=generator) + 0.2
    return TanhNormal(loc.double(), scale.double(), **options)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (-2.0, 3.0), (torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 5.0]))])
def test_the_density_of_a_tanh_normal_integrates_to_one(bounds):
    low, high = bounds
    loc, scale = torch.zeros(2).double(), torch.ones(2).double()
    dist = TanhNormal(loc, scale, low=low, high=high, event_dims=0)
    at = torch.linspace(1e-6, 1 - 1e-6, 200001).double().unsqueeze(-1)
    values = dist.low + (dist.high - dist.low) * at
    total = torch.trapezoid(dist.log_prob(values).exp(), values, dim=0)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-3, atol=1e-3)


def test_samples_of_a_tanh_normal_stay_within_its_bounds():
    dist = tanh_normal(low=-2.0, high=1.0)
    samples = dist.rsample((1000,))
    assert bool(((samples > -2) & (samples < 1)).all())
    assert bool(dist.support.check(samples).all())


def test_scores_of_drawn_normals_are_exact_where_tanh_saturates():
    loc = torch.full((3, 1), 20.0)
    dist = TanhNormal(loc, torch.ones(3, 1))
    torch.manual_seed(0)
    value, log_prob = dist.rsample_and_log_prob()
    torch.manual_seed(0)
    x = loc + torch.randn(3, 1)
    slope = 2 * (math.log(2) - x - torch.nn.functional.softplus(-2 * x))
    torch.testing.assert_close(log_prob, (D.Normal(loc, 1.0).log_prob(x) - slope).sum(-1))
    assert bool(value.isfinite().all()) and bool((dist.log_prob(value) != log_prob).any())


def test_the_mode_of_a_tanh_normal_is_no_less_likely_than_other_values():
    for scale in (0.3, 1.0, 2.0):
        dist = TanhNormal(torch.linspace(-2, 2, 9).double(), torch.tensor(scale).double(), event_dims=0)
        grid = torch.linspace(-0.999, 0.999, 2001).double().unsqueeze(-1)
        assert bool((dist.log_prob(dist.get_mode()) >= dist.log_prob(grid).amax(0) - 1e-6).all())


def test_tanh_normals_tell_which_values_have_no_formula():
    with pytest.raises(RuntimeError, match="get_mode"):
        _ = tanh_normal().mode
    with pytest.raises(NotImplementedError, match="samples"):
        _ = tanh_normal().mean


@pytest.mark.parametrize(
    "dist",
    [
        tanh_normal(low=-2.0, high=1.0),
        IndependentNormal(torch.zeros(4, 2), torch.ones(4, 2)),
        TruncatedNormal(torch.zeros(4, 2), torch.ones(4, 2)),
        OneHotCategorical(logits=torch.zeros(4, 3)),
        MaskedCategorical(logits=torch.zeros(4, 3), mask=torch.tensor([True, False, True]).expand(4, 3)),
        Ordinal(torch.zeros(4, 3)),
        Delta(torch.zeros(4, 2)),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_distributions_expand_to_larger_batches(dist):
    larger = dist.expand((5, 4))
    assert larger.batch_shape == (5, 4)
    value = dist.sample()
    torch.testing.assert_close(larger.log_prob(value.expand(5, *value.shape)), dist.log_prob(value).expand(5, 4))


@pytest.mark.parametrize("kind", [TanhNormal, TruncatedNormal])
def test_bounds_in_the_wrong_order_are_refused(kind):
    with pytest.raises(RuntimeError, match=r"high is -1\.0, expected more than low, 1\.0"):
        kind(torch.zeros(2), torch.ones(2), low=1.0, high=-1.0)


def test_samples_far_outside_of_a_truncated_normal_s_bounds_are_clamped_to_them():
    dist = TruncatedNormal(torch.full((100, 1), 30.0), torch.full((100, 1), 0.1))
    assert bool((dist.rsample() <= 1).all())
    assert bool(dist.log_prob(torch.full((100, 1), 2.0)).isneginf().all())


@given(st.floats(-50, 50))
def test_safe_tanh_has_a_finite_inverse(x):
    value = torch.tensor(x, dtype=torch.float64)
    y = safetanh(value, 1e-6)
    assert abs(float(y)) <= 1 - 1e-6
    assert math.isfinite(float(safeatanh(y, 1e-6)))


def test_safe_tanh_has_the_gradients_that_differences_have():
    x = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: safetanh(x, 1e-9), x)
    assert torch.autograd.gradgradcheck(lambda x: safetanh(x, 1e-9), x)
    assert torch.autograd.gradcheck(lambda y: safeatanh(y, 1e-9), (x / 4).detach().requires_grad_())


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 0.5))
def test_compressing_maps_and_their_inverses_undo_one_another(x, epsilon):
    value = torch.tensor(x, dtype=torch.float64)
    torch.testing.assert_close(symexp(symlog(value)), value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        signed_parabolic(signed_hyperbolic(value, epsilon), epsilon), value, rtol=1e-6, atol=1e-6
    )


def test_masked_classes_are_never_drawn():
    mask = torch.tensor([[True, False, True, False], [False, True, True, True]])
    dist = MaskedCategorical(logits=torch.zeros(2, 4), mask=mask)
    drawn = dist.sample((500,))
    assert bool(mask.expand(500, 2, 4).gather(-1, drawn.unsqueeze(-1)).all())
    assert bool(
        MaskedOneHotCategorical(logits=torch.zeros(2, 4), mask=mask).sample((500,)).bool().logical_and(~mask).sum() == 0
    )


def test_indices_and_masks_describe_the_same_distribution():
    logits = torch.randn(3, 5)
    by_mask = MaskedCategorical(logits=logits, mask=torch.tensor([True, False, True, False, True]).expand(3, 5))
    by_index = MaskedCategorical(logits=logits, indices=torch.tensor([4, 0, 2]).expand(3, 3))
    padded = MaskedCategorical(logits=logits, indices=torch.tensor([4, -1, 0, 2]).expand(3, 4), padding_value=-1)
    for value in range(5):
        at = torch.full((3,), value)
        torch.testing.assert_close(by_index.log_prob(at), by_mask.log_prob(at))
        torch.testing.assert_close(padded.log_prob(at), by_mask.log_prob(at))
    torch.testing.assert_close(by_index.entropy(), by_mask.entropy())
    torch.testing.assert_close(padded.entropy(), by_mask.entropy())
    assert by_index.mode.tolist() == by_mask.mode.tolist() == padded.mode.tolist()


def test_masked_distributions_need_a_mask_and_scores():
    with pytest.raises(ValueError, match="either `mask` or `indices`"):
        MaskedCategorical(logits=torch.zeros(3))
    with pytest.raises(ValueError, match="either `logits` or `probs`"):
        MaskedCategorical(mask=torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("strategy", list(ReparamGradientStrategy))
def test_reparametrized_one_hot_samples_are_exactly_one_hot(strategy):
    logits = torch.randn(50, 7, requires_grad=True)
    sample = OneHotCategorical(logits=logits, grad_method=strategy).rsample()
    assert bool(((sample == 0) | (sample == 1)).all()) and bool((sample.sum(-1) == 1).all())
    (gradient,) = torch.autograd.grad((sample * torch.arange(7.0)).sum(), logits)
    assert bool((gradient != 0).any())


def test_ordinal_scores_shift_probability_upwards():
    low = Ordinal(torch.full((1, 5), -1.0)).probs
    high = Ordinal(torch.full((1, 5), 1.0)).probs
    classes = torch.arange(5.0)
    assert float((high * classes).sum()) > float((low * classes).sum())


def test_masked_positions_of_token_distributions_score_zero():
    dist = LLMMaskedCategorical(torch.randn(2, 3, 4), torch.tensor([[True, True, False], [True, True, True]]))
    scores = dist.log_prob(torch.tensor([[1, 2, 3], [0, 0, -100]]))
    assert scores[0, 2] == 0 and scores[1, 2] == 0 and bool((scores[:, :2] < 0).all())
    with pytest.raises(ValueError, match="expected a token for each position"):
        dist.log_prob(torch.zeros(2, dtype=torch.int64))


def test_deltas_are_infinitely_likely_at_their_value_alone():
    dist = Delta(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert dist.log_prob(torch.tensor([[1.0, 2.0], [3.0, 5.0]])).tolist() == [math.inf, -math.inf]


def composite():
    parts = {
        "a": {"loc": torch.zeros(3), "scale": torch.ones(3)},
        "b": {"loc": torch.zeros(3, 2), "scale": torch.ones(3, 2)},
    }
    return CompositeDistribution(TensorDict(parts, [3]), distribution_map={"a": D.Normal, "b": TanhNormal})


def test_composite_distributions_are_drawn_and_scored_part_by_part():
    value, score = rsample_and_log_prob(composite())
    assert sorted(value.keys()) == ["a", "b"] and sorted(score.keys()) == ["a_log_prob", "b_log_prob"]
    entropy = composite_entropy(composite(), 64)
    torch.testing.assert_close(entropy["a_entropy"], D.Normal(0.0, 1.0).entropy().expand(3))
    with set_composite_lp_aggregate(True):
        assert rsample_and_log_prob(composite())[1].shape == (3,)
        assert composite_entropy(composite()).shape == (3,)


def test_tanh_normals_work_within_function_transforms():
    loc, scale, value = torch.randn(5, 2), torch.rand(5, 2) + 0.1, torch.rand(5, 2) - 0.5

    def score(loc, scale, value):
        return TanhNormal(loc, scale, low=torch.full((2,), -1.0), high=torch.full((2,), 2.0)).log_prob(value)

    torch.testing.assert_close(torch.vmap(score)(loc, scale, value), score(loc, scale, value))
    drawn = torch.vmap(lambda loc, scale: TanhNormal(loc, scale).rsample(), randomness="different")(loc, scale)
    assert drawn.shape == (5, 2) and len({round(float(each), 6) for each in drawn.flatten()}) == 10
    gradient = torch.func.grad(lambda loc: score(loc, scale, value).sum())(loc)
    assert bool(gradient.isfinite().all())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, of its compiler
def test_tanh_normals_compile_without_breaks():
    def run(loc, scale, value):
        dist = TanhNormal(loc, scale.exp(), low=-2.0, high=2.0)
        return dist.log_prob(value), dist.rsample(), dist.deterministic_sample

    arguments = torch.randn(4, 2), torch.randn(4, 2), torch.rand(4, 2)
    torch.manual_seed(0)
    plain = run(*arguments)
    torch.manual_seed(0)
    compiled = torch.compile(run, backend="eager", fullgraph=True)(*arguments)
    torch.testing.assert_close(compiled, plain)
