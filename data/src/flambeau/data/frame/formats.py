"""How a user's batch function gets its columns, and what it may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import held_as, logical
from flambeau.data.frame.errors import FrameTypeError
from flambeau.data.frame.python_values import series_from, to_python


def _column(series: pl.Series, dtype: dt.DType) -> Any:
    from flambeau.data.frame.construction import column_of

    return column_of(series, dtype)


def _numpy(series: pl.Series, dtype: dt.DType) -> Any:
    from flambeau.data.frame.construction import column_of

    return column_of(series, dtype).to_numpy()


def _torch(series: pl.Series, dtype: dt.DType) -> Any:
    from flambeau.data.frame.construction import column_of

    return column_of(series, dtype).to_tensor()


def _arrow(series: pl.Series, dtype: dt.DType) -> Any:
    from flambeau.data.frame.construction import column_of

    return column_of(series, dtype).to_arrow()


FORMATS: dict[str, Callable[[pl.Series, dt.DType], Any]] = {
    "column": _column,
    "python": to_python,
    "torch": _torch,
    "numpy": _numpy,
    "arrow": _arrow,
}
"""What `transform(format=...)` gives a function: columns, lists, tensors, NumPy arrays, Arrow arrays."""


def result_series(result: Any, dtype: dt.DType) -> pl.Series:
    """What a batch function returned, as a series of a column type."""
    from flambeau.data.frame.column import Column

    if isinstance(result, Column):
        return held_as(result._series(), dtype)
    if isinstance(result, list | tuple) and not hasattr(result, "_fields"):
        return series_from(list(result), dtype.with_null())
    if isinstance(result, np.ndarray) and result.ndim == 1:
        return held_as(pl.Series(result), dtype)
    if isinstance(result, pl.Series):
        return held_as(result, dtype)
    if isinstance(result, pa.Array | pa.ChunkedArray):
        made = pl.from_arrow(result)
        assert isinstance(made, pl.Series)  # an array makes a series
        return held_as(made, dtype)
    from flambeau.data.frame.pytorch.tensors import from_tensor

    made_column = from_tensor(result)
    if logical(made_column._series().dtype).typecode[0] != dtype.typecode[0]:
        raise FrameTypeError(f"transform: the function made {made_column.dtype}, expected {dtype}; give its `dtype`.")
    return held_as(made_column._series(), dtype)
