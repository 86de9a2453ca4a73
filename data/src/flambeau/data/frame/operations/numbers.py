"""Arithmetic, rounding and running totals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.batches import batch
from flambeau.data.frame.errors import FrameValueError
from flambeau.data.frame.operations.nulls import strict
from flambeau.data.frame.operations.registry import operation


@operation
def add(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """`a + b`; text is joined."""
    if dt.is_string(dtype):
        return a + b
    return _back(_as(dtype, a) + _as(dtype, b), dtype)


@operation
def sub(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """`a - b`."""
    return _back(_as(dtype, a) - _as(dtype, b), dtype)


@operation
def mul(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """`a * b`."""
    return _back(_as(dtype, a) * _as(dtype, b), dtype)


@operation
def truediv(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """`a / b` as IEEE 754 has it: by zero infinite or not a number."""
    wide = dt.float64 if dt.is_float64(dtype) else dt.float32
    return (_divisible(a, wide) / _divisible(b, wide)).cast(physical(dtype))


def _divisible(one: pl.Expr, wide: dt.DType) -> pl.Expr:
    return one.cast(physical(wide))


@operation
def floordiv(dtype: dt.DType, a: pl.Expr, b: pl.Expr, *, safe: bool = False) -> pl.Expr:
    """The whole part of a / b, rounded down."""
    if dt.is_floating(dtype):
        return _ufunc("floor_divide", dtype, a, b)
    return _whole_division(dtype, a, b, lambda x, y: x // y, safe)


@operation
def mod(dtype: dt.DType, a: pl.Expr, b: pl.Expr, *, safe: bool = False) -> pl.Expr:
    """What remains of a when divided by b, with the sign of b."""
    if dt.is_floating(dtype):
        return _ufunc("remainder", dtype, a, b)
    return _whole_division(dtype, a, b, lambda x, y: x % y, safe)


def _whole_division(
    dtype: dt.DType, a: pl.Expr, b: pl.Expr, divide: Callable[[pl.Expr, pl.Expr], pl.Expr], safe: bool
) -> pl.Expr:
    """Checked unless the divisor is known not to be zero."""
    a, b = _as(dtype, a), _as(dtype, b)
    if safe:
        return divide(a, b)
    return divide(a, b.map_batches(_refuse_zero, return_dtype=physical(dtype), is_elementwise=True))


def _refuse_zero(divisors: pl.Series) -> pl.Series:
    # Polars would answer with a missing value.
    if (divisors == 0).any():
        raise ZeroDivisionError("integer division or modulo by zero")
    return divisors


@operation
def pow_(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """`a` to the power of b; a whole number to a negative power raises."""
    return _ufunc("power", dtype, a, b)


def _ufunc(name: str, dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """A function of NumPy whose rounding or range is Python's and not Polars'."""
    return batch([_as(dtype, a), _as(dtype, b)], _Ufunc(name), physical(dtype))


class _Ufunc:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, a: pl.Series, b: pl.Series) -> pl.Series:
        known = a.is_not_null() & b.is_not_null()
        x, y = (one.fill_null(1).to_numpy() for one in (a, b))
        if self.name == "power" and a.dtype.is_integer() and (y < 0).any():
            raise FrameValueError("integers to negative integer powers are not allowed; cast the base to a float type.")
        with np.errstate(all="ignore"):
            result = getattr(np, self.name)(x, y)
        series = pl.Series(result, dtype=a.dtype)
        return series if known.all() else series.set(~known, None)


@operation
def neg(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """-a."""
    return -a


@operation
def abs_(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The amount of a without its sign."""
    return a.abs()


@operation
def ceil(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The next whole number up."""
    return a.ceil() if dt.is_floating(dtype) else a


@operation
def floor(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The next whole number down."""
    return a.floor() if dt.is_floating(dtype) else a


@operation
def round_(dtype: dt.DType, a: pl.Expr, *, decimals: int) -> pl.Expr:
    """Rounded to so many decimals, halves to the even neighbour; negative decimals round to tens, hundreds, ..."""
    if dt.is_floating(dtype):
        if decimals >= 0:
            return a.round(decimals, mode="half_to_even")
        # In double precision, where ten to any sensible power is exact.
        scale = float(10.0**-decimals)
        return ((a.cast(pl.Float64) / scale).round(0, mode="half_to_even") * scale).cast(physical(dtype))
    if decimals >= 0:
        return a
    if -decimals > 18:
        return strict(pl.lit(0, dtype=physical(dtype)), a)
    step: int = 10**-decimals
    whole = a.cast(pl.Int64)
    down = whole // step
    rest = whole - down * step
    up = (rest * 2 > step) | ((rest * 2 == step) & (down % 2 != 0))
    return ((down + up.cast(pl.Int64)) * step).cast(physical(dtype))


@operation
def log(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The natural logarithm: of zero minus infinity, of negative numbers not a number."""
    return a.cast(physical(dtype)).log()


@operation
def exp(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """Euler's number to the power of a."""
    return a.cast(physical(dtype)).exp()


@operation
def sigmoid(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """1 / (1 + exp(-a)), computed in double precision."""
    return (1.0 / (1.0 + (-a.cast(pl.Float64)).exp())).cast(physical(dtype))


@operation
def clip(dtype: dt.DType, a: pl.Expr, *, low: float | None, high: float | None) -> pl.Expr:
    """Held between two bounds."""
    return a.clip(low, high)


@operation
def cumsum(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The sum up to each row."""
    return a.cast(physical(dtype)).cum_sum()


@operation
def cumprod(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The product up to each row."""
    return a.cast(physical(dtype)).cum_prod()


@operation
def cummin(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The least value up to each row."""
    return a.cum_min()


@operation
def cummax(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The greatest value up to each row."""
    return a.cum_max()


def _as(dtype: dt.DType, one: pl.Expr) -> pl.Expr:
    """An operand in the type that the result has; booleans are counted in 8 bits."""
    return one.cast(pl.Int8 if dt.is_boolean(dtype) else physical(dtype))


def _back(result: pl.Expr, dtype: dt.DType) -> pl.Expr:
    return result != 0 if dt.is_boolean(dtype) else result.cast(physical(dtype))


@operation
def width_bucket(dtype: dt.DType, a: pl.Expr, *, low: float, high: float, count: int) -> pl.Expr:
    """The number of the bucket of one width; 0 before the first, count + 1 behind the last."""
    x = _number(a)
    if low < high:
        before, behind = x < low, x >= high
    else:
        before, behind = x > low, x <= high
    # A value just before the end may round up to it.
    inside = ((x - low) * count / (high - low)).floor().clip(0, count - 1) + 1
    made = pl.when(before).then(0).when(behind).then(count + 1).otherwise(inside.cast(pl.Int64, strict=False))
    return strict(made.cast(pl.Int64), x)


@operation
def border_bucket(dtype: dt.DType, a: pl.Expr, *, borders: list[float]) -> pl.Expr:
    """How many of the borders do not exceed a."""
    x = _number(a)
    return strict(pl.lit(pl.Series(borders, dtype=pl.Float64)).search_sorted(x, side="right").cast(pl.Int64), x)


def _number(a: pl.Expr) -> pl.Expr:
    return a.cast(pl.Float64).map_batches(_refuse_nan, return_dtype=pl.Float64, is_elementwise=True)


def _refuse_nan(values: pl.Series) -> pl.Series:
    if values.is_nan().any():
        raise FrameValueError("width_bucket: a value is not a number; choose rows without it first.")
    return values
