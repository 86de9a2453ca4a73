"""Which elements of a batch are equal by one entry."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import missing_key


def isin(input: Any, reference: Any, key: Any, dim: int = 0) -> Tensor:
    """For each element of a tensordict along `dim`: whether the reference has one with an equal entry `key`.

    Args:
        input: a tensordict.
        reference: another, of the same shape but for `dim`.
        key: of the entry that is compared.
        dim: a batch dimension.

    Returns:
        (size of `dim`,) bool.

    Raises:
        KeyError: an entry is missing.
        ValueError: the shapes do not fit.
    """
    mine, theirs = _rows(input, key, dim), _rows(reference, key, dim)
    if mine.shape[1:] != theirs.shape[1:]:
        raise ValueError(f"{key!r} has shapes {list(mine.shape)} and {list(theirs.shape)}, which cannot be compared.")
    _, inverse = torch.unique(torch.cat([mine, theirs]), dim=0, return_inverse=True)
    return torch.isin(inverse[: len(mine)], inverse[len(mine) :])


def remove_duplicates(input: Any, key: Any, dim: int = 0, *, return_indices: bool = False) -> Any:
    """The elements along `dim` whose entry `key` no earlier element has.

    Args:
        input: a tensordict.
        key: of the entry that is compared.
        dim: a batch dimension.
        return_indices: give, too, for each element of the input the place of its equal in the result.

    Returns:
        The tensordict, or it and an int64 tensor (size of `dim`,).
    """
    dim = input._dim(dim)
    rows = _rows(input, key, dim)
    values, inverse = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full((len(values),), len(rows), dtype=torch.int64, device=rows.device)
    first = first.scatter_reduce(0, inverse, torch.arange(len(rows), device=rows.device), "amin")
    kept, order = first.sort()
    result = input[(slice(None),) * dim + (kept,)]
    if not return_indices:
        return result
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=rows.device)
    return result, rank[inverse]


def _rows(td: Any, key: Any, dim: int) -> Tensor:
    value = td.get(key, None)
    if value is None:
        raise missing_key(key, td._key_names())
    return value.movedim(td._dim(dim), 0).flatten(1) if value.ndim > 1 else value
