"""Making columns and frames: from Python, NumPy, Arrow, pandas, Polars and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import from_arrow_type, held_as, logical, physical
from flambeau.data.frame._plan import ONE
from flambeau.data.frame.batches import series_of_arrow
from flambeau.data.frame.column import Column
from flambeau.data.frame.column_classes import column_from, column_of, frame_of, frame_over
from flambeau.data.frame.dataframe import DataFrame
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import in_memory
from flambeau.data.frame.operators import choose
from flambeau.data.frame.python_values import series_from
from flambeau.data.frame.scanning import Scan, paths_of
from flambeau.data.frame.scope import check_device
from flambeau.data.frame.selection import stacked


def column(data: Any = None, dtype: dt.DType | None = None, device: str = "") -> Column:
    """A column of values.

    Args:
        data: values: a list or any iterable, a NumPy array (not copied), a column; or the type of an empty column.
        dtype: type of the column; found from the values where it is not given. Python's floats are float32, and None
            makes the type nullable.
        device: "cpu".

    Returns:
        A `NumericalColumn`, `StringColumn`, `ListColumn`, `MapColumn`, or a `DataFrame` for records.

    Raises:
        TypeError: neither values nor type; a value of another type; records without names.
        ValueError: no type can be found; None where the type is not nullable.

    Example:
        >>> column([1, 2, None, 4])
        0  1
        1  2
        2  None
        3  4
        dtype: Int64(nullable=True), length: 4, null_count: 1
    """
    check_device(device)
    if isinstance(data, dt.DType):
        if isinstance(dtype, dt.DType):
            raise FrameTypeError("a column has one dtype, got two.")
        data, dtype = dtype, data
    if data is None and dtype is None:
        raise FrameTypeError("a column needs data or dtype, got neither.")
    if isinstance(data, Column):
        return data if dtype is None or data.dtype == dtype else data.cast(dtype)
    made: Column = column_from([] if data is None else data, dtype)
    return made


def dataframe(
    data: Any = None, dtype: dt.DType | None = None, columns: Sequence[str] | None = None, device: str = ""
) -> DataFrame:
    """A frame: named columns of one length.

    Args:
        data: a dictionary of columns or values by name, a list of records (tuples, or dictionaries: what one lacks is
            missing), a frame, or the type of an empty frame.
        dtype: a `Struct`: names, types and order of the columns; found from the values where it is not given.
        columns: names for records without names.
        device: "cpu".

    Raises:
        TypeError: the type is no `Struct`, names do not fit, records have no names.
        ValueError: columns of different lengths.

    Example:
        >>> frame = dataframe({"a": [1, 2, 3], "b": [4.0, None, 6.0]})
        >>> frame["c"] = frame["a"] + frame["b"]
        >>> frame["c"]
        0  5.0
        1  None
        2  9.0
        dtype: Float32(nullable=True), length: 3, null_count: 1
    """
    check_device(device)
    if isinstance(data, dt.DType):
        if dtype is not None:
            raise FrameTypeError("a frame has one dtype, got two.")
        data, dtype = None, data
    if dtype is not None and not isinstance(dtype, dt.Struct):
        raise FrameTypeError(f"a frame's dtype is a Struct, got {dtype}.")
    if isinstance(data, DataFrame):
        return data if dtype is None else _checked(data.cast(dtype))
    if isinstance(data, Mapping):
        return _from_mapping(data, dtype)
    if data is None and (dtype is None or not dtype.nullable):
        return _checked(frame_of(pl.DataFrame(schema=_schema(dtype or dt.Struct([]))), dtype or dt.Struct([])))
    if data is None:
        data = []
    return _from_records(data if isinstance(data, list) else list(data), dtype, columns)


def _checked(made: Column) -> DataFrame:
    assert isinstance(made, DataFrame)  # its type is a struct
    return made


def _schema(dtype: dt.Struct) -> dict[str, Any]:
    return {one.name: physical(one.dtype) for one in dtype.fields}


def _from_mapping(data: Mapping[str, Any], dtype: dt.Struct | None) -> DataFrame:
    if dtype is not None and set(data) != {one.name for one in dtype.fields}:
        raise FrameTypeError(f"data has columns {[*data]}, dtype has {[one.name for one in dtype.fields]}.")
    names = [*data] if dtype is None else [one.name for one in dtype.fields]
    values: dict[str, Column] = {}
    for name in names:
        wanted = None if dtype is None else dtype.get(name)
        if isinstance(data[name], Column) and wanted is not None and data[name].dtype != wanted:
            raise FrameTypeError(f"column {name!r} is {data[name].dtype}, dtype says {wanted}; cast it first.")
        values[name] = column(data[name], wanted)
    return _together(values)


def _together(values: Mapping[str, Column]) -> DataFrame:
    """Columns as a frame: over their rows where all have the same, else over rows of their own."""
    from flambeau.data.frame.dataframe import DataFrame

    if not values:
        return dataframe()
    first = next(iter(values.values()))
    named = [one.name for one in first._rows.dtype.fields] != [ONE]
    if named and len({id(one._rows) for one in values.values()}) == 1:
        return DataFrame(first._rows, {name: one._term for name, one in values.items()})
    if all(in_memory(one._rows) for one in values.values()):
        series = [one._series().alias(name) for name, one in values.items()]
        if len({len(one) for one in series}) > 1:
            lengths = {one.name: len(one) for one in series}
            raise FrameValueError(f"columns must have equal length, got {lengths}.")
        dtype = dt.Struct([dt.Field(name, one.dtype) for name, one in values.items()])
        return _checked(frame_of(pl.DataFrame(series), dtype))
    made = dataframe()
    for name, one in values.items():
        made[name] = one
    return made


def _from_records(rows: list[Any], dtype: dt.Struct | None, columns: Sequence[str] | None) -> DataFrame:
    if dtype is None:
        if rows and all(isinstance(row, dict) for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)
            return _from_mapping({name: [row.get(name) for row in rows] for name in names}, None)
        found = dt.infer_dtype_from_prefix(rows)
        if isinstance(found, dt.Tuple):
            if columns is None:
                raise FrameTypeError("DataFrame construction from tuples requires dtype or columns to be given.")
            if len(columns) != len(found.fields):
                raise FrameTypeError(f"got {len(columns)} column names for records of {len(found.fields)} values.")
            found = dt.Struct([dt.Field(name, one) for name, one in zip(columns, found.fields, strict=True)])
        if not isinstance(found, dt.Struct):
            raise FrameTypeError(f"a frame is made of records, got rows of type {found}.")
        dtype = found
    return _checked(column_of(series_from(rows, dtype), dtype))


def concat(columns: Sequence[Column]) -> Column:
    """The rows of several columns or frames of one type, one after another.

    Raises:
        ValueError: none are given.
        TypeError: their types have none in common.
    """
    made: Column = stacked(columns)
    return made


def if_else(cond: Column, left: Any, right: Any) -> Column:
    """`left` where the condition is true, `right` where it is false, missing where the condition is.

    Args:
        cond: booleans.
        left: a column, or one value for all rows.
        right: likewise, of a type that has one in common with `left`.

    Example:
        >>> if_else(column([True, False]), column(["a", "b"]), "c")
        0  'a'
        1  'c'
        dtype: string, length: 2, null_count: 0
    """
    made: Column = choose(cond, left, right)
    return made


def from_arrow(data: Any, dtype: dt.DType | None = None, device: str = "") -> Any:
    """A column or frame over Arrow memory, without a copy where the layouts agree.

    Args:
        data: an array or chunked array (a column), a table or record batch (a frame), or anything that exports the
            Arrow C stream or array interface.
        dtype: type of the column; by default what Arrow says. Arrays are nullable where they have nulls, columns of
            tables where their schema says so.
        device: "cpu".
    """
    check_device(device)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        found = from_arrow_type(data.type, data.null_count > 0)
        made = column_of(held_as(series_of_arrow(data), found), found)
        return made if dtype is None else made.cast(dtype)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return from_arrow(reader.read_all(), dtype)
        if hasattr(data, "__arrow_c_array__"):
            return from_arrow(pa.array(data), dtype)
        raise FrameTypeError(f"expected an Arrow array, table or stream, got {type(data).__name__}.")
    fields = [dt.Field(one.name, from_arrow_type(one.type, one.nullable)) for one in data.schema]
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)  # a table makes a frame
    held = pl.DataFrame([held_as(frame.get_column(one.name), one.dtype) for one in fields])
    made = frame_of(held, dt.Struct(fields))
    return made if dtype is None else dataframe(made, dtype)


def from_pandas(data: Any, dtype: dt.DType | None = None, device: str = "") -> Any:
    """A column over a pandas series, a frame over a pandas frame; not-a-number in object columns is missing."""
    check_device(device)
    if hasattr(data, "columns"):
        return from_arrow(pa.Table.from_pandas(data, preserve_index=False), dtype)
    return from_arrow(pa.Array.from_pandas(data), dtype)


def from_polars(data: Any, device: str = "") -> Any:
    """A column over a series of Polars, a frame over a frame or query of Polars; nothing is copied or computed."""
    check_device(device)
    if isinstance(data, pl.Series):
        found = logical(data.dtype, nullable=data.null_count() > 0)
        return column_of(held_as(data, found), found)
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    fields = [dt.Field(one.name, logical(one.dtype, nullable=one.null_count() > 0)) for one in data]
    held = pl.DataFrame([held_as(data.get_column(one.name), one.dtype).alias(one.name) for one in fields])
    return frame_of(held, dt.Struct(fields))


def from_pysequence(data: Iterable[Any], dtype: dt.DType | None = None, device: str = "") -> Column:
    """A column of Python values; records make a frame."""
    return column(data, dtype, device)


def scan_parquet(files: str | Path | Sequence[str | Path], **options: Any) -> DataFrame:
    """A frame over Parquet files: nothing is read before values are asked for, and then no more than is needed.

    Args:
        files: a path or URL, several, a folder, or a pattern.
        **options: of `polars.scan_parquet`.
    """
    return _scan(files, "parquet", options)


def scan_arrow(files: str | Path | Sequence[str | Path], **options: Any) -> DataFrame:
    """A frame over Arrow IPC (Feather) files, mapped into memory when values are asked for."""
    return _scan(files, "arrow", options)


def scan_csv(files: str | Path | Sequence[str | Path], **options: Any) -> DataFrame:
    """A frame over CSV files; see `polars.scan_csv` for the options."""
    return _scan(files, "csv", options)


def scan_jsonl(files: str | Path | Sequence[str | Path], **options: Any) -> DataFrame:
    """A frame over files of one JSON object a line."""
    return _scan(files, "jsonl", options)


def _scan(files: Any, kind: str, options: dict[str, Any]) -> DataFrame:
    return _checked(frame_over(Scan(paths_of(files, kind), kind, options)))
