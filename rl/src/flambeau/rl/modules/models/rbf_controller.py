"""PILCO's controller: radial basis functions, squashed by a sine (Deisenroth and Rasmussen 2011)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["RBFController"]

# Added to variances before they are squashed, for a covariance that has a Cholesky factor.
_JITTER = 1e-6


class RBFController(nn.Module):
    """Means and covariances of actions from those of states, through radial basis functions.

    Args:
        input_dim: D, size of states.
        output_dim: K, size of actions.
        max_action: actions lie within it, on both sides of 0: a number or (K,).
        n_basis: number of basis functions.

    Example:
        >>> controller = RBFController(input_dim=4, output_dim=1, max_action=2.0, n_basis=5)
        >>> mean, covariance, cross = controller(torch.randn(2, 4), 0.1 * torch.eye(4).expand(2, 4, 4))
        >>> mean.shape, covariance.shape, cross.shape
        (torch.Size([2, 1]), torch.Size([2, 1, 1]), torch.Size([2, 4, 1]))

    References:
        Deisenroth and Rasmussen 2011, "PILCO: A Model-Based and Data-Efficient Approach to Policy Search", ICML;
        Deisenroth 2010, "Efficient Reinforcement Learning using Gaussian Processes", sections 2.3.2 and 3.5.2.
    """

    def __init__(self, input_dim: int, output_dim: int, max_action: float | Tensor, n_basis: int = 10) -> None:
        super().__init__()
        self.input_dim, self.output_dim, self.n_basis, self.max_action = input_dim, output_dim, n_basis, max_action
        self.centers = nn.Parameter(torch.randn(n_basis, input_dim) * 0.5)
        self.weights = nn.Parameter(torch.randn(n_basis, output_dim) * 0.1)
        self.lengthscales = nn.Parameter(torch.ones(input_dim))

    @staticmethod
    def squash_sin(mean: Tensor, covariance: Tensor, max_action: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of `max_action * sin(x)` for Gaussian x, exact.

        Args:
            mean: of x, (*batch, K).
            covariance: of x, (*batch, K, K).
            max_action: a number or (K,).

        Returns:
            Mean (*batch, K) and covariance (*batch, K, K) of the result; (*batch, K, K), which multiplied by the
            covariance of x from the left gives the covariance of x and the result.
        """
        bound = torch.as_tensor(max_action, dtype=mean.dtype, device=mean.device).expand(mean.shape[-1])
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        squashed = bound * (-variance / 2).exp() * mean.sin()
        # E[sin x sin y] = (E[cos(x - y)] - E[cos(x + y)]) / 2, and cosines of Gaussians have closed forms.
        exponent = -(variance.unsqueeze(-1) + variance.unsqueeze(-2)) / 2
        apart, together = (mean.unsqueeze(-1) + sign * mean.unsqueeze(-2) for sign in (-1, 1))
        product = (exponent + covariance).exp() * apart.cos() - (exponent - covariance).exp() * together.cos()
        product = product - exponent.exp() * (apart.cos() - together.cos())
        spread = bound.unsqueeze(-1) * bound * product / 2
        slope = torch.diag_embed(bound * (-variance / 2).exp() * mean.cos())
        return squashed, spread, slope

    def forward(self, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of actions.

        Args:
            mean: of states, (*batch, D).
            covariance: of states, (*batch, D, D).

        Returns:
            Mean (*batch, K) and covariance (*batch, K, K) of actions; (*batch, D, K), which multiplied by the
            covariance of states from the left gives the covariance of states and actions.
        """
        scales = self.lengthscales.square()
        off = self.centers - mean.unsqueeze(-2)
        spread = covariance + torch.diag_embed(scales)
        solved = torch.linalg.solve(spread, off.mT).mT
        determinant = torch.linalg.det(covariance / scales.unsqueeze(-1) + torch.eye(len(scales)).to(covariance))
        activation = determinant.rsqrt().unsqueeze(-1) * (-(off * solved).sum(-1) / 2).exp()
        weighted = activation.unsqueeze(-1) * self.weights
        action = weighted.sum(-2)
        cross = solved.mT @ weighted
        action_covariance = self.weights.mT @ self._products(mean, covariance) @ self.weights
        action_covariance = action_covariance - action.unsqueeze(-1) * action.unsqueeze(-2)
        action_covariance = action_covariance + _JITTER * torch.eye(self.output_dim).to(action_covariance)
        action, action_covariance, slope = self.squash_sin(action, action_covariance, self.max_action)
        return action, action_covariance, cross @ slope

    def _products(self, mean: Tensor, covariance: Tensor) -> Tensor:
        """Expected products of two basis functions, (*batch, n_basis, n_basis)."""
        scales = self.lengthscales.square()
        first, second = self.centers.unsqueeze(-2), self.centers.unsqueeze(-3)
        between = (-((first - second).square() / scales).sum(-1) / 4).exp()
        off = (first + second) / 2 - mean[..., None, None, :]
        spread = covariance + torch.diag_embed(scales / 2)
        solved = torch.linalg.solve(spread.unsqueeze(-3), off.mT).mT
        determinant = torch.linalg.det(2 * covariance / scales.unsqueeze(-1) + torch.eye(len(scales)).to(covariance))
        products: Tensor = determinant.rsqrt()[..., None, None] * between * (-(off * solved).sum(-1) / 2).exp()
        return products
