"""Columns of lists as jagged tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame.batches import list_parts
from flambeau.data.frame.errors import FrameTypeError
from flambeau.data.frame.pytorch.sharing import numbers, small
from flambeau.data.jagged import JaggedValues


def parts(col: Any, *, weighted: bool = False) -> tuple[np.ndarray[Any, Any], Tensor, Tensor | None]:
    """A column of lists, taken apart.

    Args:
        col: lists of numbers; where weighted, lists of records of an id and a score, or maps from id to score.
        weighted: whether there are scores.

    Returns:
        offsets (rows + 1,), int64; items (n,); weights (n,), or None.

    Raises:
        TypeError: the column is none of such lists.
    """
    if weighted:
        return _weighted(col)
    if not isinstance(col.dtype, dt.List) or not dt.is_boolean_or_numerical(col.dtype.item_dtype):
        raise FrameTypeError(f"expected a column of lists of numbers, got {col.dtype}.")
    offsets, items = list_parts(col._series())
    return offsets, numbers(items), None


def _weighted(col: Any) -> tuple[np.ndarray[Any, Any], Tensor, Tensor]:
    offsets, items = list_parts(col._series())
    if isinstance(col.dtype, dt.Map):
        kinds = [col.dtype.key_dtype, col.dtype.item_dtype]
    elif isinstance(col.dtype, dt.List) and isinstance(col.dtype.item_dtype, dt.Struct):
        kinds = [one.dtype for one in col.dtype.item_dtype.fields]
    else:
        kinds = []
    if len(kinds) != 2 or not dt.is_integer(kinds[0]) or not dt.is_floating(kinds[1]):
        raise FrameTypeError(f"expected lists of (id, score) records or maps from id to score, got {col.dtype}.")
    ids, scores = (items.struct.field(name) for name in items.struct.fields)
    return offsets, numbers(ids), numbers(scores)


def to_jagged(col: Any, *, weighted: bool = False) -> JaggedValues:
    """A column of lists as a jagged tensor; missing lists are empty."""
    offsets, values, weights = parts(col, weighted=weighted)
    return JaggedValues(values, lengths=small(np.diff(offsets)), offsets=small(offsets), weights=weights)
