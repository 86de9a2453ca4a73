"""Tensors as bytes, and which bytes an index touches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict.memmap.layout import dtype_named
from flambeau.data.tensordict.memmap.parallel import raw_bytes

_MOST_RANGES = 4096


def to_tensor(data: bytes, shape: Any, dtype: torch.dtype) -> Tensor:
    """A tensor of raw elements."""
    if not data:
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(tuple(shape))


def to_bytes(tensor: Tensor) -> memoryview:
    """A tensor's elements, row-major."""
    return raw_bytes(tensor)


def dtype_of(text: str) -> torch.dtype:
    """The dtype that the server's side names."""
    return dtype_named(text, "the server")


def rows_of(shape: torch.Size, index: Any) -> tuple[list[int] | range, Any] | None:
    """The rows that an index touches, and what is left to index of these rows.

    Args:
        shape: of the whole tensor.
        index: a normal index.

    Returns:
        Numbers of rows, and an index for the tensor of these rows; None where all rows are needed.
    """
    if not shape:
        return None
    parts = index if isinstance(index, tuple) else (index,)
    if not parts or any(part is None for part in parts):
        return None
    first, rest = parts[0], parts[1:]
    if type(first) is int:
        return [first % shape[0]], (0, *rest)
    if isinstance(first, slice):
        return range(*first.indices(shape[0])), (slice(None), *rest)
    if isinstance(first, Tensor) and not rest:
        if first.dtype is torch.bool and first.ndim == 1:
            return first.nonzero().squeeze(-1).tolist(), (slice(None),)
        if first.dtype is not torch.bool and first.numel():
            flat = (first % shape[0]).reshape(-1)
            return flat.tolist(), (torch.arange(len(flat)).reshape(first.shape),)
    return None


def ranges_of(rows: list[int] | range, row_bytes: int) -> list[tuple[int, int]] | None:
    """First byte and the one behind the last of each run of neighbouring rows; None where there are too many."""
    ranges: list[tuple[int, int]] = []
    for row in rows:
        start = row * row_bytes
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], start + row_bytes)
        else:
            ranges.append((start, start + row_bytes))
    return ranges if len(ranges) <= _MOST_RANGES else None


def row_bytes_of(shape: torch.Size, dtype: torch.dtype) -> int:
    """Bytes of one row."""
    return math.prod(shape[1:]) * dtype.itemsize
