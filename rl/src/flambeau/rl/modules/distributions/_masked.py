"""Categorical distributions of which only some classes may be drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributions as D
from torch.nn import functional as F

from flambeau.rl.modules.distributions._one_hot import ReparamGradientStrategy, hard_sample


class MaskedCategorical(D.Categorical):
    """A categorical distribution over K classes, of which a mask or a list of indices says which may be drawn.

    Args:
        logits: (..., K), unnormalized log-probabilities.
        probs: (..., K), in place of logits; what is allowed of them is normalized again.
        mask: bool, broadcasts with (..., K): True for classes that may be drawn.
        indices: int64 (..., A), the allowed classes, in place of a mask.
        neg_inf: the logit of the classes that a mask forbids.
        padding_value: entries of `indices` that stand for no class.
        use_cross_entropy: accepted for compatibility; scores are looked up either way.
        padding_side: kept as an attribute.

    Raises:
        ValueError: not exactly one of logits and probs is given, or not exactly one of mask and indices.

    Example:
        >>> dist = MaskedCategorical(logits=torch.zeros(3), mask=torch.tensor([True, False, True]))
        >>> dist.probs
        tensor([0.5000, 0.0000, 0.5000])
    """

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        indices: Tensor | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
        use_cross_entropy: bool = True,
        padding_side: str = "left",
    ) -> None:
        name = type(self).__name__
        if (mask is None) == (indices is None):
            raise ValueError(f"{name}: give either `mask` or `indices`, which say what classes may be drawn.")
        if (logits is None) == (probs is None):
            raise ValueError(f"{name}: give either `logits` or `probs`.")
        scores = logits if logits is not None else probs.log()  # type: ignore[union-attr]
        self.use_cross_entropy, self.neg_inf = use_cross_entropy, neg_inf
        self._padding_value, self._padding_side = padding_value, padding_side
        self.num_samples = scores.shape[-1]
        self._sparse_mask = indices is not None
        self._mask: Tensor
        if indices is not None:
            batch = torch.broadcast_shapes(scores.shape[:-1], indices.shape[:-1])
            self._mask = indices.expand(*batch, indices.shape[-1])
            padding = None if padding_value is None else self._mask == padding_value
            positions = self._mask if padding is None else self._mask.masked_fill(padding, 0)
            scores = scores.expand(*batch, self.num_samples).gather(-1, positions)
            self._forbidden = padding
            if padding is not None:
                scores = scores.masked_fill(padding, -torch.inf)
        elif mask is not None:
            self._mask, self._forbidden = mask, ~mask
            scores = torch.where(mask, scores, neg_inf)
        super().__init__(logits=scores, validate_args=False)

    @property
    def padding_value(self) -> int:
        """What stands for no class among the indices."""
        return 0 if self._padding_value is None else self._padding_value

    @property
    def padding_side(self) -> str:
        """On which side padding is expected."""
        return self._padding_side

    @property
    def mask(self) -> Tensor:
        """The mask.

        Raises:
            ValueError: there are indices in its place.
        """
        if self._sparse_mask:
            raise ValueError(f"{type(self).__name__} was made with `indices`, it has no mask.")
        return self._mask

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name in ("logits", "_param", "_mask", "_forbidden", "probs"):
            if isinstance(value := self.__dict__.get(name), Tensor):
                new.__dict__[name] = value.expand(*batch_shape, value.shape[-1])
        D.Distribution.__init__(new, torch.Size(batch_shape), validate_args=False)
        return new

    def entropy(self) -> Tensor:
        """Of the allowed classes, in nats (...)."""
        logits = self.logits
        if self._forbidden is None:
            return -(logits * logits.exp()).sum(-1)
        # Over the allowed classes alone: forbidden ones have some mass if neg_inf is finite.
        logits = logits.masked_fill(self._forbidden, -torch.inf)
        logits = logits - logits.logsumexp(-1, keepdim=True)
        return -(logits.masked_fill(self._forbidden, 0.0) * logits.exp().masked_fill(self._forbidden, 0.0)).sum(-1)

    def _drawn_positions(self, sample_shape: Any) -> Tensor:
        drawn: Tensor = super().sample(torch.Size(sample_shape or ()))  # type: ignore[no-untyped-call]  # torch's
        return drawn

    def _classes(self, positions: Tensor) -> Tensor:
        """The classes that stand at positions of the logits."""
        if not self._sparse_mask:
            return positions
        indices = self._mask.expand(*positions.shape, self._mask.shape[-1])
        return indices.gather(-1, positions.unsqueeze(-1)).squeeze(-1)

    def sample(self, sample_shape: Any = None) -> Tensor:
        """Draw allowed classes, int64 (*sample_shape, ...)."""
        return self._classes(self._drawn_positions(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Of classes, int64 (...) -> (...); minus infinity, or what `neg_inf` makes of it, for forbidden ones."""
        if not self._sparse_mask:
            shape = torch.broadcast_shapes(value.shape, self.batch_shape)
            logits = self.logits.expand(*shape, self.logits.shape[-1])
            return logits.gather(-1, value.long().expand(shape).unsqueeze(-1)).squeeze(-1)
        hits = self._mask == value.unsqueeze(-1)
        if self._forbidden is not None:
            hits = hits & ~self._forbidden
        return torch.where(hits, self.logits, -torch.inf).amax(-1)

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self._classes(self.logits.argmax(-1))

    @property
    def deterministic_sample(self) -> Tensor:
        """The mode."""
        return self.mode


class MaskedOneHotCategorical(MaskedCategorical):
    """A `MaskedCategorical` whose samples are one-hot vectors.

    Args:
        logits, probs, mask, indices, neg_inf, padding_value: see `MaskedCategorical`.
        grad_method: how `rsample` lets gradients through.
    """

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        mask: Tensor | None = None,
        indices: Tensor | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
    ) -> None:
        self.grad_method = grad_method
        super().__init__(
            logits, probs, mask=mask, indices=indices, neg_inf=neg_inf, padding_value=padding_value
        )  # fmt: skip

    def sample(self, sample_shape: Any = None) -> Tensor:
        """Draw one-hot vectors, int64 (*sample_shape, ..., K)."""
        return F.one_hot(super().sample(sample_shape), self.num_samples)

    def rsample(self, sample_shape: Any = None) -> Tensor:
        """Draw (*sample_shape, ..., K) floats, one-hot in value, with gradients."""
        return hard_sample(self._full_logits(), torch.Size(sample_shape or ()), self.sample, self.grad_method)

    def _full_logits(self) -> Tensor:
        """The logits of all K classes."""
        if not self._sparse_mask:
            return self.logits
        indices, logits = self._mask, self.logits
        if self._forbidden is not None:
            # Padding goes to a place of its own, lest it overwrite a class.
            indices = indices.masked_fill(self._forbidden, self.num_samples)
        full = logits.new_full((*logits.shape[:-1], self.num_samples + 1), -torch.inf)
        return full.scatter(-1, indices, logits)[..., :-1]

    def log_prob(self, value: Tensor) -> Tensor:
        """Of one-hot vectors (..., K) -> (...)."""
        return super().log_prob(_as_numbers(value).argmax(-1))

    @property
    def mode(self) -> Tensor:
        """One-hot vectors of the likeliest classes, int64."""
        return F.one_hot(self._classes(self.logits.argmax(-1)), self.num_samples)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mode."""
        return self.mode


def _as_numbers(value: Tensor) -> Tensor:
    return value.to(torch.uint8) if value.dtype == torch.bool else value
