"""How far one model's tokens are from another's."""

from __future__ import annotations

from torch import Tensor

__all__ = ["k3_kl_token_estimate"]


def k3_kl_token_estimate(target_log_prob: Tensor, log_prob: Tensor) -> Tensor:
    """Estimate the Kullback-Leibler divergence of a target from the distribution that tokens were drawn from.

    `exp(d) - 1 - d` of d = target_log_prob - log_prob: never negative, and unbiased for tokens drawn by `log_prob`
    (Schulman, 2020, "Approximating KL divergence", the estimator called k3).

    Args:
        target_log_prob: of each token, of any shape.
        log_prob: of each token, by the distribution it was drawn from.

    Returns:
        The same shape.

    Example:
        >>> import torch
        >>> k3_kl_token_estimate(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0]))
        tensor([0.0000, 0.3679])
    """
    distance = target_log_prob - log_prob
    return distance.exp() - 1 - distance
