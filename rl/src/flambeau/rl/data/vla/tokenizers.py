"""Tokens of continuous actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.data.vla.metadata import RobotDatasetMetadata

__all__ = ["ActionTokenizerBase", "UniformActionTokenizer", "VocabTailActionTokenizer"]


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

    @classmethod
    def from_metadata(cls, metadata: RobotDatasetMetadata, num_bins: int) -> UniformActionTokenizer:
        """With the bounds of a data set's actions.

        Args:
            metadata: of the data set.
            num_bins: how many intervals.

        Raises:
            ValueError: it has no bounds.
        """
        low, high = metadata.action_low, metadata.action_high
        if low is None or high is None:
            raise ValueError(
                f"UniformActionTokenizer: the metadata of {metadata.dataset_id!r} have no action_low and action_high."
            )
        return cls(num_bins, low=low, high=high, action_dim=metadata.action_dim)


class VocabTailActionTokenizer(ActionTokenizerBase):
    """Actions as OpenVLA writes them: the last ids of a language model's vocabulary.

    An action in [-1, 1] is the number d of edges, of `num_bins` at equal distances, that it is not below; its token is
    n - d, where n is the size of the vocabulary, or `num_bins` for ids in the tail alone. A token stands for the middle
    between two edges. With bounds q01 and q99 of a data set, actions are brought to [-1, 1] before and back behind.

    Args:
        num_bins: number of edges, at least 2.
        full_vocab_size: size of the vocabulary; None for ids from 0 to `num_bins` - 1.
        norm_low: q01, (size,).
        norm_high: q99, (size,).
        norm_mask: which parts of actions have bounds, (size,), bool; default: all.
        gripper_binarize: decode the other parts as -1 or 1.
        gripper_binarize_threshold: what is above is 1.
        gripper_invert: decode the other parts with the opposite sign.

    Raises:
        ValueError: there are less than 2 edges or more than ids, or one of the bounds is missing.

    Example:
        >>> tokenizer = VocabTailActionTokenizer(256, full_vocab_size=32000)
        >>> tokenizer.encode(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([31999, 31872, 31744])

    References:
        M. J. Kim et al., OpenVLA: An Open-Source Vision-Language-Action Model, arXiv:2406.09246, section 3.2.
    """

    bins: Tensor
    bin_centers: Tensor
    norm_low: Tensor | None
    norm_high: Tensor | None
    norm_mask: Tensor | None

    def __init__(
        self, num_bins: int = 256, *, full_vocab_size: int | None = None, norm_low: Tensor | None = None,
        norm_high: Tensor | None = None, norm_mask: Tensor | None = None, gripper_binarize: bool = False,
        gripper_binarize_threshold: float = 0.0, gripper_invert: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_bins < 2:
            raise ValueError(f"VocabTailActionTokenizer: num_bins is {num_bins}, expected at least 2.")
        if full_vocab_size is not None and full_vocab_size < num_bins:
            raise ValueError(
                f"VocabTailActionTokenizer: full_vocab_size is {full_vocab_size}, expected at least num_bins, which is "
                f"{num_bins}."
            )
        if (norm_low is None) != (norm_high is None):
            raise ValueError("VocabTailActionTokenizer: norm_low and norm_high are given together, or neither is.")
        self.num_bins = num_bins
        self.full_vocab_size = full_vocab_size
        self.gripper_binarize = gripper_binarize
        self.gripper_binarize_threshold = gripper_binarize_threshold
        self.gripper_invert = gripper_invert
        edges = torch.linspace(-1, 1, num_bins)
        self.register_buffer("bins", edges)
        self.register_buffer("bin_centers", (edges[1:] + edges[:-1]) / 2)
        if norm_low is not None and norm_mask is None:
            norm_mask = torch.ones(torch.as_tensor(norm_low).shape, dtype=torch.bool)
        # Bounds are kept as exact as a data set's publisher gives them.
        for name, bound in (("norm_low", norm_low), ("norm_high", norm_high)):
            self.register_buffer(name, None if bound is None else torch.as_tensor(bound, dtype=torch.float64))
        self.register_buffer("norm_mask", None if norm_mask is None else torch.as_tensor(norm_mask, dtype=torch.bool))

    @classmethod
    def from_norm_stats(
        cls, norm_stats: dict[str, Any], unnorm_key: str, *, num_bins: int = 256, full_vocab_size: int | None = None,
        gripper_binarize: bool = False, gripper_binarize_threshold: float = 0.0, gripper_invert: bool = False,
    ) -> VocabTailActionTokenizer:  # fmt: skip
        """With the bounds that come with a checkpoint of OpenVLA.

        Args:
            norm_stats: data set -> "action" -> "q01", "q99" and "mask".
            unnorm_key: which data set.
            num_bins: as for the class, like what follows.
            full_vocab_size: size of the vocabulary.
            gripper_binarize: whether parts without bounds are -1 or 1.
            gripper_binarize_threshold: between these.
            gripper_invert: whether they change their sign.

        Raises:
            KeyError: there is no such data set.
        """
        if unnorm_key not in norm_stats:
            raise KeyError(f"There are no bounds of {unnorm_key!r}; there are those of {sorted(norm_stats)}.")
        action = norm_stats[unnorm_key]["action"]
        return cls(
            num_bins, full_vocab_size=full_vocab_size, norm_low=torch.as_tensor(action["q01"], dtype=torch.float64),
            norm_high=torch.as_tensor(action["q99"], dtype=torch.float64), norm_mask=action.get("mask"),
            gripper_binarize=gripper_binarize, gripper_binarize_threshold=gripper_binarize_threshold,
            gripper_invert=gripper_invert,
        )  # fmt: skip

    @property
    def vocab_size(self) -> int:
        """How many ids there are: those of the vocabulary, or of its tail."""
        return self.num_bins if self.full_vocab_size is None else self.full_vocab_size

    def encode(self, actions: Tensor) -> Tensor:
        """Tokens of actions.

        Args:
            actions: (..., size); what is out of bounds counts as the bound.

        Returns:
            Of the same shape, int64.
        """
        scaled = actions
        if self.norm_low is not None and self.norm_high is not None:
            within = 2 * (scaled - self.norm_low) / (self.norm_high - self.norm_low + 1e-8) - 1
            scaled = torch.where(self._bounded(), within, scaled)
        scaled = scaled.to(self.bins.dtype).clamp(-1, 1)
        number = torch.bucketize(scaled, self.bins, right=True).clamp(1, self.num_bins)
        return self.vocab_size - number

    def decode(self, tokens: Tensor) -> Tensor:
        """Actions of tokens.

        Args:
            tokens: (..., size), integers.

        Returns:
            Of the same shape, float32.
        """
        place = (self.vocab_size - tokens.long() - 1).clamp(0, self.num_bins - 2)
        if self.norm_low is None or self.norm_high is None:
            return self.bin_centers[place]
        edges = torch.linspace(-1, 1, self.num_bins, dtype=torch.float64, device=tokens.device)
        centre = ((edges[1:] + edges[:-1]) / 2)[place]
        bounded = 0.5 * (centre + 1) * (self.norm_high - self.norm_low + 1e-8) + self.norm_low
        return torch.where(self._bounded(), bounded, self._gripper(centre)).float()

    def _bounded(self) -> Tensor:
        assert self.norm_mask is not None
        return self.norm_mask

    def _gripper(self, value: Tensor) -> Tensor:
        if self.gripper_binarize:
            value = torch.where(value > self.gripper_binarize_threshold, 1.0, -1.0).to(value.dtype)
        return -value if self.gripper_invert else value
