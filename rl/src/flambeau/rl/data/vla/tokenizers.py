"""Tokens of continuous actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["ActionTokenizerBase", "UniformActionTokenizer"]


class ActionTokenizerBase(nn.Module):
    """From continuous actions to tokens and back; a subclass defines `encode`, `decode` and `vocab_size`."""

    def encode(self, actions: Tensor) -> Tensor:
        """Tokens of actions.

        Args:
            actions: (..., size), floating-point.

        Returns:
            Of the same shape, int64, from 0 to `vocab_size` - 1.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `encode`.")

    def decode(self, tokens: Tensor) -> Tensor:
        """Actions of tokens.

        Args:
            tokens: (..., size), integers.

        Returns:
            Of the same shape, floating-point.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `decode`.")

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        raise NotImplementedError(f"{type(self).__name__} defines no `vocab_size`.")


class UniformActionTokenizer(ActionTokenizerBase):
    """The number of the interval, of several of the same length, that an action is in.

    Args:
        num_bins: how many intervals, at least 1.
        low: lower bound, a number or one for each dimension of actions; what is below counts as it.
        high: upper bound, likewise.
        action_dim: size of actions, where the bounds are numbers and are to be kept for each dimension.

    Raises:
        ValueError: there is no interval, or a bound is not below the other.

    Example:
        >>> tokenizer = UniformActionTokenizer(4, low=-1.0, high=1.0)
        >>> tokenizer.decode(tokenizer.encode(torch.tensor([-1.0, 0.1])))
        tensor([-0.7500,  0.2500])

    References:
        A. Brohan et al., RT-2: Vision-Language-Action Models Transfer Web Knowledge to Robotic Control,
        arXiv:2307.15818, section 3.2.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, num_bins: int, *, low: float | Tensor, high: float | Tensor, action_dim: int | None = None
    ) -> None:
        super().__init__()
        if num_bins < 1:
            raise ValueError(f"UniformActionTokenizer: num_bins is {num_bins}, expected at least 1.")
        bounds = [torch.as_tensor(bound, dtype=torch.get_default_dtype()) for bound in (low, high)]
        if action_dim is not None:
            bounds = [bound.expand(action_dim).clone() for bound in bounds]
        if not bool((bounds[0] < bounds[1]).all()):
            raise ValueError(f"UniformActionTokenizer: low is {low}, and must be below high, which is {high}.")
        self.num_bins = num_bins
        self.register_buffer("low", bounds[0])
        self.register_buffer("high", bounds[1])

    @property
    def vocab_size(self) -> int:
        """How many tokens there are: one for each interval."""
        return self.num_bins

    @property
    def action_dim(self) -> int | None:
        """Size of actions; None where the bounds are numbers."""
        return self.low.shape[-1] if self.low.ndim else None

    def encode(self, actions: Tensor) -> Tensor:
        """The intervals of actions.

        Args:
            actions: (..., size); what is out of bounds counts as the bound.

        Returns:
            Of the same shape, int64.
        """
        place = (actions - self.low) / (self.high - self.low)
        return (place * self.num_bins).floor().clamp(0, self.num_bins - 1).long()

    def decode(self, tokens: Tensor) -> Tensor:
        """The middles of intervals.

        Args:
            tokens: (..., size), integers.

        Returns:
            Of the same shape.
        """
        return self.low + (tokens.to(self.low.dtype) + 0.5) / self.num_bins * (self.high - self.low)
