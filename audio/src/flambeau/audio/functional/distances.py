"""Distances between sets of recordings."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["frechet_distance"]


def frechet_distance(mu_x: Tensor, sigma_x: Tensor, mu_y: Tensor, sigma_y: Tensor) -> Tensor:
    """Compute the Frechet distance of two Gaussians, the squared 2-Wasserstein distance.

    ::

        |mu_x - mu_y|^2 + trace(sigma_x + sigma_y - 2 (sigma_x sigma_y)^(1/2))

    Args:
        mu_x: (N,), real.
        sigma_x: (N, N), a covariance.
        mu_y: (N,).
        sigma_y: (N, N).

    Returns:
        (), >= 0 up to rounding.

    Raises:
        ValueError: shapes that do not go together.

    References:
        Kilgour et al. 2019, "Frechet Audio Distance", arXiv:1812.08466.
    """
    size = tuple(mu_x.shape)
    if len(size) != 1 or not tuple(sigma_x.shape) == tuple(sigma_y.shape) == size * 2 or tuple(mu_y.shape) != size:
        raise ValueError(
            f"frechet_distance: mu_x has shape {size}, sigma_x {tuple(sigma_x.shape)}, mu_y {tuple(mu_y.shape)}, "
            f"sigma_y {tuple(sigma_y.shape)}; expected (N,), (N, N), (N,), (N, N)."
        )
    means = (mu_x - mu_y).square().sum()
    common = torch.linalg.eigvals(sigma_x @ sigma_y).sqrt().real.sum()
    distance: Tensor = means + sigma_x.trace() + sigma_y.trace() - 2 * common
    return distance
