"""Categorical distributions whose samples are one-hot vectors, and how gradients get through them."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.nn import functional as F

from flambeau.data.tensordict.nn.distributions import discrete as data


class ReparamGradientStrategy(Enum):
    """How gradients get through a one-hot sample.

    PassThrough: those of the probabilities (Bengio et al. 2013, arXiv:1308.3432). RelaxedOneHot: those of a sample of
    the relaxed distribution at temperature 1, of which the largest element counts (Jang et al. 2017, arXiv:1611.01144;
    Maddison et al. 2017, arXiv:1611.00712).
    """

    PassThrough = auto()
    RelaxedOneHot = auto()


def hard_sample(logits: Tensor, sample_shape: torch.Size, drawn: Any, method: ReparamGradientStrategy) -> Tensor:
    """One-hot vectors (*sample_shape, ..., K) of floats, with gradients of the logits.

    Args:
        logits: (..., K), normalized.
        sample_shape: first dimensions.
        drawn: draws one-hot vectors of that shape, for PassThrough.
        method: where gradients come from.
    """
    if method is ReparamGradientStrategy.RelaxedOneHot:
        temperature = torch.ones((), dtype=logits.dtype, device=logits.device)
        relaxed = D.RelaxedOneHotCategorical(temperature, logits=logits, validate_args=False)
        soft = relaxed.rsample(sample_shape)
        hard = F.one_hot(soft.argmax(-1), logits.shape[-1])
    elif method is ReparamGradientStrategy.PassThrough:
        soft, hard = logits.softmax(-1), drawn(sample_shape)
    else:
        raise ValueError(f"grad_method is {method!r}, expected a member of ReparamGradientStrategy.")
    # The difference is exactly 0 in value, so that the sample stays one-hot.
    return hard.to(soft.dtype) + (soft - soft.detach())


class OneHotCategorical(data.OneHotCategorical):
    """A categorical distribution over K classes whose samples are one-hot vectors.

    Args:
        logits: (..., K), unnormalized log-probabilities.
        probs: (..., K), in place of logits.
        grad_method: how `rsample` lets gradients through.
        kwargs: `validate_args`.

    Raises:
        ValueError: logits and probs are given, or neither.

    Example:
        >>> OneHotCategorical(probs=torch.tensor([0.2, 0.5, 0.3])).mode
        tensor([0, 1, 0])
    """

    num_params = 1

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
        **kwargs: Any,
    ) -> None:
        self.grad_method = grad_method
        super().__init__(logits=logits, probs=probs, **{"validate_args": False, **kwargs})

    def expand(self, batch_shape: Any, _instance: Any = None) -> OneHotCategorical:
        """The same for a larger batch."""
        logits = self.logits.expand(*batch_shape, self.logits.shape[-1])
        return OneHotCategorical(logits, grad_method=self.grad_method)

    def rsample(self, sample_shape: Any = None) -> Tensor:
        """Draw (*sample_shape, ..., K) floats, one-hot in value, with gradients."""
        return hard_sample(self.logits, torch.Size(sample_shape or ()), self.sample, self.grad_method)
