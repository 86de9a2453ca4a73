"""Functions of whole columns within plans, and the memory of columns without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.data.frame._engine import check_ending, pa, pl


def batch(operands: Sequence[pl.Expr], function: Callable[..., pl.Series], returns: Any) -> pl.Expr:
    """A function from columns to a column of the same length, called with as many rows at a time as there are."""
    return pl.map_batches(list(operands), _Batch(function), return_dtype=returns, is_elementwise=True)


class _Batch:
    def __init__(self, function: Callable[..., pl.Series]) -> None:
        self.function = function

    def __call__(self, columns: Sequence[pl.Series], return_dtype: Any = None) -> pl.Series:
        check_ending()
        # A constant arrives as one row, also beside columns that have none.
        length = min(map(len, columns), key=lambda rows: (rows == 1, rows))
        whole = [one if len(one) == length else one.new_from_index(0, length) for one in columns]
        return self.function(*whole)


def values_of(series: pl.Series) -> np.ndarray[Any, Any]:
    """The numbers of a column, without a copy; undefined where they are missing. Booleans are copied.

    Arrow's own way would turn whole numbers with missing values into float64.
    """
    if series.dtype == pl.Boolean:
        return series.fill_null(False).to_numpy()
    array = series.rechunk().to_arrow()
    kind = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def bits_of(series: pl.Series) -> tuple[np.ndarray[Any, Any] | None, int]:
    """The bitmap of which values of a column are there, None for all, and the number of the first value's bit."""
    array = series.rechunk().to_arrow()
    bits = array.buffers()[0]
    return (None, 0) if bits is None or not array.null_count else (np.frombuffer(bits, np.uint8), array.offset)


def series_of_arrow(array: Any) -> pl.Series:
    """An Arrow array, or several end to end, as a series over its memory."""
    made = pl.from_arrow(array)
    assert isinstance(made, pl.Series)  # an array makes a series
    return made


def with_validity(values: np.ndarray[Any, Any], like: pl.Series) -> pl.Series:
    """A column of new numbers, missing where another is; neither is copied where that can be."""
    made = series_of_arrow(pa.array(values))
    return made if not like.null_count() else made.set(like.is_null(), None)


def list_parts(series: pl.Series) -> tuple[np.ndarray[Any, Any], pl.Series]:
    """Offsets (int64, rows + 1, from 0) and items of a column of lists, without a copy; missing lists are empty."""
    array = series.rechunk().to_arrow()
    offsets = np.asarray(array.offsets)
    if array.null_count and np.any((offsets[1:] != offsets[:-1]) & ~np.asarray(array.is_valid())):
        return list_parts(series.fill_null([]))
    items = series_of_arrow(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
    return (offsets if offsets[0] == 0 else offsets - offsets[0]), items


def list_from(offsets: np.ndarray[Any, Any], items: pl.Series, like: pl.Series | None = None) -> pl.Series:
    """A column of lists from offsets and items, without a copy; missing where `like` is."""
    values = items.rechunk().to_arrow()
    starts = pa.array(np.ascontiguousarray(offsets, np.int64))
    mask = pa.array(like.is_null().to_numpy()) if like is not None and like.null_count() else None
    return series_of_arrow(pa.LargeListArray.from_arrays(starts, values, mask=mask))


def on_items(series: pl.Series, function: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """A function of the items of a column of lists, all in one call."""
    offsets, items = list_parts(series)
    return list_from(offsets, function(items), series)
