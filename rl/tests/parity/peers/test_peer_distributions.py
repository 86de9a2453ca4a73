"""Distributions have the same shapes, samples from the same seeds, scores and gradients as torchrl's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import integers, tensor

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "distributions",
    ours="flambeau.rl.modules",
    peer="torchrl.modules",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)

# How each is made, of which parameters; programs see these by name.
PARAMETERS = {
    "matrix": lambda dtype: {
        "loc": tensor("loc", (3, 2), dtype) * 2,
        "scale": tensor("scale", (3, 2), dtype).abs() + 0.2,
    },
    "vector": lambda dtype: {"loc": tensor("loc", (4,), dtype), "scale": tensor("scale", (4,), dtype).abs() + 0.3},
    "far": lambda dtype: {
        "loc": tensor("loc", (3, 2), dtype) * 30,
        "scale": tensor("scale", (3, 2), dtype).abs() + 0.1,
    },
    "three": lambda dtype: {"loc": tensor("loc", (2, 3, 2), dtype), "scale": tensor("s", (2, 3, 2), dtype).abs() + 0.5},
}
CONTINUOUS = [
    "TanhNormal(loc, scale)",
    "TanhNormal(loc, scale, event_dims=0)",
    "TanhNormal(loc, scale, low=-2.0, high=1.0)",
    "TanhNormal(loc, scale, low=0.0, high=5)",
    "TanhNormal(loc, scale, low=-2.0 * torch.ones_like(loc[0]), high=torch.ones_like(loc[0]))",
    "TanhNormal(loc, scale, tanh_loc=True)",
    "TanhNormal(loc, scale, tanh_loc=True, upscale=2.0)",
    "TanhNormal(loc, scale, tanh_loc=True, upscale=torch.full_like(loc[0], 3.0))",
    "TanhNormal(loc, scale, safe_tanh=False)",
    "TanhNormal(loc, 0.5)",
    "TanhNormal(loc, torch.ones_like)",
    "TanhNormal(loc, scale, low=1.0, high=-1.0)",
    "TanhNormal(loc, scale, low=torch.ones(1), high=-1.0)",
    "IndependentNormal(loc, scale)",
    "IndependentNormal(loc, scale, tanh_loc=True)",
    "IndependentNormal(loc, scale, 2.0, True)",
    "IndependentNormal(loc, scale, event_dim=0)",
    "IndependentNormal(loc, 0.3)",
    "IndependentNormal(loc, torch.ones_like)",
    "TruncatedNormal(loc, scale)",
    "TruncatedNormal(loc, scale, low=-2.0, high=0.5)",
    "TruncatedNormal(loc, scale, tanh_loc=True)",
    "TruncatedNormal(loc, scale, low=torch.full_like(loc[0], -3.0), high=torch.full_like(loc[0], 2.0))",
    "TruncatedNormal(loc, scale, low=1.0, high=-1.0)",
    "Delta(loc)",
    "Delta(loc, event_shape=loc.shape[-1:], batch_shape=loc.shape[:-1])",
    "Delta(loc, atol=0.5)",
    "TanhDelta(loc)",
    "TanhDelta(loc, low=-2.0, high=1.0)",
    "TanhDelta(loc, low=-2.0, high=2.0)",
    "TanhDelta(loc, safe=False)",
]
SCORES = {
    "one": lambda dtype: {"logits": tensor("l", (3,), dtype)},
    "matrix": lambda dtype: {"logits": tensor("l", (4, 3), dtype) * 2},
    "three": lambda dtype: {"logits": tensor("l", (2, 4, 3), dtype)},
}
MASK = "(torch.arange(logits.numel()).view(logits.shape) % 5 != 1)"
INDICES = "torch.tensor([0, 2]).expand(*logits.shape[:-1], 2)"
PADDED = "torch.tensor([1, -1]).expand(*logits.shape[:-1], 2)"
STRATEGY = "grad_method=distributions.discrete.ReparamGradientStrategy.RelaxedOneHot"
DISCRETE = [
    "OneHotCategorical(logits=logits)",
    "OneHotCategorical(probs=logits.softmax(-1))",
    f"OneHotCategorical(logits=logits, {STRATEGY})",
    "OneHotCategorical()",
    "OneHotCategorical(logits=logits, probs=logits)",
    f"MaskedCategorical(logits=logits, mask={MASK})",
    f"MaskedCategorical(probs=logits.softmax(-1), mask={MASK})",
    f"MaskedCategorical(logits=logits, mask={MASK}, neg_inf=-10.0)",
    f"MaskedCategorical(logits=logits, mask={MASK}, use_cross_entropy=False)",
    f"MaskedCategorical(logits=logits, indices={INDICES})",
    f"MaskedCategorical(logits=logits, indices={PADDED}, padding_value=-1)",
    "MaskedCategorical(logits=logits)",
    f"MaskedCategorical(mask={MASK})",
    f"MaskedCategorical(logits=logits, mask={MASK}, indices={INDICES})",
    f"MaskedOneHotCategorical(logits=logits, mask={MASK})",
    f"MaskedOneHotCategorical(probs=logits.softmax(-1), mask={MASK})",
    f"MaskedOneHotCategorical(logits=logits, mask={MASK}, {STRATEGY})",
    f"MaskedOneHotCategorical(logits=logits, indices={INDICES})",
    f"MaskedOneHotCategorical(logits=logits, indices={INDICES}, {STRATEGY})",
    "Ordinal(logits)",
    "OneHotOrdinal(logits)",
]
ATTRIBUTES = ("batch_shape", "event_shape", "mean", "mode", "deterministic_sample", "stddev", "entropy")


def made(library, given, text):
    names = {"torch": torch} | given
    return eval(f"library.{text}", {**names, "library": library, "distributions": library.distributions})


def scores(dist, value, inputs):
    """The score of a value, and its gradients."""
    log_prob = dist.log_prob(value)
    wanted = [each for each in (*inputs, value) if each.requires_grad]
    finite = log_prob.isfinite()
    gradients = None
    if log_prob.requires_grad and wanted and bool(finite.any()):
        gradients = torch.autograd.grad(log_prob[finite].sum(), wanted, allow_unused=True)
    return log_prob.detach(), gradients


def constants(library, given, text):
    dist = made(library, given, text)
    found = {"class": type(dist).__name__}
    for name in ATTRIBUTES:
        try:
            value = getattr(dist, name)
            found[name] = value() if name == "entropy" else value
        except (NotImplementedError, AttributeError, RuntimeError) as error:
            found[name] = type(error).__name__
    return {name: each.detach().clone() if isinstance(each, torch.Tensor) else each for name, each in found.items()}


def drawn(library, given, text):
    leaves = {name: each.clone().requires_grad_() for name, each in given.items()}
    dist = made(library, leaves, text)
    sample = dist.sample()
    more = dist.sample((2,))
    soft = dist.rsample((2,)) if hasattr(type(dist), "rsample") else None
    gradients = None
    if soft is not None and soft.requires_grad:
        weights = torch.arange(1.0, soft.numel() + 1, dtype=soft.dtype).view(soft.shape)
        gradients = torch.autograd.grad((soft * weights).sum(), list(leaves.values()), allow_unused=True)
    return {"sample": sample, "more": more, "soft": None if soft is None else soft.detach(), "gradients": gradients}


def scored_mode(library, given, text):
    leaves = {name: each.clone().requires_grad_() for name, each in given.items()}
    dist = made(library, leaves, text)
    return scores(dist, dist.sample().detach(), list(leaves.values()))


def scored_values(library, given, text):
    leaves = {name: each.clone().requires_grad_() for name, each in given.items()}
    dist = made(library, leaves, text)
    value = tensor("value", tuple(given["loc"].shape), given["loc"].dtype) * 0.95
    return scores(dist, value.requires_grad_(), list(leaves.values()))


def scored_classes(library, given, text):
    leaves = {name: each.clone().requires_grad_() for name, each in given.items()}
    dist = made(library, leaves, text)
    classes = integers("classes", tuple(given["logits"].shape[:-1]), 3)
    one_hot = "OneHot" in text
    return scores(dist, torch.nn.functional.one_hot(classes, 3) if one_hot else classes, list(leaves.values()))


def joint(library, given, text):
    dist = made(library, given, text)
    utilities = library.distributions.utils
    return {
        "reparametrized": utilities.rsample_and_log_prob(dist, (2,)), "plain": utilities.sample_and_log_prob(dist),
        "entropy": utilities.has_analytic_entropy(dist), "kl": utilities.has_analytic_kl(dist, dist),
    }  # fmt: skip


def updated(library, given, text):
    dist = made(library, given, text)
    parameters = [each + 0.25 for each in given.values()]
    dist.update(*(parameters[:1] if "Delta" in text else parameters))
    return {"value": dist.deterministic_sample, "sample": dist.sample()}


def divergence(library, given, text):
    return torch.distributions.kl_divergence(
        made(library, given, text), made(library, {name: each * 1.1 for name, each in given.items()}, text)
    )


def add(area, text, kind, dtype, call, build):
    SUITE.add(
        Cell(
            f"{area}/{kind}/{str(dtype)[6:]}/{text}",
            area,
            lambda library, given: call(library, given, text),
            lambda library: build(dtype),
        )
    )


for _text in CONTINUOUS:
    for _kind, _build in PARAMETERS.items():
        for _dtype in (torch.float32, torch.float64):
            for _area, _call in (("constants", constants), ("draws", drawn), ("scores", scored_values)):
                add(_area, _text, _kind, _dtype, _call, _build)
    for _area, _call in (
        ("own-scores", scored_mode),
        ("joint", joint),
        ("updates", updated),
        ("divergences", divergence),
    ):
        add(_area, _text, "matrix", torch.float32, _call, PARAMETERS["matrix"])
for _text in DISCRETE:
    for _kind, _build in SCORES.items():
        for _dtype in (torch.float32, torch.float64):
            for _area, _call in (("constants", constants), ("draws", drawn), ("scores", scored_classes)):
                add(_area, _text, _kind, _dtype, _call, _build)
    for _area, _call in (("own-scores", scored_mode), ("joint", joint), ("divergences", divergence)):
        add(_area, _text, "matrix", torch.float32, _call, SCORES["matrix"])

LANGUAGE = {
    "positions": "distributions.LLMMaskedCategorical(logits, torch.arange(6).view(2, 3) != 2)",
    "tokens": "distributions.LLMMaskedCategorical(logits, torch.arange(30).view(2, 3, 5) % 4 != 1)",
    "one-row": "distributions.LLMMaskedCategorical(logits[0], torch.arange(3) != 2)",
    "wrong-mask": "distributions.LLMMaskedCategorical(logits, torch.ones(3, dtype=torch.bool))",
    "other-ignored": "distributions.LLMMaskedCategorical(logits, torch.arange(6).view(2, 3) != 2, ignore_index=0)",
}
for _kind, _text in LANGUAGE.items():
    for _what in ("log_prob(tokens[:d.logits.dim()-1])", "log_prob(t)", "sample()", "sample((2,))", "mode", "entropy()",
                  "masked_logits", "probs", "position_level_masking", "batch_shape", "event_shape"):  # fmt: skip
        if _what.startswith("log_prob(tokens"):
            continue
        SUITE.add(
            Cell(
                f"language/{_kind}/{_what}",
                "language",
                lambda library, given, text=_text, what=_what: eval(
                    f"(lambda d, t: d.{what})(made, tokens if made.logits.dim() == 3 else tokens[0])",
                    {"made": eval(text, {"distributions": library.distributions, "torch": torch, **given}), **given},
                ),
                lambda library: {"logits": tensor("l", (2, 3, 5)), "tokens": torch.tensor([[1, 4, -100], [0, 3, 2]])},
            )
        )
NAMES = ("symlog", "symexp", "signed_hyperbolic", "signed_parabolic")
FUNCTIONS = [
    "symlog(x)", "symexp(x / 3)", "signed_hyperbolic(x)", "signed_hyperbolic(x, 0.1)", "signed_hyperbolic(x, 0.0)",
    "signed_parabolic(x)", "signed_parabolic(x, 0.1)", "signed_parabolic(x, 0.0)", "signed_hyperbolic(x, -1.0)",
    "distributions.utils.safetanh(x, 1e-6)", "distributions.utils.safetanh(x, 0.1)",
    "distributions.utils.safeatanh(x / 11, 1e-6)", "distributions.utils.safeatanh(x, 0.1)",
    "distributions.discrete.rand_one_hot(x.view(2, 3))",
]  # fmt: skip
for _text in FUNCTIONS:
    for _dtype in (torch.float32, torch.float64):

        def _run(library, given, text=_text):
            x = given["x"].clone().requires_grad_()
            names = {
                name: getattr(library, name) for name in ("symlog", "symexp", "signed_hyperbolic", "signed_parabolic")
            }
            y = eval(text, {"x": x, "distributions": library.distributions, **names})
            gradient = torch.autograd.grad(y.sum(), x)[0] if y.requires_grad else None
            return y.detach(), gradient

        SUITE.add(
            Cell(
                f"functions/{str(_dtype)[6:]}/{_text}",
                "functions",
                _run,
                lambda library, dtype=_dtype: {"x": tensor("x", (6,), dtype) * 10},
            )
        )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
