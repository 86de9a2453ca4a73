"""The area under the receiver operating characteristic, of several tasks at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Auc", "AucJiterator", "BatchAuc", "BatchAucJiterator", "auc"]


def auc(n_tasks: int, predictions: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The weighted area under the curve of each task, by trapezoids between examples in descending order.

    Args:
        n_tasks: T.
        predictions: (T, N), any order.
        labels: (T, N), 0 or 1.
        weights: (T, N), not negative.

    Returns:
        (T,); 0.5 where all examples of a task are of one class. Equal predictions count in the order that sorting
        leaves them in.
    """
    order = predictions.argsort(dim=-1, descending=True)
    labels, weights = labels.gather(-1, order), weights.gather(-1, order)
    hits, misses = (weights * labels).cumsum(-1), (weights * (1 - labels)).cumsum(-1)
    whole = hits[..., -1] * misses[..., -1]
    area = torch.trapezoid(hits, misses, dim=-1)
    return torch.where(whole == 0, 0.5, area / whole)


class Auc(nn.Module):
    """`auc` as a module."""

    def forward(self, n_tasks: int, predictions: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """See `auc`."""
        return auc(n_tasks, predictions, labels, weights)


class BatchAuc(Auc):
    """`Auc`; upstream has other kernels for it."""


class AucJiterator(Auc):
    """`Auc`; upstream has other kernels for it, which need a GPU."""


class BatchAucJiterator(Auc):
    """`Auc`; upstream has other kernels for it, which need a GPU."""
