"""The normal distribution within an interval."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.distributions import constraints
from torch.distributions.utils import broadcast_all
from torch.types import Number

_SQRT_2PI = math.sqrt(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)


def _density(x: Tensor) -> Tensor:
    return (-0.5 * x * x).exp() / _SQRT_2PI


def _cumulative(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x * _SQRT_HALF))


def _times_density(x: Tensor) -> Tensor:
    """X times its density, 0 at infinity."""
    return torch.where(x.isinf(), torch.zeros_like(x), x * _density(x))


class TruncatedStandardNormal(D.Distribution):
    """The standard normal distribution within [a, b] (Burkardt 2014, "The truncated normal distribution").

    Args:
        a, b: numbers or tensors that broadcast; a < b.
        validate_args: as for every distribution.

    Raises:
        ValueError: a is not below b.
    """

    arg_constraints = {"a": constraints.real, "b": constraints.real}
    has_rsample = True
    eps = 1e-6

    def __init__(self, a: Number | Tensor, b: Number | Tensor, validate_args: bool | None = None) -> None:
        self.a, self.b = broadcast_all(a, b)
        super().__init__(self.a.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.a < self.b).all()):
            raise ValueError("a truncated normal has a lower bound that is not below its upper bound.")
        self._cdf_a, self._cdf_b = _cumulative(self.a), _cumulative(self.b)
        self._mass = (self._cdf_b - self._cdf_a).clamp_min(self.eps)
        self._log_mass = self._mass.log()
        # mean and second moment, relative to the standard normal
        self._slope = (_density(self.a) - _density(self.b)) / self._mass
        self._bend = (_times_density(self.b) - _times_density(self.a)) / self._mass

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """[a, b]."""
        return constraints.interval(self.a, self.b)

    @property
    def mean(self) -> Tensor:
        """Of the truncated distribution."""
        return self._slope

    @property
    def mode(self) -> Tensor:
        """0, or the bound that is nearest to it."""
        return torch.zeros_like(self.a).clamp(self.a, self.b)

    @property
    def variance(self) -> Tensor:
        """Of the truncated distribution."""
        return 1 - self._bend - self._slope**2

    @property
    def entropy(self) -> Tensor:  # type: ignore[override]
        """In nats; a property, as upstream has it."""
        return math.log(_SQRT_2PI) + 0.5 + self._log_mass - 0.5 * self._bend

    @property
    def auc(self) -> Tensor:
        """How much of the standard normal's mass is within the bounds."""
        return self._mass

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        return ((_cumulative(value) - self._cdf_a) / self._mass).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a probability lies."""
        quantile = (self._cdf_a + value * self._mass).clamp(self.eps, 1 - self.eps)
        return torch.erfinv(2 * quantile - 1) / _SQRT_HALF

    def log_prob(self, value: Tensor) -> Tensor:
        """Of values within the bounds."""
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(_SQRT_2PI) - self._log_mass - 0.5 * value**2

    def rsample(self, sample_shape: Any = None) -> Tensor:
        """Draw by inversion, with gradients."""
        shape = self._extended_shape(torch.Size(sample_shape or ()))
        uniform = torch.empty(shape, dtype=self.a.dtype, device=self.a.device).uniform_(self.eps, 1 - self.eps)
        return self.icdf(uniform)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        shape = torch.Size(batch_shape)
        return TruncatedStandardNormal(self.a.expand(shape), self.b.expand(shape), self._validate_args)


class TruncatedNormal(TruncatedStandardNormal):
    """The normal distribution of some location and scale within [a, b].

    Args:
        loc, scale: of the distribution that is cut.
        a, b: bounds of the samples, a < b.
        validate_args: as for every distribution.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    has_rsample = True

    def __init__(
        self,
        loc: Number | Tensor,
        scale: Number | Tensor,
        a: Number | Tensor,
        b: Number | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, low, high = broadcast_all(loc, scale, a, b)
        self.scale = self.scale.clamp_min(self.eps)
        self.low, self.high = low, high
        super().__init__((low - self.loc) / self.scale, (high - self.loc) / self.scale, validate_args)
        self._log_scale = self.scale.log()

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """[a, b] of the samples."""
        return constraints.interval(self.low, self.high)

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        """Of the truncated distribution."""
        return self.loc + self.scale * self._slope

    @property
    def mode(self) -> Tensor:
        """The location, or the bound that is nearest to it."""
        return self.loc.clamp(self.low, self.high)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean."""
        return self.mean

    @property
    def variance(self) -> Tensor:
        """Of the truncated distribution."""
        return (1 - self._bend - self._slope**2) * self.scale**2

    @property
    def entropy(self) -> Tensor:  # type: ignore[override]  # upstream: a property
        """In nats."""
        return TruncatedStandardNormal.entropy.fget(self) + self._log_scale  # type: ignore[attr-defined]

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less."""
        return super().cdf(self._standard(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a probability lies."""
        return super().icdf(value) * self.scale + self.loc

    def log_prob(self, value: Tensor) -> Tensor:
        """Of values within the bounds."""
        if self._validate_args:
            self._validate_sample(value)
        standard = self._standard(value)
        return -math.log(_SQRT_2PI) - self._log_mass - 0.5 * standard**2 - self._log_scale

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        size = torch.Size(batch_shape)
        loc, scale, low, high = (part.expand(size) for part in (self.loc, self.scale, self.low, self.high))
        return TruncatedNormal(loc, scale, low, high, self._validate_args)
