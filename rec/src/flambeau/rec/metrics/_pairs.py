"""Counting pairs in order among n examples, in O(n log n)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["concordant_weight", "increasing_weight", "pair_weight", "tied_weight"]


def pair_weight(weights: Tensor) -> Tensor:
    """The sum of w_i w_j over all pairs i < j.

    Args:
        weights: (tasks, examples).

    Returns:
        (tasks,), of the weights' dtype.
    """
    return (weights.sum(-1).square() - weights.square().sum(-1)) / 2


def increasing_weight(values: Tensor, weights: Tensor) -> Tensor:
    """The sum of w_i w_j over the pairs i < j with values_i < values_j.

    The values' ranks are told apart bit by bit, from the highest: within a group of equal higher bits, each example
    whose
    bit is 1 makes a pair with each earlier one whose bit is 0. Then every group is split in two by the bit, its order
    kept.

    Args:
        values: (tasks, examples), of any real dtype.
        weights: (tasks, examples).

    Returns:
        (tasks,), float64.
    """
    tasks, examples = values.shape
    total = weights.new_zeros(tasks, dtype=torch.float64)
    if examples < 2:
        return total
    bits = (examples - 1).bit_length()
    size = 1 << bits
    # Of equal values the later one ranks lower, so that they make no pair.
    order = values.flip(-1).argsort(dim=-1, stable=True)
    order = examples - 1 - order
    # With ranks up to a power of two all groups are equally large; the examples that fill them up weigh nothing.
    ranks = torch.arange(size, device=values.device).repeat(tasks, 1)
    ranks[:, :examples].scatter_(1, order, ranks[:, :examples].clone())
    weight = weights.new_zeros((tasks, size), dtype=torch.float64)
    weight[:, :examples] = weights
    ranks, weight = ranks[:, None], weight[:, None]
    for bit in reversed(range(bits)):
        high = (ranks >> bit & 1).bool()
        low = ~high
        before = (weight * low).cumsum(-1)
        total += (weight * high * before).sum((1, 2))
        if bit:
            shape = tasks, -1, 1 << bit
            ranks = torch.stack([ranks[low].view(shape), ranks[high].view(shape)], 2).view(shape)
            weight = torch.stack([weight[low].view(shape), weight[high].view(shape)], 2).view(shape)
    return total


def concordant_weight(first: Tensor, second: Tensor, weights: Tensor) -> Tensor:
    """The sum of w_i w_j over the pairs that both rank alike: neither ties them, and the larger one is the same.

    Args:
        first: (tasks, examples).
        second: (tasks, examples).
        weights: (tasks, examples).

    Returns:
        (tasks,), float64.
    """
    # By the first, and among equals by the second downwards, so that what the first ties makes no increasing pair.
    order = second.argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, first.gather(-1, order).argsort(dim=-1, stable=True))
    return increasing_weight(second.gather(-1, order), weights.gather(-1, order))


def tied_weight(first: Tensor, second: Tensor, weights: Tensor) -> Tensor:
    """The sum of w_i w_j over the pairs that both tie; arguments and result as of `concordant_weight`."""
    tasks, examples = first.shape
    if examples == 0:
        return weights.new_zeros(tasks, dtype=torch.float64)
    order = second.argsort(dim=-1, stable=True)
    order = order.gather(-1, first.gather(-1, order).argsort(dim=-1, stable=True))
    weights = weights.gather(-1, order).double()
    runs = torch.zeros_like(order)
    changes = [values.gather(-1, order).diff(dim=-1) != 0 for values in (first, second)]
    runs[:, 1:] = (changes[0] | changes[1]).cumsum(-1)
    sums, squares = weights.new_zeros((2, tasks, examples))
    sums.scatter_add_(-1, runs, weights)
    squares.scatter_add_(-1, runs, weights.square())
    pairs: Tensor = (sums.square() - squares) / 2
    return pairs.sum(-1)
