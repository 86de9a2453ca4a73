"""One-hot samples of a categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.nn import functional as F

__all__ = ["OneHotCategorical"]


def rand_one_hot(values: Tensor, do_softmax: bool = True) -> Tensor:
    """Draw one-hot vectors.

    Args:
        values: (..., K), logits; or probabilities, if `do_softmax` is False.
        do_softmax: whether they are logits.

    Returns:
        (..., K), int64, with one 1 in each row.
    """
    probabilities = values.softmax(-1) if do_softmax else values
    classes = probabilities.shape[-1]
    # One uniform number in each row, looked up in the cumulated probabilities; their sum may be rounded below 1.
    passed = probabilities.cumsum(-1) <= torch.rand_like(probabilities[..., :1])
    return F.one_hot(passed.sum(-1).clamp(max=classes - 1), classes)


class OneHotCategorical(D.Categorical):
    """A categorical distribution over K classes whose samples are one-hot vectors.

    `rsample` passes gradients straight through to the probabilities (Bengio et al. 2013, arXiv:1308.3432).

    Args:
        logits: (..., K), unnormalized log-probabilities.
        probs: (..., K), in place of logits.
        kwargs: `validate_args`.

    Example:
        >>> OneHotCategorical(probs=torch.tensor([0.2, 0.5, 0.3])).mode
        tensor([0, 1, 0])
    """

    num_params = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(logits=logits, probs=probs, **kwargs)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of one-hot vectors (..., K) -> (...)."""
        chosen = value.to(torch.uint8 if value.dtype == torch.bool else value.dtype).argmax(-1)
        return super().log_prob(chosen)  # type: ignore[no-untyped-call]  # torch's

    @property
    def mode(self) -> Tensor:
        """One-hot vectors of the likeliest classes, int64."""
        return F.one_hot(self.logits.argmax(-1), self.logits.shape[-1])

    @property
    def deterministic_sample(self) -> Tensor:
        """The mode."""
        return self.mode

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> Tensor:
        """Draw (*sample_shape, ..., K), int64."""
        drawn = super().sample(torch.Size(sample_shape or ()))  # type: ignore[no-untyped-call]  # torch's
        return F.one_hot(drawn, self.logits.shape[-1])

    def rsample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> Tensor:
        """Draw (*sample_shape, ..., K) floats, one-hot in value, with the gradient of the probabilities."""
        drawn = self.sample(sample_shape).to(self.probs.dtype)
        return drawn + self.probs - self.probs.detach()
