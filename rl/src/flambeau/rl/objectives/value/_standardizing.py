"""Advantages and rewards brought to mean 0 and deviation 1, over a whole batch or within groups."""

from __future__ import annotations

import torch
from torch import Tensor

# Below this, a standard deviation divides nothing.
_LEAST_DEVIATION = 1e-4


def alike(flags: Tensor, tensor: Tensor) -> Tensor:
    """Entries of the batch's shape as those of a tensor with further dimensions."""
    return flags.view(flags.shape + (1,) * (tensor.dim() - flags.dim())).expand(tensor.shape)


def standardized(values: Tensor, valid: Tensor | None = None, groups: Tensor | None = None) -> Tensor:
    """Values less their mean, divided by their standard deviation, which is taken to be 1e-4 at least.

    Args:
        values: `(*batch, *features)`.
        valid: which of the batch's elements count, `batch`; the others are brought to the same scale.
        groups: a number for each of the batch's elements, `batch`: means and deviations are those of elements of one
            number. A group of one element becomes 0.

    Returns:
        The shape of `values`.
    """
    if groups is None:
        counted = values if valid is None else values[alike(valid, values)]
        return (values - counted.mean()) / counted.std().clamp_min(_LEAST_DEVIATION)
    names, group = torch.unique(groups, return_inverse=True)
    group = alike(group, values).flatten()
    flat = values.flatten()
    weights = torch.ones_like(flat) if valid is None else alike(valid, values).flatten().to(flat.dtype)

    def summed(terms: Tensor) -> Tensor:
        return torch.zeros(len(names), dtype=flat.dtype, device=flat.device).index_add(0, group, terms * weights)

    count = summed(torch.ones_like(flat))
    distance = flat - (summed(flat) / count.clamp_min(1))[group]
    deviation = (summed(distance**2) / (count - 1).clamp_min(1)).sqrt().clamp_min(_LEAST_DEVIATION)
    return (distance / deviation[group]).view(values.shape)
