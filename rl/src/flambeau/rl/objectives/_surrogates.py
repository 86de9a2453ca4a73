"""Ratios of probabilities, and what is told of them: how policies differ, how many steps still count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from flambeau.rl.objectives._reductions import _expand_loss_mask, _sum_td_features

__all__ = ["Ratios", "divergence", "effective_share", "explained_variance", "standardized"]

# Below this, a standard deviation divides nothing.
_LEAST_DEVIATION = 1e-6


@dataclass
class Ratios:
    """How much likelier steps have become.

    Attributes:
        log_weight: the logarithm of the ratio that steps count by, (*batch, 1).
        log_distance: that of the ratio to the policy to stay near to; None where it is the same.
        divergence: the mean of what log-probabilities fell by since that policy, without gradients.
        weight: the ratio.
    """

    log_weight: Tensor
    log_distance: Tensor | None
    divergence: Tensor

    def __post_init__(self) -> None:
        self.weight = self.log_weight.exp()

    @classmethod
    def of(cls, log_prob: Tensor, former: Tensor, near: Tensor, most: Tensor | None) -> Ratios:
        """From log-probabilities now, of the policy that acted, and of the one to stay near to, each `batch`.

        Args:
            log_prob: which alone may have gradients.
            former: of the policy that acted.
            near: of the policy to stay near to, which may be `former`.
            most: the most that a ratio counts. Upstream: it lifts the former policy's probability, so that steps of
                larger ratios keep a gradient.
        """
        acted = former if most is None else torch.maximum(former, log_prob.detach() - most.log())
        log_weight = (log_prob - acted).unsqueeze(-1)
        if near is former and most is None:
            return cls(log_weight, None, -log_weight.detach().mean())
        log_distance = (log_prob - near).unsqueeze(-1)
        return cls(log_weight, log_distance, -log_distance.detach().mean())

    def clipped_gain(self, advantage: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """What steps bring while the ratio to the policy to stay near to is within bounds, and where it is not."""
        if self.log_distance is None:
            ratio, scale = self.weight, None
        else:
            ratio, scale = self.log_distance.exp(), (self.log_weight - self.log_distance).exp()
        clipped = ratio.clamp(low, high)
        bounded = clipped if scale is None else clipped * scale
        return torch.minimum(self.weight * advantage, bounded * advantage), clipped != ratio


def effective_share(log_weight: Tensor) -> Tensor:
    """The effective number of steps along the first dimension (Kish, 1965), as a share of them: 1 if all are alike.

    Args:
        log_weight: the logarithm of what each step counts, (steps, *others, 1).

    Returns:
        `others`.
    """
    log_weight = log_weight.squeeze(-1)
    if not log_weight.dim():
        return torch.ones_like(log_weight)
    relative = (log_weight - log_weight.amax(0)).exp()  # squares of the weights may be too large or too small
    return relative.sum(0).square() / (relative.square().sum(0) * log_weight.shape[0])


def explained_variance(value: Any, target: Any) -> Any:
    """How much of the targets' variance along the first dimension values explain: 1 is all, 0 as much as a constant.

    Args:
        value: (steps, *others), a tensor or a tensordict.
        target: the same.

    Returns:
        `others`, without gradients.
    """
    if not isinstance(target, Tensor):
        target, value = _sum_td_features(target), _sum_td_features(value)
    target = target.detach()
    if not target.dim():
        return torch.ones_like(target)
    left, given = torch.stack([target - value.detach(), target]).var(1, unbiased=False)
    return 1 - left / (given + torch.finfo(given.dtype).eps)


def standardized(advantage: Tensor, apart: Sequence[int], valid: Tensor | None = None) -> Tensor:
    """Advantages less their mean, divided by their standard deviation.

    Args:
        advantage: of any shape.
        apart: dimensions each of whose elements has a mean and a deviation of its own.
        valid: which steps count, `batch`; the others are brought to the same scale.

    Raises:
        ValueError: there is no such dimension.
    """
    dims = advantage.dim()
    if any(not -dims <= dim < dims for dim in apart):
        raise ValueError(
            f"normalize_advantage_exclude_dims is {tuple(apart)}, but advantages have shape {tuple(advantage.shape)}."
        )
    kept = {dim % dims for dim in apart}
    over = [dim for dim in range(dims) if dim not in kept]
    if not over:
        return advantage
    counted = torch.ones_like(advantage) if valid is None else _expand_loss_mask(valid, advantage).to(advantage.dtype)
    count = counted.sum(over, keepdim=True)
    distance = advantage - (advantage * counted).sum(over, keepdim=True) / count.clamp_min(1)
    # Upstream: only where all steps count is the variance that of a sample.
    free = count - 1 if valid is None else count
    variance = (distance.square() * counted).sum(over, keepdim=True) / free.clamp_min(1)
    return distance / variance.sqrt().clamp_min(_LEAST_DEVIATION)


def divergence(former: Any, policy: Any, samples: int) -> Tensor:
    """The Kullback-Leibler divergence of a policy from a former one, `batch`.

    Args:
        former: a distribution.
        policy: another.
        samples: how many values of the former estimate it where there is no formula for it.
    """
    try:
        return kl_divergence(former, policy)
    except NotImplementedError:
        drawn = former.sample((samples,))
        scores = (each.log_prob(drawn) for each in (former, policy))
        before, now = (each if isinstance(each, Tensor) else _sum_td_features(each) for each in scores)
        return (before - now).mean(0)
