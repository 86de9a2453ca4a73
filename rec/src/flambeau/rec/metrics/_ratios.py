"""Parts that the formulas of metrics have in common."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ETA", "clamped", "cross_entropy", "entropy", "example_sum", "ratio", "recalibrated"]

ETA = 1e-12
"""How near to 0 and 1 a probability may come before its logarithm is taken."""


def example_sum(values: Tensor) -> Tensor:
    """The sum over examples, the last dimension."""
    return values.sum(-1)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient in float64, 0 where the denominator is."""
    return torch.where(denominator == 0.0, 0.0, numerator / denominator).double()


def clamped(probabilities: Tensor, eta: float) -> Tensor:
    """Probabilities in [eta, 1 - eta], float64."""
    return probabilities.double().clamp(eta, 1.0 - eta)


def cross_entropy(labels: Tensor, predictions: Tensor, weights: Tensor, eta: float) -> Tensor:
    """-w (y log2 p + (1 - y) log2(1 - p)) of each example, in bits."""
    p = clamped(predictions, eta)
    return -weights * (labels * torch.log2(p) + (1.0 - labels) * torch.log2(1.0 - p))


def entropy(positive: Tensor, negative: Tensor, mean: Tensor) -> Tensor:
    """-P log2 m - N log2(1 - m): the cross entropy of predicting `mean` for every example, in bits."""
    return (-positive * torch.log2(mean) - negative * torch.log2(1.0 - mean)).double()


def recalibrated(predictions: Tensor, coefficient: float) -> Tensor:
    """P / (p + (1 - p) / c): probabilities over all examples, of a model that saw the share c of negative ones.

    References:
        He et al. 2014, "Practical Lessons from Predicting Clicks on Ads at Facebook", section 6.3.
    """
    return predictions / (predictions + (1.0 - predictions) / coefficient)
