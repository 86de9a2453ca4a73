"""Activation functions with parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SwishLayerNorm"]


class SwishLayerNorm(nn.Module):
    """x * sigmoid(LayerNorm(x)): Swish (Ramachandran et al. 2017, arXiv:1710.05941) with a normalized gate.

    Args:
        input_dims: shape of the trailing dimensions that are normalized, or the size of the last one.
        device: of the parameters.
    """

    def __init__(self, input_dims: int | list[int] | torch.Size, device: torch.device | None = None) -> None:
        super().__init__()
        self.norm = nn.Sequential(nn.LayerNorm(input_dims, device=device), nn.Sigmoid())

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        gate: Tensor = self.norm(input)
        return input * gate
