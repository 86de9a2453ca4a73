"""What becomes of non-tensor entries where new elements appear, others are chosen, or the batch size is another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal: of one type, and `==` says so in one truth value."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    try:
        return bool(first == second)
    except (ValueError, TypeError, RuntimeError):  # arrays and the like, whose comparison is no truth value
        return False


def refit(value: Any, size: torch.Size) -> Any:
    """The entry in a result of this batch size: one value goes along, a stack of values only if it fits, else None."""
    if hasattr(value, "_make"):
        return value if value.batch_size == size else resized(value, size)
    return value if value.batch_size == size else None


def spread(value: Any, size: torch.Size) -> Any:
    """The entry without batch dimensions for all positions of a batch."""
    return value._sized(size) if hasattr(value, "_sized") else value.expand(size)


def resized(value: Any, size: torch.Size) -> Any:
    """The entry of new elements: one value stays it, in place of several stands None."""
    if hasattr(value, "_make"):
        return type(value)._make(value.data, size, value.device)
    return classes.NonTensorData(None, batch_size=size)


def padded(value: Any, pairs: Sequence[Sequence[int]]) -> Any:
    """With None before and after along the first dimensions: (before, after) for each of them."""
    for dim, (before, after) in enumerate(pairs):
        fillers = []
        for count in (before, after):
            size = list(value.batch_size)
            size[dim] = count
            fillers.append([classes.NonTensorData(None, batch_size=size)] if count else [])
        if before or after:
            value = torch.cat([*fillers[0], value, *fillers[1]], dim)
    return value


def choose(value: Any, condition: Tensor, other: Any) -> Any:
    """The elements of one entry where a condition holds, else those of another; numbers and tensors replace none."""
    if not getattr(other, "_is_non_tensor", False):
        return value
    size = value.batch_size
    if hasattr(value, "_make") and hasattr(other, "_make") and same(value.data, other.data):
        return value
    flags = condition.reshape(condition.shape + (1,) * (len(size) - condition.ndim)).expand(size)
    if not size:
        return value if flags else other
    mine, theirs = value.reshape(-1).unbind(0), other.expand(size).reshape(-1).unbind(0)
    chosen = [one if flag else two for one, two, flag in zip(mine, theirs, flags.flatten().tolist(), strict=True)]
    return torch.stack(chosen).reshape(size) if chosen else value
