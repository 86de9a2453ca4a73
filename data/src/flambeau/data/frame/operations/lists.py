"""Lists and maps. A map is a list of (key, value) records."""

from __future__ import annotations

from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import KEY, VALUE, physical
from flambeau.data.frame.batches import batch, list_from, list_parts
from flambeau.data.frame.errors import FrameValueError
from flambeau.data.frame.operations.registry import operation


@operation
def list_length(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """Items."""
    return a.list.len().cast(pl.Int64)


@operation
def list_join(dtype: dt.DType, a: pl.Expr, *, sep: str) -> pl.Expr:
    """Texts joined to one; missing where one of them is."""
    return a.list.join(sep, ignore_nulls=False)


@operation
def list_get(dtype: dt.DType, a: pl.Expr, *, place: int) -> pl.Expr:
    """One item; raises where a list is too short, as Python does."""
    return a.list.get(place, null_on_oob=False)


@operation
def list_slice(dtype: dt.DType, a: pl.Expr, *, start: int | None, stop: int | None) -> pl.Expr:
    """Items from start to stop, as in Python."""
    size = a.list.len().cast(pl.Int64)
    first, last = _bound(size, start or 0), size if stop is None else _bound(size, stop)
    return a.list.slice(first, pl.max_horizontal(last - first, pl.lit(0, pl.Int64)))


def _bound(size: pl.Expr, place: int) -> pl.Expr:
    if place >= 0:
        return pl.min_horizontal(size, pl.lit(place, pl.Int64))
    return pl.max_horizontal(size + place, pl.lit(0, pl.Int64))


@operation
def list_head(dtype: dt.DType, a: pl.Expr, *, count: int) -> pl.Expr:
    """The first items."""
    return a.list.head(count)


@operation
def list_fill_null(dtype: dt.DType, a: pl.Expr, *, value: Any) -> pl.Expr:
    """Missing items replaced; missing lists stay missing."""
    return a.list.eval(pl.element().fill_null(value)).cast(physical(dtype))


@operation
def list_clip(dtype: dt.DType, a: pl.Expr, *, low: float, high: float) -> pl.Expr:
    """Items held between two bounds."""
    return a.list.eval(pl.element().clip(low, high))


@operation
def array_constructor(dtype: dt.DType, *columns: pl.Expr) -> pl.Expr:
    """The columns' values of a row as its list, missing ones included."""
    assert isinstance(dtype, dt.List)  # its only maker says so
    item = physical(dtype.item_dtype)
    return pl.concat_list([one.cast(item).reshape((-1, 1)).arr.to_list() for one in columns])


@operation
def array_except(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """What is in a and not in b, each once, in a's order."""
    return batch([a, b], _Except(physical(dtype)), physical(dtype))


class _Except:
    def __init__(self, returns: Any) -> None:
        self.returns = returns

    def __call__(self, a: pl.Series, b: pl.Series) -> pl.Series:
        pairs = zip(a.to_list(), b.to_list(), strict=True)
        rows = [None if x is None or y is None else _without(x, set(y)) for x, y in pairs]
        return pl.Series(rows, dtype=self.returns)


def _without(items: list[Any], others: set[Any]) -> list[Any]:
    return [one for one in dict.fromkeys(items) if one not in others]


@operation
def array_intersect(dtype: dt.DType, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """What is in a and in b, each once, in a's order."""
    return batch([a, b], _Intersect(physical(dtype)), physical(dtype))


class _Intersect:
    def __init__(self, returns: Any) -> None:
        self.returns = returns

    def __call__(self, a: pl.Series, b: pl.Series) -> pl.Series:
        pairs = zip(a.to_list(), b.to_list(), strict=True)
        rows = [None if x is None or y is None else _shared(x, set(y)) for x, y in pairs]
        return pl.Series(rows, dtype=self.returns)


def _shared(items: list[Any], others: set[Any]) -> list[Any]:
    return [one for one in dict.fromkeys(items) if one in others]


@operation
def list_part(dtype: dt.DType, a: pl.Expr, *, start: int, length: int) -> pl.Expr:
    """Items from a place on, which counts from 1, or from the end where negative; none where there is no such place."""
    if start > 0:
        return a.list.slice(start - 1, length)
    reached = a.list.len().cast(pl.Int64) >= -start
    return a.list.slice(start, pl.when(reached).then(length).otherwise(0))


@operation
def add_tokens(dtype: dt.DType, a: pl.Expr, *, tokens: list[Any], begin: bool) -> pl.Expr:
    """The same items put before or after those of every list."""
    extra = pl.lit(pl.Series([tokens], dtype=physical(dtype)))
    joined = pl.concat_list([extra, a] if begin else [a, extra])
    return pl.when(a.is_not_null()).then(joined)


@operation
def items_result(dtype: dt.DType, a: pl.Expr, *, function: Any) -> pl.Expr:
    """A function of all items at once, from a column of them to a column of as many."""
    return batch([a], _OnItems(function), physical(dtype))


class _OnItems:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, a: pl.Series) -> pl.Series:
        offsets, items = list_parts(a)
        result = self.function(items)
        if len(result) != len(items):
            raise FrameValueError(f"vmap: the function made {len(result)} items of {len(items)}; expected as many.")
        return list_from(offsets, result, a)


@operation
def map_keys(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The keys of every map, in order."""
    return a.list.eval(pl.element().struct.field(KEY))


@operation
def map_values(dtype: dt.DType, a: pl.Expr) -> pl.Expr:
    """The values of every map, in order."""
    return a.list.eval(pl.element().struct.field(VALUE))


@operation
def map_get(dtype: dt.DType, a: pl.Expr, *, key: Any, fill_value: Any, of: dt.DType) -> pl.Expr:
    """The value of a key, the last where it occurs twice; `fill_value` where it does not."""
    assert isinstance(of, dt.Map)  # its only maker says so
    wanted = pl.lit(key, dtype=physical(of.key_dtype))
    chosen = a.list.filter(pl.element().struct.field(KEY) == wanted)
    found = chosen.list.get(-1, null_on_oob=True).struct.field(VALUE).cast(physical(dtype))
    fill = pl.lit(fill_value, dtype=physical(dtype))
    return pl.when(a.is_null()).then(None).when(chosen.list.len() == 0).then(fill).otherwise(found)
