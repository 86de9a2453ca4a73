"""Batches written sample by sample into buffers that are used again.

DataLoader keeps a batch's samples until the last is there and then copies them into one tensor. Here the first sample
says what the batch looks like, buffers are taken, and each sample is copied to its row while it is still in the cache.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

# Below this size one call that stacks all samples costs less than one call a sample.
_SMALL_BYTES = 16 << 10
# A buffer smaller than this costs less to allocate than to keep.
_WORTH_KEEPING = 256 << 10
_MOST_KEPT = 16
# Without the interpreter lock, counts of references are not exact.
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


class Buffers:
    """Memory for batches: taken back into use when nobody holds a tensor over it any more.

    Args:
        pinned: whether to allocate page-locked memory.
    """

    def __init__(self, pinned: bool = False) -> None:
        self._pinned = pinned
        self._kept: dict[tuple[int, torch.dtype], list[np.ndarray[Any, Any]]] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_pinned": self._pinned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_pinned"])  # type: ignore[misc]

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor, [*shape]."""
        size = dtype.itemsize
        for length in shape:
            size *= length
        if size < _WORTH_KEEPING or not _COUNTS_ARE_EXACT:
            return torch.empty(shape, dtype=dtype, pin_memory=self._pinned)
        with self._lock:
            kept = self._kept.setdefault((size, dtype), [])
            for memory in kept:
                # Held by the list, by this variable and by the argument: no tensor over it is left.
                if sys.getrefcount(memory) == 3:
                    return torch.from_numpy(memory).view(dtype).view(shape)
            memory = torch.empty(size, dtype=torch.uint8, pin_memory=self._pinned).numpy()
            if len(kept) < _MOST_KEPT:
                kept.append(memory)
        return torch.from_numpy(memory).view(dtype).view(shape)


def assemble(samples: Iterable[Any], count: int, buffers: Buffers) -> Any:
    """One batch of `count` samples, equal to what `default_collate` makes of them.

    Args:
        samples: taken one at a time.
        count: how many they are.
        buffers: where large tensors are written.

    Raises:
        ValueError: samples that differ in structure or shape; the message names the first that does.
    """
    samples = iter(samples)
    for first in samples:
        batch = _part(first, count, buffers)
        if not batch.by_rows:
            return batch.of([first, *samples])
        batch.add(first, 0)
        for row, sample in enumerate(samples, start=1):
            batch.add(sample, row)
        return batch.finish()
    raise ValueError("assemble: no samples, expected at least one.")


class _Part:
    """One place in the structure of a sample, for all samples of a batch.

    Attributes:
        by_rows: whether samples are to be added one by one, because there is a large tensor among their parts.
    """

    by_rows = False

    def of(self, values: list[Any]) -> Any:
        """The batch of all values at once."""
        raise NotImplementedError

    def add(self, value: Any, row: int) -> None:
        raise NotImplementedError

    def finish(self) -> Any:
        raise NotImplementedError


class _Rows(_Part):
    """Large tensors: copied to their row at once."""

    by_rows = True

    def __init__(self, first: Tensor, count: int, buffers: Buffers) -> None:
        self._shape, self._dtype = first.shape, first.dtype
        self._rows = buffers.empty((count, *first.shape), first.dtype)

    def add(self, value: Any, row: int) -> None:
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        if type(tensor) is not Tensor or tensor.shape != self._shape or tensor.dtype != self._dtype:
            raise _differ(row, f"{tuple(self._shape)} {self._dtype}", value)
        self._rows[row].copy_(tensor)

    def finish(self) -> Tensor:
        return self._rows


class _Small(_Part):
    """Small tensors, numbers, and whatever else there is: collected, and put together at the end."""

    def __init__(self, first: Any) -> None:
        self._type = type(first)
        self._values: list[Any] = []

    def add(self, value: Any, row: int) -> None:
        self._values.append(value)

    def finish(self) -> Any:
        return self.of(self._values)

    def of(self, values: list[Any]) -> Any:
        for row, value in enumerate(values):
            if type(value) is not self._type:
                raise _differ(row, self._type.__name__, value)
        if self._type is int:
            return torch.tensor(values)
        if self._type in (str, bytes):
            return values
        if self._type is not Tensor:
            return default_collate(values)
        try:
            return torch.stack(values)
        except RuntimeError:
            shape = values[0].shape
            for row, value in enumerate(values):
                if value.shape != shape:
                    raise _differ(row, str(tuple(shape)), value) from None
            raise


class _Fields(_Part):
    """A dictionary."""

    def __init__(self, first: Mapping[str, Any], count: int, buffers: Buffers) -> None:
        self._type = type(first)
        self._parts = {key: _part(value, count, buffers) for key, value in first.items()}
        self.by_rows = any(part.by_rows for part in self._parts.values())

    def of(self, values: list[Any]) -> dict[str, Any]:
        for row, value in enumerate(values):
            self._check(value, row)
        return {key: part.of([value[key] for value in values]) for key, part in self._parts.items()}

    def _check(self, value: Any, row: int) -> None:
        if type(value) is not self._type or value.keys() != self._parts.keys():
            raise _differ(row, f"a {self._type.__name__} with keys {sorted(map(str, self._parts))}", value)

    def add(self, value: Any, row: int) -> None:
        self._check(value, row)
        for key, part in self._parts.items():
            part.add(value[key], row)

    def finish(self) -> dict[str, Any]:
        return {key: part.finish() for key, part in self._parts.items()}


class _Items(_Part):
    """A tuple or list, which becomes a list, as DataLoader has it; a named tuple stays one."""

    def __init__(self, first: Any, count: int, buffers: Buffers) -> None:
        self._type = type(first)
        self._parts = [_part(value, count, buffers) for value in first]
        self.by_rows = any(part.by_rows for part in self._parts)

    def of(self, values: list[Any]) -> Any:
        for row, value in enumerate(values):
            self._check(value, row)
        return self._together(
            [part.of(list(column)) for part, column in zip(self._parts, zip(*values, strict=True), strict=True)]
        )

    def _check(self, value: Any, row: int) -> None:
        if type(value) is not self._type or len(value) != len(self._parts):
            raise _differ(row, f"a {self._type.__name__} of {len(self._parts)}", value)

    def add(self, value: Any, row: int) -> None:
        self._check(value, row)
        for part, one in zip(self._parts, value, strict=True):
            part.add(one, row)

    def finish(self) -> Any:
        return self._together([part.finish() for part in self._parts])

    def _together(self, finished: list[Any]) -> Any:
        return self._type(*finished) if hasattr(self._type, "_fields") else finished


def _part(first: Any, count: int, buffers: Buffers) -> _Part:
    if type(first) is dict:
        return _Fields(first, count, buffers)
    if type(first) in (tuple, list) or (isinstance(first, tuple) and hasattr(first, "_fields")):
        return _Items(first, count, buffers)
    if type(first) is np.ndarray and first.dtype.kind in "biufc" and first.nbytes > _SMALL_BYTES:
        return _Rows(torch.from_numpy(first), count, buffers)
    if type(first) is Tensor and _plain(first) and first.numel() * first.itemsize > _SMALL_BYTES:
        return _Rows(first, count, buffers)
    return _Small(first)


def _plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.requires_grad


def _differ(row: int, expected: str, value: Any) -> ValueError:
    found = type(value).__name__
    if isinstance(value, (Tensor, np.ndarray)):
        found = f"{tuple(value.shape)} {value.dtype}"
    return ValueError(
        f"sample {row} of a batch is {found}, sample 0 is {expected}; bring samples to one form, or pass collate_fn."
    )
