"""Distributions of tokens in sequences, of which positions or tokens are masked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.nn import functional as F


class LLMMaskedCategorical(D.Distribution):
    """Categorical distributions over a vocabulary of C tokens, whose scores need no masked copy of the logits.

    Args:
        logits: (*B, T, C), unnormalized log-probabilities.
        mask: bool; (*B, T), True for valid positions, or (*B, T, C), True for tokens that may be drawn there.
        ignore_index: the token of positions that do not count: their log-probability is 0.

    Raises:
        ValueError: the mask has neither shape.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, logits: Tensor, mask: Tensor, ignore_index: int = -100) -> None:
        if mask.shape not in (logits.shape[:-1], logits.shape):
            raise ValueError(
                f"LLMMaskedCategorical: mask has shape {tuple(mask.shape)}, expected {tuple(logits.shape[:-1])} for "
                f"positions or {tuple(logits.shape)} for tokens."
            )
        self._original_logits, self._mask, self.ignore_index = logits, mask, ignore_index
        self._position_level_masking = mask.shape == logits.shape[:-1]
        self.clear_cache()
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def clear_cache(self) -> None:
        """Free the masked logits and what was made of them."""
        self._masked_logits: Tensor | None = None
        self._masked_dist: D.Categorical | None = None

    @property
    def mask(self) -> Tensor:
        """The mask."""
        return self._mask

    @property
    def position_level_masking(self) -> bool:
        """Whether the mask is of positions."""
        return self._position_level_masking

    @property
    def logits(self) -> Tensor:
        """The logits as they were given."""
        return self._original_logits

    @property
    def probs(self) -> Tensor:
        """Their probabilities, without the mask."""
        return self._original_logits.softmax(-1)

    @property
    def masked_logits(self) -> Tensor:
        """The logits, with the least number of their dtype where the mask is False; kept until `clear_cache`."""
        if self._masked_logits is None:
            mask = self._mask.unsqueeze(-1) if self._position_level_masking else self._mask
            least = torch.finfo(self.logits.dtype).min
            self._masked_logits = self.logits.masked_fill(~mask, least)
        return self._masked_logits

    @property
    def masked_dist(self) -> D.Categorical:
        """The distribution of the masked logits; kept until `clear_cache`."""
        if self._masked_dist is None:
            self._masked_dist = D.Categorical(logits=self.masked_logits, validate_args=False)
        return self._masked_dist

    def log_prob(self, value: Tensor) -> Tensor:
        """Of tokens (*B, T) -> (*B, T): 0 where they are `ignore_index`, and at masked positions.

        Raises:
            ValueError: `value` has another shape.
        """
        if value.shape != self._batch_shape:
            raise ValueError(
                f"LLMMaskedCategorical.log_prob: value has shape {tuple(value.shape)}, expected a token for each "
                f"position, {tuple(self._batch_shape)}."
            )
        logits = self.masked_logits
        if self._position_level_masking:
            logits, value = self.logits, value.masked_fill(~self._mask, self.ignore_index)
        flat = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), value.reshape(-1), reduction="none", ignore_index=self.ignore_index
        )
        return -flat.view(value.shape)

    def sample(self, sample_shape: Any = None) -> Tensor:
        """Draw tokens (*sample_shape, *B, T)."""
        drawn: Tensor = self.masked_dist.sample(torch.Size(sample_shape or ()))
        return drawn

    def rsample(self, sample_shape: Any = None) -> Tensor:
        """The same: tokens are numbers, which have no gradient."""
        return self.sample(sample_shape)

    @property
    def mode(self) -> Tensor:
        """The likeliest tokens that may be drawn."""
        return self.masked_logits.argmax(-1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mode."""
        return self.mode

    def entropy(self) -> Tensor:
        """In nats (*B, T); 0 where nothing may be drawn."""
        entropy: Tensor = self.masked_dist.entropy()
        valid = self._mask if self._position_level_masking else self._mask.any(-1)
        return entropy.masked_fill(~valid, 0.0)
