"""The recommender functions: hashing and bucketing of numbers and lists of them, overlap of lists of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import kernels
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import physical
from flambeau.data.frame.batches import batch, list_from, list_parts, on_items, values_of, with_validity
from flambeau.data.frame.operations.registry import operation


@operation
def sigrid_hash(dtype: dt.DType, a: pl.Expr, *, salt: int, max_value: int) -> pl.Expr:
    """Numbers hashed to [0, max_value)."""
    return batch([a.cast(physical(dtype))], _Hash(salt, max_value), physical(dtype))


class _Hash:
    def __init__(self, salt: int, max_value: int) -> None:
        self.salt, self.max_value = salt, max_value

    def __call__(self, a: pl.Series) -> pl.Series:
        return on_items(a, self._flat) if isinstance(a.dtype, pl.List) else self._flat(a)

    def _flat(self, a: pl.Series) -> pl.Series:
        return with_validity(kernels.sigrid_hash(values_of(a), self.salt, self.max_value), a)


@operation
def bucketize(dtype: dt.DType, a: pl.Expr, *, borders: list[float], of: dt.DType) -> pl.Expr:
    """The bucket that each number lies in."""
    return batch([a.cast(physical(of))], _Bucketize(borders), physical(dtype))


class _Bucketize:
    def __init__(self, borders: list[float]) -> None:
        self.borders = borders

    def __call__(self, a: pl.Series) -> pl.Series:
        return on_items(a, self._flat) if isinstance(a.dtype, pl.List) else self._flat(a)

    def _flat(self, a: pl.Series) -> pl.Series:
        return with_validity(kernels.bucketize(values_of(a), self.borders), a)


@operation
def firstx(dtype: dt.DType, a: pl.Expr, *, count: int) -> pl.Expr:
    """The first items of every list."""
    return batch([a], _FirstX(count), physical(dtype))


class _FirstX:
    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, a: pl.Series) -> pl.Series:
        inner = a.dtype.inner  # type: ignore[attr-defined]  # a list column's
        if not inner.is_numeric():
            return a.list.head(self.count)
        offsets, items = list_parts(a)
        if items.null_count():
            return a.list.head(self.count)
        new_offsets, values = kernels.firstx(offsets, values_of(items), self.count)
        return list_from(new_offsets, with_validity(values, items.clear()), a)


@operation
def overlap(dtype: dt.DType, a: pl.Expr, b: pl.Expr, *, what: str) -> pl.Expr:
    """What two lists of ids have in common, as one number."""
    return batch([a, b], _Overlap(what), physical(dtype))


@operation
def scored_overlap(dtype: dt.DType, *columns: pl.Expr, what: str) -> pl.Expr:
    """What two lists of ids with scores have in common, as one number."""
    return batch(columns, _Overlap(what), physical(dtype))


class _Overlap:
    """Columns in turn: ids, scores of them where the function takes any, matching ids, their scores."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, *columns: pl.Series) -> pl.Series:
        known = columns[0].is_not_null()
        for one in columns[1:]:
            known &= one.is_not_null()
        if known.all():
            return self._known(columns)
        # Rows without lists take no part: a norm of nothing would be an error.
        result = self._known([one.filter(known) for one in columns])
        return pl.Series([None], dtype=pl.Float32).new_from_index(0, len(known)).scatter(known.arg_true(), result)

    def _known(self, columns: Sequence[pl.Series]) -> pl.Series:
        flat: list[Any] = []
        for one in columns:
            inner = pl.Float32 if one.dtype.inner.is_float() else pl.Int64  # type: ignore[attr-defined]  # a list's
            offsets, items = list_parts(one.cast(pl.List(inner)))
            if items.null_count():
                offsets, items = list_parts(one.cast(pl.List(inner)).list.drop_nulls())
            flat += [offsets, values_of(items)]
        return pl.Series(kernels.OVERLAPS[self.what](*flat), dtype=pl.Float32)
