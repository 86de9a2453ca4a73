"""Types, missing values and records."""

from __future__ import annotations

from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.errors import FrameValueError
from flambeau.data.frame.operations.registry import operation


@operation
def cast(dtype: dt.DType, a: pl.Expr, *, of: dt.DType) -> pl.Expr:
    """`a` in another type; raises where a value does not fit. Floating numbers are cut off, as Python's int does."""
    if dt.is_boolean(dtype) and dt.is_string(of):
        return a.str.len_bytes() > 0
    if dt.is_string(dtype) and dt.is_boolean(of):
        return pl.when(a).then(pl.lit("True")).when(~a).then(pl.lit("False"))
    return a.cast(physical(dtype))


@operation
def as_is(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """a, known under another nullability."""
    return a


@operation
def without_null(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The values, which must not be missing anywhere."""
    return a.map_batches(_RefuseNull(str(dtype)), return_dtype=physical(dtype), is_elementwise=True)


class _RefuseNull:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(self, a: pl.Series) -> pl.Series:
        if missing := a.null_count():
            raise FrameValueError(f"{missing} values are missing, and {self.dtype} is not nullable; fill_null first.")
        return a


@operation
def fill_null(dtype: dt.DType, a: pl.Expr, *, value: Any) -> pl.Expr:
    """a, with a value where it is missing."""
    return a.fill_null(pl.lit(value, dtype=physical(dtype)))


@operation
def field(dtype: dt.DType, a: pl.Expr, *, name: str) -> pl.Expr:
    """A field of records."""
    return a.struct.field(name)
