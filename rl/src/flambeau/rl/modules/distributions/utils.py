"""What distributions have in common: an invertible tanh, cheap transformed distributions, joint draws and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.distributions.kl import _KL_REGISTRY

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution
from flambeau.data.tensordict.nn.utils import composite_lp_aggregate

__all__ = [
    "FasterTransformedDistribution",
    "composite_entropy",
    "has_analytic_entropy",
    "has_analytic_kl",
    "rsample_and_log_prob",
    "safeatanh",
    "safetanh",
    "sample_and_log_prob",
]

Shape = torch.Size | Sequence[int]

# --- tanh with an inverse


class _SafeTanh(torch.autograd.Function):
    """The tanh within [-1 + eps, 1 - eps], with the gradient of tanh at the value that comes out."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, eps: float) -> Tensor:
        return x.tanh().clamp(eps - 1, 1 - eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (value,) = ctx.saved_tensors
        return gradient * (1 - value * value), None


class _SafeAtanh(torch.autograd.Function):
    """The atanh of values within [-1 + eps, 1 - eps], with its gradient there for values outside as well."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor, eps: float) -> Tensor:
        return y.clamp(eps - 1, 1 - eps).atanh()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        y, ctx.eps = inputs
        ctx.save_for_backward(y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        value = y.clamp(ctx.eps - 1, 1 - ctx.eps)
        return gradient / (1 - value * value), None


def safetanh(x: Tensor, eps: float) -> Tensor:
    """The tanh, but it stays `eps` away from -1 and 1, so that it has an inverse.

    Args:
        x: any shape, floating point.
        eps: in (0, 1), usually `torch.finfo(x.dtype).resolution`.

    Returns:
        The shape of `x`. The gradient is 1 - y**2 everywhere, not 0 where y was cut.
    """
    result: Tensor = _SafeTanh.apply(x, eps)  # type: ignore[no-untyped-call]
    return result


def safeatanh(y: Tensor, eps: float) -> Tensor:
    """The inverse of `safetanh`, which takes values outside for the nearest inside.

    Args:
        y: any shape, floating point.
        eps: as for `safetanh`.
    """
    result: Tensor = _SafeAtanh.apply(y, eps)  # type: ignore[no-untyped-call]
    return result


# --- transformed distributions


class FasterTransformedDistribution(D.TransformedDistribution):
    """A `TransformedDistribution` whose constructor checks and expands nothing.

    For transforms whose output has the shape of their input and that fit the base distribution as it is.

    Args:
        base_distribution: draws what is transformed.
        transforms: one, or a list of them, first applied first.
        validate_args: as for every distribution; off unless asked for.
    """

    def __init__(
        self,
        base_distribution: D.Distribution,
        transforms: D.Transform | list[D.Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, D.Transform) else list(transforms)
        event_dim = 0
        for transform in self.transforms:
            event_dim = transform.codomain.event_dim + max(event_dim - transform.domain.event_dim, 0)
        missing = event_dim - len(base_distribution.event_shape)
        self.base_dist = base_distribution if missing <= 0 else D.Independent(base_distribution, missing)
        D.Distribution.__init__(
            self, self.base_dist.batch_shape, self.base_dist.event_shape, validate_args=validate_args or False
        )


# --- what there are formulas for


def has_analytic_entropy(dist: D.Distribution) -> bool:
    """Whether the class of a distribution has a formula for the entropy; False for composite distributions."""
    while isinstance(dist, D.Independent):
        dist = dist.base_dist
    return not isinstance(dist, CompositeDistribution) and type(dist).entropy is not D.Distribution.entropy


def has_analytic_kl(p: D.Distribution, q: D.Distribution) -> bool:
    """Whether torch knows a formula for the divergence of `p` from `q`.

    Of independent and transformed distributions the bases decide.
    """
    for wrapper in (D.Independent, D.TransformedDistribution):
        if isinstance(p, wrapper) and isinstance(q, wrapper):
            return has_analytic_kl(p.base_dist, q.base_dist)
    return any(isinstance(p, first) and isinstance(q, second) for first, second in _KL_REGISTRY)


# --- draws with their scores


def sample_and_log_prob(
    distribution: D.Distribution, sample_shape: Shape = (), *, reparameterize: bool = False
) -> tuple[Any, Any]:
    """Draw once, and score the draw itself rather than a value that was rounded on the way.

    Args:
        distribution: draws. Its `rsample_and_log_prob` or `sample_and_log_prob` is used if there is one.
        sample_shape: first dimensions of the draw.
        reparameterize: let gradients through the draw.

    Returns:
        The draw and its log-probability. Of a `CompositeDistribution` a TensorDict of draws, and a TensorDict of
        `<name>_log_prob`, or their sum with `set_composite_lp_aggregate(True)`.
    """
    if isinstance(distribution, CompositeDistribution):
        return _composite_draw(distribution, sample_shape, reparameterize)
    joint = getattr(distribution, "rsample_and_log_prob" if reparameterize else "sample_and_log_prob", None)
    if joint is not None:
        draw, log_prob = joint(sample_shape)
        return draw, log_prob
    shape = torch.Size(sample_shape)
    value = distribution.rsample(shape) if reparameterize else distribution.sample(shape)
    return value, distribution.log_prob(value)


def rsample_and_log_prob(distribution: D.Distribution, sample_shape: Shape = ()) -> tuple[Any, Any]:
    """`sample_and_log_prob` that lets gradients through the draw."""
    return sample_and_log_prob(distribution, sample_shape, reparameterize=True)


def _composite_draw(distribution: Any, sample_shape: Shape, reparameterize: bool) -> tuple[TensorDictBase, Any]:
    batch = torch.Size([*sample_shape, *distribution.batch_shape])
    draws, scores = TensorDict({}, batch), TensorDict({}, batch)
    for key, component in distribution.dists.items():
        draw, log_prob = sample_and_log_prob(component, sample_shape, reparameterize=reparameterize)
        draws.set(key, draw)
        scores.set(_suffixed(key, "log_prob"), log_prob)
    return draws, _total(scores) if composite_lp_aggregate() else scores


def composite_entropy(distribution: Any, samples_mc: int = 1) -> Any:
    """The entropies of a composite distribution's parts, by formula or else from scored draws.

    Args:
        distribution: a `CompositeDistribution`.
        samples_mc: how many draws estimate an entropy that has no formula, > 0.

    Returns:
        A TensorDict of `<name>_entropy`, or their sum with `set_composite_lp_aggregate(True)`.
    """
    entropies = TensorDict({}, distribution.batch_shape)
    for key, component in distribution.dists.items():
        if has_analytic_entropy(component):
            entropy = component.entropy()
        else:
            entropy = -rsample_and_log_prob(component, (samples_mc,))[1].mean(0)
        entropies.set(_suffixed(key, "entropy"), entropy)
    return _total(entropies) if composite_lp_aggregate() else entropies


def _suffixed(key: Any, suffix: str) -> Any:
    return f"{key}_{suffix}" if isinstance(key, str) else (*key[:-1], f"{key[-1]}_{suffix}")


def _total(parts: TensorDictBase) -> Tensor:
    """The sum over all entries, of the shape of the batch."""
    dims = parts.batch_dims
    values = [value.flatten(dims).sum(-1) if value.ndim > dims else value for value in parts.values(True, True)]
    return torch.stack(values).sum(0)
