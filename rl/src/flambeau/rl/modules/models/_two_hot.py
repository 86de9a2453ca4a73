"""Scalars as distributions over a fixed support (Hafner et al. 2023, arXiv:2301.04104, section "Critic learning")."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rl.modules.functional import symexp


def two_hot_encode(x: Tensor, bins: Tensor) -> Tensor:
    """Weights of the two neighbours of a value in the support, whose mean is the value.

    Args:
        x: any shape; what lies outside of the support is taken for its end.
        bins: (K,), ascending, K >= 2.

    Returns:
        (*x.shape, K), of the dtype of `x`.

    Raises:
        ValueError: the support has another shape.
    """
    if bins.ndim != 1 or len(bins) < 2:
        raise ValueError(f"two_hot_encode: bins has shape {tuple(bins.shape)}, expected (K,) with K >= 2.")
    bins = bins.to(x)
    value = x.clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, value.contiguous()).clamp(1, len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    weight = ((value - low) / (high - low)).unsqueeze(-1)
    encoded = torch.zeros(*x.shape, len(bins), dtype=x.dtype, device=x.device)
    encoded = encoded.scatter(-1, (above - 1).unsqueeze(-1), 1 - weight)
    return encoded.scatter(-1, above.unsqueeze(-1), weight)


def two_hot_decode(logits: Tensor, bins: Tensor) -> Tensor:
    """The mean of a distribution over a support.

    Args:
        logits: (..., K).
        bins: (K,). Of a support that is symmetric about 0, uniform logits give exactly 0.

    Returns:
        (...,).
    """
    bins = bins.to(logits)
    probabilities = logits.softmax(-1)
    # The antisymmetric part by differences of mirrored probabilities, so that equal ones cancel.
    odd, even = (bins - bins.flip(-1)) / 2, (bins + bins.flip(-1)) / 2
    return ((probabilities - probabilities.flip(-1)) / 2 * odd).sum(-1) + (probabilities * even).sum(-1)


def two_hot_cross_entropy(logits: Tensor, target: Tensor, bins: Tensor) -> Tensor:
    """The cross entropy of a distribution with the two-hot encoding of a target.

    Args:
        logits: (..., K).
        target: (...,) or (..., 1).
        bins: (K,).

    Returns:
        (...,).
    """
    if target.ndim == logits.ndim and target.shape[-1] == 1:
        target = target.squeeze(-1)
    return -(two_hot_encode(target, bins) * logits.log_softmax(-1)).sum(-1)


def default_bins(
    num_bins: int = 255, *, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """The support of DreamerV3: `symexp` of numbers from -20 to 20, exactly symmetric."""
    bins = symexp(torch.linspace(-20, 20, num_bins, device=device, dtype=dtype))
    return (bins - bins.flip(0)) / 2


class SymExpTwoHot(nn.Module):
    """Scalars as distributions over the support of DreamerV3.

    Args:
        num_bins: K, size of the support.
    """

    bins: Tensor

    def __init__(self, num_bins: int = 255) -> None:
        super().__init__()
        self.register_buffer("bins", default_bins(num_bins))

    def encode(self, target: Tensor) -> Tensor:
        """Values (...,) -> weights (..., K)."""
        return two_hot_encode(target, self.bins)

    def decode(self, logits: Tensor) -> Tensor:
        """Logits (..., K) -> means (...,)."""
        return two_hot_decode(logits, self.bins)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Logits (..., K) and targets (...,) -> cross entropies (...,)."""
        return two_hot_cross_entropy(logits, target, self.bins)

    def forward(self, logits: Tensor) -> Tensor:
        """Logits (..., K) -> means (..., 1)."""
        return self.decode(logits).unsqueeze(-1)
