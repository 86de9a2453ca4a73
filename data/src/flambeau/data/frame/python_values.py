"""Between Python values and the series that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import KEY, VALUE, physical
from flambeau.data.frame.errors import FrameTypeError, FrameValueError


def series_from(values: Iterable[Any], dtype: dt.DType) -> pl.Series:
    """Python values as a series of a column type.

    Raises:
        ValueError: None where the type does not take it, a list of another length than the type's fixed size.
        TypeError: a value of another type.
    """
    rows = values if isinstance(values, list) else list(values)
    _check_nulls(rows, dtype)
    held = _held(rows, dtype)
    lenient = dt.is_boolean_or_numerical(dtype)
    if lenient and any(issubclass(kind, str | bytes) for kind in set(map(type, held))):
        raise FrameTypeError(f"text cannot be held as {dtype}; make a column of text and cast it.")
    try:
        made = pl.Series("", held, dtype=physical(dtype), strict=not lenient)
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise FrameTypeError(f"values cannot be held as {dtype}: {error}") from error
    if lenient and made.null_count() != held.count(None):
        lost = next(one for one, kept in zip(held, made, strict=True) if kept is None and one is not None)
        raise FrameTypeError(f"{lost!r} cannot be held as {dtype}; give a wider dtype.")
    return made


def typed_series(values: Iterable[Any], dtype: dt.DType | None) -> tuple[pl.Series, dt.DType]:
    """Python values as a series, and its column type: the one given, or the one that the values tell.

    Raises:
        ValueError: no values tell a type; None where the type is not nullable.
        TypeError: records without names tell no type; a value of another type.
    """
    rows = values if isinstance(values, list) else list(values)
    if dtype is None:
        dtype = dt.infer_dtype_from_prefix(rows)
        if dt.is_any(dtype) or dt.is_void(dtype):
            raise FrameValueError("the type of a column cannot be told from no values; give `dtype`.")
        if dt.contains_tuple(dtype):
            raise FrameTypeError("Cannot infer type from Python tuple: it has no names; give `dtype` as a Struct.")
        dtype = _known(dtype)
    return series_from(rows, dtype), dtype


def _known(dtype: dt.DType) -> dt.DType:
    """Items of nothing but empty lists are taken to be missing whole numbers."""
    if isinstance(dtype, dt.List):
        return dt.List(_known(dtype.item_dtype), dtype.nullable, dtype.fixed_size)
    return dt.int64 if dt.is_any(dtype) else dtype


def taking_null(dtype: dt.DType, rows: Iterable[Any]) -> dt.DType:
    """A type that takes the values, too, where they are missing: nullable where, and as deep as, one of them is."""
    rows = list(rows)
    there = [one for one in rows if one is not None]
    if isinstance(dtype, dt.List):
        item = taking_null(dtype.item_dtype, chain.from_iterable(there))
        dtype = dt.List(item, dtype.nullable, dtype.fixed_size)
    elif isinstance(dtype, dt.Map):
        item = taking_null(dtype.item_dtype, chain.from_iterable(one.values() for one in there))
        dtype = dt.Map(dtype.key_dtype, item, dtype.nullable, dtype.keys_sorted)
    elif isinstance(dtype, dt.Struct):
        columns = [_column(there, dtype, place) for place in range(len(dtype.fields))]
        fields = [
            dt.Field(one.name, taking_null(one.dtype, column), one.metadata)
            for one, column in zip(dtype.fields, columns, strict=True)
        ]
        dtype = dt.Struct(fields, dtype.nullable, dtype.is_dataframe, dtype.metadata)
    return dtype if len(there) == len(rows) else dtype.with_null()


def _held(rows: list[Any], dtype: dt.DType) -> list[Any]:
    """Values in the form that Polars takes: records as dictionaries, maps as lists of records."""
    if isinstance(dtype, dt.List):
        if dtype.fixed_size >= 0 and any(row is not None and len(row) != dtype.fixed_size for row in rows):
            raise FrameValueError(f"a row is not of the fixed size of {dtype}.")
        if dt.is_primitive(dtype.item_dtype):
            _check_nulls([item for row in rows if row is not None for item in row], dtype.item_dtype)
            return rows
        return [None if row is None else _held(list(row), dtype.item_dtype) for row in rows]
    if isinstance(dtype, dt.Map):
        return [
            None
            if row is None
            else [
                {KEY: key, VALUE: value}
                for key, value in zip(
                    _held(list(row), dtype.key_dtype), _held(list(row.values()), dtype.item_dtype), strict=True
                )
            ]
            for row in rows
        ]
    if isinstance(dtype, dt.Struct):
        return _records(rows, dtype)
    if dt.is_boolean(dtype):
        return [None if row is None else bool(row) for row in rows]
    if dt.is_integer(dtype) and any(isinstance(row, float) for row in rows):
        return [None if row is None else _whole(row, dtype) for row in rows]
    return rows


def _whole(value: Any, dtype: dt.DType) -> int:
    if int(value) != value:
        raise FrameTypeError(
            f"{value!r} cannot be held as {dtype} without loss; give a floating dtype, or round first."
        )
    return int(value)


def _records(rows: list[Any], dtype: dt.Struct) -> list[dict[str, Any] | None]:
    """Tuples, named tuples or dictionaries as dictionaries by field name."""
    names = [one.name for one in dtype.fields]
    columns = []
    for place, one in enumerate(dtype.fields):
        column = _column(rows, dtype, place)
        columns.append(_held(column, one.dtype))
        if not dtype.nullable:
            _check_nulls(column, one.dtype)
    made = zip(*columns, strict=True) if columns else ((),) * len(rows)
    return [
        None if row is None else dict(zip(names, values, strict=True)) for row, values in zip(rows, made, strict=True)
    ]


def _column(rows: list[Any], dtype: dt.Struct, place: int) -> list[Any]:
    """A field of tuples or dictionaries."""
    name = dtype.fields[place].name
    try:
        return [None if row is None else row[name] if isinstance(row, dict) else row[place] for row in rows]
    except (KeyError, IndexError, TypeError) as error:
        raise FrameTypeError(f"a row is no record of {dtype}: {error}") from error


def _check_nulls(rows: Sequence[Any], dtype: dt.DType) -> None:
    if not dtype.nullable and any(row is None for row in rows):
        raise FrameValueError(
            f"None found in the values of non-nullable type {dtype}; give dtype {dtype.with_null()}."
            if not isinstance(dtype, dt.Struct)
            else f"None found in the values of non-nullable type {dtype}; make the struct and its fields nullable."
        )


def to_python(series: pl.Series, dtype: dt.DType) -> list[Any]:
    """A series as Python values: records as named tuples, maps as dictionaries."""
    return from_held(series.to_list(), dtype)


def from_held(rows: list[Any], dtype: dt.DType) -> list[Any]:
    """What Polars gives, as `to_python` gives it."""
    if isinstance(dtype, dt.List) and not dt.is_primitive(dtype.item_dtype):
        return [None if row is None else from_held(row, dtype.item_dtype) for row in rows]
    if isinstance(dtype, dt.Map):
        return [
            None
            if row is None
            else dict(
                zip(
                    from_held([one[KEY] for one in row], dtype.key_dtype),
                    from_held([one[VALUE] for one in row], dtype.item_dtype),
                    strict=True,
                )
            )
            for row in rows
        ]
    if isinstance(dtype, dt.Struct):
        make = dtype.py_type
        columns = [
            from_held([None if row is None else row[one.name] for row in rows], one.dtype) for one in dtype.fields
        ]
        made = zip(*columns, strict=True) if columns else ((),) * len(rows)
        return [None if row is None else make(*values) for row, values in zip(rows, made, strict=True)]
    return rows
