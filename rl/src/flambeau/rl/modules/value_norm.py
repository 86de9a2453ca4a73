"""Running location and scale of value targets, by which critics learn on a fixed scale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PercentileValueNorm", "PopArtValueNorm", "RunningValueNorm", "ValueNorm"]


class ValueNorm(nn.Module, ABC):
    """The root of value norms.

    Args:
        shape: of one value; the dimensions before it are averaged over.
        epsilon: added to variances, > 0.
        device: of the statistics.
    """

    def __init__(self, *, shape: int | tuple[int, ...] = 1, epsilon: float = 1e-5, device: Any = None) -> None:
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.epsilon = epsilon

    @abstractmethod
    def update(self, value_target: Tensor) -> None:
        """Take a batch of targets (*batch, *shape) into the statistics; an empty one changes nothing."""

    @abstractmethod
    def normalize(self, value_target: Tensor) -> Tensor:
        """Targets on the fixed scale."""

    @abstractmethod
    def denormalize(self, normalised_value: Tensor) -> Tensor:
        """The inverse of `normalize`."""

    def scale(self) -> Tensor:
        """What `normalize` divides by, (*shape).

        Raises:
            RuntimeError: this norm does not tell.
        """
        raise RuntimeError(f"{type(self).__name__} defines no scale().")

    def _rows(self, value_target: Tensor) -> Tensor:
        """The targets as (rows, *shape), detached."""
        dims = len(self.shape)
        if tuple(value_target.shape[value_target.ndim - dims :]) != self.shape or value_target.ndim < dims:
            raise ValueError(
                f"{type(self).__name__}: the targets have shape {tuple(value_target.shape)}, expected "
                f"(..., {', '.join(map(str, self.shape))})."
            )
        return value_target.detach().reshape(-1, *self.shape)


class _Standardizing(ValueNorm):
    """A norm by mean and variance."""

    def _moments(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def scale(self) -> Tensor:
        """The standard deviation, (*shape)."""
        return (self._moments()[1] + self.epsilon).sqrt()

    def normalize(self, value_target: Tensor) -> Tensor:
        """(x - mean) / deviation."""
        return (value_target - self._moments()[0]) / self.scale()

    def denormalize(self, normalised_value: Tensor) -> Tensor:
        """X * deviation + mean."""
        return normalised_value * self.scale() + self._moments()[0]


class PopArtValueNorm(_Standardizing):
    """Mean and variance that forget exponentially, as in MAPPO (van Hasselt et al. 2016, arXiv:1602.07714).

    Args:
        shape, epsilon, device: see `ValueNorm`; epsilon is also the least weight that all targets together count with.
        beta: weight of what was before, in [0, 1).
    """

    running_mean: Tensor
    running_mean_sq: Tensor
    debiasing_term: Tensor

    def __init__(
        self, *, shape: int | tuple[int, ...] = 1, beta: float = 0.99999, epsilon: float = 1e-5, device: Any = None
    ) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        self.beta = beta
        self.register_buffer("running_mean", torch.zeros(self.shape, device=device))
        self.register_buffer("running_mean_sq", torch.zeros(self.shape, device=device))
        self.register_buffer("debiasing_term", torch.tensor(0.0, device=device))

    @torch.no_grad()
    def update(self, value_target: Tensor) -> None:
        """Take a batch of targets (*batch, *shape) into the statistics."""
        rows = self._rows(value_target)
        if len(rows):
            for statistic, now in (
                (self.running_mean, rows.mean(0)),
                (self.running_mean_sq, rows.square().mean(0)),
                (self.debiasing_term, torch.ones_like(self.debiasing_term)),
            ):
                statistic.mul_(self.beta).add_(now, alpha=1 - self.beta)

    def _moments(self) -> tuple[Tensor, Tensor]:
        weight = self.debiasing_term.clamp_min(self.epsilon)
        mean = self.running_mean / weight
        return mean, (self.running_mean_sq / weight - mean.square()).clamp_min(0)


class RunningValueNorm(_Standardizing):
    """Mean and variance of all targets so far (Welford 1962).

    Args:
        shape, epsilon, device: see `ValueNorm`.
    """

    mean: Tensor
    m2: Tensor
    count: Tensor

    def __init__(self, *, shape: int | tuple[int, ...] = 1, epsilon: float = 1e-5, device: Any = None) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        self.register_buffer("mean", torch.zeros(self.shape, device=device))
        self.register_buffer("m2", torch.zeros(self.shape, device=device))
        self.register_buffer("count", torch.tensor(0.0, device=device))

    @torch.no_grad()
    def update(self, value_target: Tensor) -> None:
        """Take a batch of targets (*batch, *shape) into the statistics."""
        rows = self._rows(value_target)
        if not len(rows):
            return
        mean, count = rows.mean(0), len(rows)
        total = self.count + count
        delta = mean - self.mean
        self.m2.add_((rows - mean).square().sum(0) + delta.square() * self.count * count / total)
        self.mean.add_(delta * count / total)
        self.count.copy_(total)

    def _moments(self) -> tuple[Tensor, Tensor]:
        return self.mean, self.m2 / self.count.clamp_min(1.0)


class PercentileValueNorm(ValueNorm):
    """The distance of two quantiles, bounded from below (Hafner et al. 2023, arXiv:2301.04104).

    Args:
        shape, epsilon, device: see `ValueNorm`; epsilon is not used.
        quantiles: the lower and the upper one, in [0, 1].
        rate: weight of a batch, in [0, 1].
        min_scale: the least scale, > 0, so that small values are not made large.
        center: subtract the lower quantile, too.

    Raises:
        ValueError: a number is out of its range.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self,
        *,
        shape: int | tuple[int, ...] = 1,
        quantiles: tuple[float, float] = (0.05, 0.95),
        rate: float = 0.01,
        min_scale: float = 1.0,
        center: bool = False,
        epsilon: float = 1e-5,
        device: Any = None,
    ) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        if not 0 <= quantiles[0] < quantiles[1] <= 1:
            raise ValueError(f"PercentileValueNorm: quantiles is {quantiles}, expected 0 <= low < high <= 1.")
        if not 0 <= rate <= 1:
            raise ValueError(f"PercentileValueNorm: rate is {rate}, expected a number in [0, 1].")
        if min_scale <= 0:
            raise ValueError(f"PercentileValueNorm: min_scale is {min_scale}, expected a positive number.")
        self.quantiles, self.rate, self.min_scale, self.center = quantiles, rate, min_scale, center
        self.register_buffer("low", torch.zeros(self.shape, device=device))
        self.register_buffer("high", torch.zeros(self.shape, device=device))

    @torch.no_grad()
    def update(self, value_target: Tensor) -> None:
        """Take a batch of targets (*batch, *shape) into the statistics."""
        rows = self._rows(value_target)
        if len(rows):
            for statistic, quantile in ((self.low, self.quantiles[0]), (self.high, self.quantiles[1])):
                statistic.lerp_(rows.to(statistic.dtype).quantile(quantile, 0), self.rate)

    def scale(self) -> Tensor:
        """The distance of the quantiles, or the least scale, (*shape)."""
        return (self.high - self.low).clamp_min(self.min_scale)

    def normalize(self, value_target: Tensor) -> Tensor:
        """X / scale, or (x - low) / scale."""
        return (value_target - self.low if self.center else value_target) / self.scale()

    def denormalize(self, normalised_value: Tensor) -> Tensor:
        """The inverse of `normalize`."""
        value = normalised_value * self.scale()
        return value + self.low if self.center else value
