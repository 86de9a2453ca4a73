"""Functions of users: of a row, or of a batch of rows."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.batches import batch
from flambeau.data.frame.operations.registry import operation
from flambeau.data.frame.python_values import series_from, to_python


@operation
def per_row(
    dtype: dt.DType, *columns: pl.Expr, function: Any, of: list[dt.DType], skip_null: bool, star: bool
) -> pl.Expr:
    """A function of one row's values: as separate arguments, or one tuple of them."""
    return batch(columns, _PerRow(function, of, dtype, skip_null, star), physical(dtype))


class _PerRow:
    def __init__(self, function: Any, of: list[dt.DType], dtype: dt.DType, skip_null: bool, star: bool) -> None:
        self.function, self.of, self.dtype, self.skip_null, self.star = function, of, dtype, skip_null, star

    def __call__(self, *columns: pl.Series) -> pl.Series:
        rows = zip(*(to_python(one, dtype) for one, dtype in zip(columns, self.of, strict=True)), strict=True)
        call, skip = self.function, self.skip_null
        if self.star:
            made = [None if skip and any(one is None for one in row) else call(*row) for row in rows]
        else:
            made = [call(row) for row in rows]
        return series_from(made, self.dtype)


@operation
def per_batch(dtype: dt.DType, *columns: pl.Expr, call: Any, of: list[dt.DType]) -> pl.Expr:
    """A function of columns in some form; `call` knows the form, see `formats.BatchCall`."""
    return batch(columns, _PerBatch(call, of, dtype), physical(dtype))


class _PerBatch:
    def __init__(
        self,
        call: Callable[[Sequence[pl.Series], list[dt.DType], dt.DType], pl.Series],
        of: list[dt.DType],
        dtype: dt.DType,
    ) -> None:
        self.call, self.of, self.dtype = call, of, dtype

    def __call__(self, *columns: pl.Series) -> pl.Series:
        return self.call(columns, self.of, self.dtype)


@operation
def per_item_list(
    dtype: dt.DType, a: pl.Expr, *, function: Any, of: dt.DType, what: str, more: tuple[Any, ...]
) -> pl.Expr:
    """Python's map, filter, reduce and flattening map, over the items of every list."""
    return batch([a], _PerItemList(function, of, dtype, what, more), physical(dtype))


class _PerItemList:
    def __init__(self, function: Any, of: dt.DType, dtype: dt.DType, what: str, more: tuple[Any, ...]) -> None:
        self.function, self.of, self.dtype, self.what, self.more = function, of, dtype, what, more

    def __call__(self, a: pl.Series) -> pl.Series:
        f = self.function
        make: Callable[[list[Any]], Any] = {
            "map": lambda items: [f(one) for one in items],
            "filter": lambda items: [one for one in items if f(one)],
            "flatmap": lambda items: [made for one in items for made in f(one)],
            "reduce": lambda items: functools.reduce(f, items, *self.more),
        }[self.what]
        return series_from([None if row is None else make(row) for row in to_python(a, self.of)], self.dtype)


@operation
def look_up(dtype: dt.DType, *columns: pl.Expr, table: Any, of: list[dt.DType], skip_null: bool) -> pl.Expr:
    """Values by a dictionary; what it does not have is missing, unless it makes what it does not have."""
    find: Any = _Default(table) if isinstance(table, defaultdict) else table.get
    if skip_null or (None not in table and not isinstance(table, defaultdict)):
        return batch(columns, _PerRow(find, of, dtype, True, True), physical(dtype))
    return batch(columns, _PerRow(find, of, dtype, False, True), physical(dtype))


class _Default:
    def __init__(self, table: Any) -> None:
        self.table = table

    def __call__(self, key: Any) -> Any:
        return self.table[key]
