"""How a user's batch function gets its columns, and what it may return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import held_as, logical
from flambeau.data.frame.batches import series_of_arrow
from flambeau.data.frame.column_base import ColumnBase
from flambeau.data.frame.column_classes import column_of
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.python_values import series_from, to_python


def _numpy(series: pl.Series, dtype: dt.DType) -> Any:
    return column_of(series, dtype).to_numpy()


def _torch(series: pl.Series, dtype: dt.DType) -> Any:
    return column_of(series, dtype).to_tensor()


def _arrow(series: pl.Series, dtype: dt.DType) -> Any:
    return column_of(series, dtype).to_arrow()


FORMATS: dict[str, Callable[[pl.Series, dt.DType], Any]] = {
    "column": column_of,
    "python": to_python,
    "torch": _torch,
    "numpy": _numpy,
    "arrow": _arrow,
}
"""What `transform(format=...)` gives a function: columns, lists, tensors, NumPy arrays, Arrow arrays."""


class BatchCall:
    """A function of batches, with its arguments in one of `FORMATS`; from series to a series of as many rows."""

    def __init__(self, function: Callable[..., Any], format: str) -> None:
        self.function, self.format = function, format

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', self.function)}, format={self.format}"

    def __call__(self, columns: Sequence[pl.Series], of: Sequence[dt.DType], dtype: dt.DType) -> pl.Series:
        """The function's result as a series of a type."""
        give = FORMATS[self.format]
        result = self.function(*(give(one, each) for one, each in zip(columns, of, strict=True)))
        series = result_series(result, dtype)
        if len(series) != len(columns[0]):
            name = getattr(self.function, "__name__", "the function")
            raise FrameValueError(f"transform: {name} made {len(series)} rows of {len(columns[0])}; expected as many.")
        return series


def result_series(result: Any, dtype: dt.DType) -> pl.Series:
    """What a batch function returned, as a series of a column type."""
    if isinstance(result, ColumnBase):
        return held_as(result._series(), dtype)
    if isinstance(result, list | tuple) and not hasattr(result, "_fields"):
        return series_from(list(result), dtype.with_null())
    if isinstance(result, np.ndarray) and result.ndim == 1:
        return held_as(pl.Series(result), dtype)
    if isinstance(result, pl.Series):
        return held_as(result, dtype)
    if isinstance(result, pa.Array | pa.ChunkedArray):
        return held_as(series_of_arrow(result), dtype)
    from flambeau.data.frame.pytorch.tensors import from_tensor

    made_column = from_tensor(result)
    if logical(made_column._series().dtype).typecode[0] != dtype.typecode[0]:
        raise FrameTypeError(f"transform: the function made {made_column.dtype}, expected {dtype}; give its `dtype`.")
    return held_as(made_column._series(), dtype)
