"""Tensors over a column's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.frame._engine import pl
from flambeau.data.frame.batches import values_of


class _Memory:
    """Memory that NumPy may take for writable, and what keeps it alive.

    Arrow's memory is shared read-only; torch has no such tensors and warns of each. Nothing here writes, and the
    documentation asks for a clone before others do.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def shared(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over the memory of an array."""
    if not array.size:
        return torch.from_numpy(np.empty(array.shape, array.dtype))
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Memory(array)))


def numbers(series: pl.Series) -> Tensor:
    """The numbers of a series, zero where they are missing; its own memory where none is."""
    return shared(values_of(series.fill_null(0) if series.null_count() and series.dtype != pl.Boolean else series))


def presence(series: pl.Series) -> Tensor:
    """Which values are there, as booleans."""
    return shared(series.is_not_null().to_numpy())


def small(offsets: np.ndarray[Any, Any]) -> Tensor:
    """Offsets or lengths as int32, as upstream has them; int64 where they do not fit."""
    fits = not offsets.size or offsets[-1] <= np.iinfo(np.int32).max
    return shared(offsets.astype(np.int32)) if fits else shared(offsets)
