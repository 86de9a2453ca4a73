"""Ranks of examples within their sessions, in O(n log n)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["number_below", "sessions_sorted"]


def sessions_sorted(sessions: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Examples by session, and within a session by value, largest first; equal ones keep their order.

    Args:
        sessions: (examples,), whole numbers.
        values: (examples,).

    Returns:
        order: (examples,), indices of the examples.
        starts: (examples,), the place in that order where each one's session starts.
    """
    order = values.argsort(descending=True, stable=True)
    order = order[sessions[order].argsort(stable=True)]
    return order, _starts(sessions[order][None])


def number_below(sessions: Tensor, values: Tensor) -> Tensor:
    """How many examples of the same session have a smaller value, (examples,), int64.

    Args:
        sessions: (examples,), whole numbers.
        values: (examples,).
    """
    order = values.argsort(stable=True)
    order = order[sessions[order].argsort(stable=True)]
    groups, sorted_values = sessions[order], values[order]
    below = _starts(torch.stack([groups, _ranks(sorted_values)])) - _starts(groups[None])
    return torch.empty_like(below).scatter_(0, order, below)


def _ranks(values: Tensor) -> Tensor:
    ranks: Tensor = values.unique(return_inverse=True)[1]
    return ranks


def _starts(keys: Tensor) -> Tensor:
    """Where the run of columns equal to each one starts, (columns,)."""
    columns = keys.shape[-1]
    place = torch.arange(columns, device=keys.device)
    first = torch.ones(columns, dtype=torch.bool, device=keys.device)
    first[1:] = (keys.diff(dim=-1) != 0).any(0)
    starts: Tensor = torch.where(first, place, 0).cummax(0).values if columns else place
    return starts
