"""Indices of batch dimensions: normal form, and the batch size that indexing leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def is_full(index: Any) -> bool:
    """Whether an index leaves everything as it is: `...`, `:`, and tuples of them, empty ones included."""
    if isinstance(index, tuple):
        return all(map(is_full, index))
    return index is Ellipsis or (isinstance(index, slice) and index == slice(None))


def normal_index(index: Any, batch_dims: int) -> Any:
    """An index that every leaf takes as it is: ellipsis spelled out, lists, ranges and arrays as tensors.

    Args:
        index: what stood between the brackets; no key.
        batch_dims: how many dimensions it may consume.

    Raises:
        IndexError: it consumes more, or has a part of a type that indexes nothing.
    """
    kind = type(index)
    if batch_dims and (kind is int or kind is slice):
        return index
    parts = index if kind is tuple else (index,)
    consumed, ellipsis, changed = 0, -1, kind is not tuple
    out = []
    for position, part in enumerate(parts):
        kind = type(part)
        if kind is int or kind is slice:
            consumed += 1
        elif part is None or kind is bool:
            pass
        elif part is Ellipsis:
            ellipsis = position
        else:
            part, width = _array_part(part)
            consumed += width
            changed = True
        out.append(part)
    if consumed > batch_dims:
        raise IndexError(f"the index takes {consumed} dimensions, but there are {batch_dims} batch dimensions.")
    if ellipsis >= 0:
        out[ellipsis : ellipsis + 1] = [slice(None)] * (batch_dims - consumed)
        changed = True
    if len(out) == 1:
        return out[0]
    return tuple(out) if changed else index


def _array_part(part: Any) -> tuple[Any, int]:
    """A list, tuple, range, array or tensor as a tensor, and how many dimensions it consumes."""
    if isinstance(part, Tensor):
        return part, part.ndim if part.dtype in (torch.bool, torch.uint8) else 1
    if isinstance(part, (list, tuple, range, np.ndarray)):
        tensor = torch.as_tensor(part if isinstance(part, np.ndarray) else list(part))
        if tensor.numel() == 0 and not isinstance(part, np.ndarray):
            tensor = tensor.long()
        return tensor, tensor.ndim if tensor.dtype is torch.bool else 1
    if isinstance(part, (np.bool_, bool)):
        return bool(part), 0
    if hasattr(part, "__index__"):
        return part.__index__(), 1
    raise IndexError(
        f"{part!r} of type {type(part).__name__} is no index; use integers, slices, None, ..., lists or tensors."
    )


def begins_at_front(index: Any) -> bool:
    """Whether an index gives views that upstream takes for the whole memory: integers, None, slices from 0 on."""
    if isinstance(index, tuple):
        return all(map(begins_at_front, index))
    if isinstance(index, slice):
        return index.start in (None, 0)
    return index is None or index is Ellipsis or (isinstance(index, int) and not isinstance(index, bool))


def indexed_size(batch_size: torch.Size, index: Any) -> torch.Size:
    """The batch size that a normal index leaves; but for the simplest, found on a tensor without memory of its own."""
    kind = type(index)
    if kind is int:
        return batch_size[1:]
    if kind is slice and type(batch_size[0]) is int:
        return torch.Size((len(range(*index.indices(batch_size[0]))), *batch_size[1:]))
    return torch.zeros((), dtype=torch.bool).expand(batch_size)[index].shape


def convert_ellipsis_to_idx(idx: Any, batch_size: Any) -> tuple[Any, ...]:
    """Spell out `...` in an index as the slices that it stands for.

    Raises:
        RuntimeError: more than one ellipsis, or more parts than dimensions.

    Example:
        >>> convert_ellipsis_to_idx((..., 0), [4, 3])
        (slice(None, None, None), 0)
    """
    parts = idx if isinstance(idx, tuple) else (idx,)
    where = [position for position, part in enumerate(parts) if part is Ellipsis]
    if not where:
        return parts
    if len(where) > 1:
        raise RuntimeError("an index can have one ellipsis (...) only.")
    consumed = sum(_consumed(part) for part in parts)
    missing = len(batch_size) - consumed
    if missing < 0:
        raise RuntimeError(f"the index takes {consumed} dimensions, but there are {len(batch_size)}.")
    return (*parts[: where[0]], *([slice(None)] * missing), *parts[where[0] + 1 :])


def _consumed(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, (Tensor, np.ndarray)) and part.dtype in (torch.bool, np.bool_):
        return part.ndim
    return 1
