"""Comparing, logic, choice and membership.

Polars holds that not-a-number equals itself and exceeds everything; here comparisons follow IEEE 754, as torch's and
NumPy's do: with not-a-number only `!=` is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.batches import batch
from flambeau.data.frame.operations.nulls import strict
from flambeau.data.frame.operations.registry import operation

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_LOGIC: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@operation
def compare(dtype: dt.DType, a: pl.Expr, b: pl.Expr, *, by: str, common: dt.DType) -> pl.Expr:
    """`a == b` and the like, in a type that holds both."""
    if not dt.is_primitive(common):
        return batch([a, b], _CompareRows(by), pl.Boolean)
    a, b = a.cast(physical(common)), b.cast(physical(common))
    result: pl.Expr = _COMPARE[by](a, b)
    if not dt.is_floating(common):
        return result
    if by == "ne":
        return strict(result | a.is_nan() | b.is_nan(), a, b)
    return strict(result & a.is_not_nan() & b.is_not_nan(), a, b)


class _CompareRows:
    """Lists, maps and records, compared as Python does."""

    def __init__(self, by: str) -> None:
        self.by = by

    def __call__(self, a: pl.Series, b: pl.Series) -> pl.Series:
        test = _COMPARE[self.by]
        pairs = zip(a.to_list(), b.to_list(), strict=True)
        return pl.Series([None if x is None or y is None else test(x, y) for x, y in pairs], dtype=pl.Boolean)


@operation
def logic(dtype: dt.DType, a: pl.Expr, b: pl.Expr, *, by: str) -> pl.Expr:
    """`a & b` and the like: of bits for whole numbers."""
    if dt.is_boolean(dtype):
        return strict(_LOGIC[by](a, b), a, b)
    return _LOGIC[by](a.cast(physical(dtype)), b.cast(physical(dtype)))


@operation
def invert(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """~a: of bits for whole numbers."""
    return ~a


@operation
def if_else(dtype: dt.DType, condition: pl.Expr, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """The value of `a` where the condition is true, of `b` where it is false, missing where it is."""
    chosen = pl.when(condition).then(a.cast(physical(dtype))).otherwise(b.cast(physical(dtype)))
    return strict(chosen, condition)


@operation
def is_in(dtype: dt.DType, a: pl.Expr, *, values: Sequence[Any], of: dt.DType) -> pl.Expr:
    """Whether a is among the values; a missing value is not, whatever they are."""
    if not dt.is_primitive(of):
        return batch([a], _IsInRows(list(values)), pl.Boolean)
    among = a.is_in(pl.lit(pl.Series(values, dtype=physical(of), strict=False)).implode())
    return (among & a.is_not_nan()).fill_null(False) if dt.is_floating(of) else among.fill_null(False)


class _IsInRows:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __call__(self, a: pl.Series) -> pl.Series:
        return pl.Series([one is not None and one in self.values for one in a.to_list()], dtype=pl.Boolean)


@operation
def is_null(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """Whether a is missing."""
    return a.is_null()


@operation
def is_valid(dtype: dt.DType, *columns: pl.Expr, how: str) -> pl.Expr:
    """Whether any of the columns is there, or all are."""
    each = [one.is_not_null() for one in columns]
    return pl.any_horizontal(each) if how == "any" else pl.all_horizontal(each)


@operation
def all_true(dtype: dt.DType, *columns: pl.Expr) -> pl.Expr:
    """Whether all conditions hold; missing ones do not."""
    return pl.all_horizontal([one.fill_null(False) for one in columns])
