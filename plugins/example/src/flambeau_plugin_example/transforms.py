"""Preprocessing that goes with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PointPreset"]


@dataclass(frozen=True)
class PointPreset:
    """Makes two numbers what the model takes.

    Args:
        scale: what coordinates are divided by, so that they come to lie in [-1, 1].
    """

    scale: float = 1.0

    def __call__(self, point: Sequence[float] | Tensor) -> Tensor:
        """Map a point, or a tensor (..., 2), to float32 of the same shape.

        Raises:
            ValueError: the last dimension is not 2.
        """
        tensor = torch.as_tensor(point, dtype=torch.float32)
        if tensor.shape[-1:] != (2,):
            raise ValueError(f"point has shape {tuple(tensor.shape)}, expected (..., 2); give x and y.")
        return tensor / self.scale
