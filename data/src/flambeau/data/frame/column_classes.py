"""Which class of column a type asks for, and columns over rows and series.

The one place where columns are made without knowing their classes, which know this module: a class is looked up by
its name when a column of its type is first made.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._plan import ONE, Rows, Table, Term
from flambeau.data.frame.batches import series_of_arrow
from flambeau.data.frame.errors import FrameValueError
from flambeau.data.frame.python_values import typed_series

_CLASSES = {
    **dict.fromkeys("bcsilfg", ("numerical_column", "NumericalColumn")),
    "u": ("string_column", "StringColumn"),
    "+l": ("list_column", "ListColumn"),
    "+m": ("map_column", "MapColumn"),
    "+s": ("dataframe", "DataFrame"),
}
_OTHER = ("column", "Column")


@functools.cache
def class_of(typecode: str) -> Any:
    """The class of columns of a type."""
    module, name = _CLASSES.get(typecode, _OTHER)
    return getattr(import_module(f"flambeau.data.frame.{module}"), name)


def make(rows: Rows, term: Term) -> Any:
    """The column of an expression over rows, of the class that its type asks for."""
    return class_of(term.dtype.typecode)._of_term(rows, term)


def column_of(series: pl.Series, dtype: dt.DType) -> Any:
    """A column that holds a series, which must be what `dtype` is held as."""
    rows = Table(series.to_frame(ONE), dt.Struct([dt.Field(ONE, dtype)]))
    return make(rows, rows.references()[ONE])


def column_from(values: Iterable[Any], dtype: dt.DType | None = None) -> Any:
    """A column of Python values, or over a NumPy array; see `frame.column`."""
    return _from_numpy(values, dtype) if isinstance(values, np.ndarray) else column_of(*typed_series(values, dtype))


def _from_numpy(array: np.ndarray[Any, Any], dtype: dt.DType | None) -> Any:
    if array.ndim != 1:
        raise FrameValueError(f"a column is made of a one-dimensional array, got shape {array.shape}.")
    if array.dtype.kind in "OU":
        return column_of(*typed_series(array.tolist(), dtype))
    made = column_of(series_of_arrow(pa.array(array)), dt.typeof_np_dtype(array.dtype))
    return made if dtype is None else made.cast(dtype)


def frame_of(frame: pl.DataFrame, dtype: dt.Struct) -> Any:
    """A frame over a frame of Polars, whose columns must be what `dtype` is held as."""
    return frame_over(Table(frame, dtype))


def frame_over(rows: Rows) -> Any:
    """A frame of all columns that rows have."""
    return class_of(dt.Struct.typecode)(rows, rows.references())
