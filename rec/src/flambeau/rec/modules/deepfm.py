"""The two halves of DeepFM (Guo et al. 2017, arXiv:1703.04247)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["DeepFM", "FactorizationMachine"]


def _flattened(embeddings: list[Tensor]) -> Tensor:
    """(batch, columns of all)."""
    return torch.cat([embedding.flatten(1) for embedding in embeddings], 1)


class DeepFM(nn.Module):
    """A dense module over all embeddings of an example side by side.

    Args:
        dense_module: (batch, columns of all embeddings) to anything.
    """

    def __init__(self, dense_module: nn.Module) -> None:
        super().__init__()
        self.dense_module = dense_module

    def forward(self, embeddings: list[Tensor]) -> Tensor:
        """What the module makes of embeddings, (batch, ...) each."""
        result: Tensor = self.dense_module(_flattened(embeddings))
        return result


class FactorizationMachine(nn.Module):
    """The sum of all products of two different columns, in linear time (Rendle 2010)."""

    def forward(self, embeddings: list[Tensor]) -> Tensor:
        """Embeddings, (batch, ...) each, to (batch, 1)."""
        columns = _flattened(embeddings)
        square_of_sum = columns.sum(1, keepdim=True).square()
        return 0.5 * (square_of_sum - columns.square().sum(1, keepdim=True))
