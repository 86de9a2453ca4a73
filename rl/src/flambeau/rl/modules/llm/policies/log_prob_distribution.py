"""A distribution of tokens of which only the log-probabilities of the chosen ones are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

__all__ = ["LogProbDistribution"]


class LogProbDistribution(Distribution):
    """Log-probabilities that an inference engine reported, in the place of the distribution they come from.

    Args:
        log_probs: (*batch, tokens).
        mask: which tokens count, of the same shape, bool.

    Example:
        >>> dist = LogProbDistribution(torch.tensor([[-1.0, -2.0]]), mask=torch.tensor([[True, False]]))
        >>> dist.log_prob(torch.tensor([[3, 4]]))
        tensor([[-1.,  0.]])
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, log_probs: Tensor, mask: Tensor | None = None) -> None:
        self.log_probs, self.mask = log_probs, mask
        super().__init__(log_probs.shape[:-1], log_probs.shape[-1:], validate_args=False)

    def __repr__(self) -> str:
        masked = "" if self.mask is None else f", {int(self.mask.sum())} of which count"
        return f"{type(self).__name__}(log_probs of {tuple(self.log_probs.shape)}{masked})"

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probabilities of the tokens that were chosen, 0 where the mask says no.

        Args:
            value: those tokens, (*batch, tokens); other tokens cannot be told from them.

        Raises:
            ValueError: its shape is another.
        """
        if value.shape != self.log_probs.shape:
            raise ValueError(f"value has shape {tuple(value.shape)}, expected {tuple(self.log_probs.shape)}.")
        return self.log_probs if self.mask is None else torch.where(self.mask, self.log_probs, 0.0)

    def sample(self, sample_shape: Any = None) -> Tensor:
        """There are no samples.

        Raises:
            NotImplementedError: always; the probabilities of other tokens are not known.
        """
        raise NotImplementedError("only log-probabilities of chosen tokens are known; sample from the model.")

    def entropy(self) -> Tensor:
        """There is no entropy.

        Raises:
            NotImplementedError: always; the probabilities of other tokens are not known.
        """
        raise NotImplementedError("only log-probabilities of chosen tokens are known; ask the model for the entropy.")
