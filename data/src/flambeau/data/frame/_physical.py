"""Column types as Polars and Arrow hold them.

A map is a list of (key, value) records within plans, whatever a version of Polars has for it: lists have all the
operations. It becomes a map again when it leaves as Arrow. Fixed-size lists are lists within plans, too.
"""

from __future__ import annotations

from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame.errors import FrameTypeError

KEY, VALUE = "key", "value"

_PRIMITIVE: dict[str, Any] = {
    "b": pl.Boolean,
    "c": pl.Int8,
    "s": pl.Int16,
    "i": pl.Int32,
    "l": pl.Int64,
    "f": pl.Float32,
    "g": pl.Float64,
    "u": pl.String,
    "n": pl.Null,
    "?": pl.Null,
}
_FROM_POLARS: dict[Any, dt.DType] = {
    pl.Boolean: dt.boolean,
    pl.Int8: dt.int8,
    pl.Int16: dt.int16,
    pl.Int32: dt.int32,
    pl.Int64: dt.int64,
    pl.Float32: dt.float32,
    pl.Float64: dt.float64,
    pl.String: dt.string,
    pl.UInt8: dt.int16,
    pl.UInt16: dt.int32,
    pl.UInt32: dt.int64,
    pl.Categorical: dt.string,
    pl.Enum: dt.string,
}
_MAP = getattr(pl, "Map", None)


def physical(dtype: dt.DType) -> Any:
    """The Polars type that holds a column type."""
    if isinstance(dtype, dt.List):
        return pl.List(physical(dtype.item_dtype))
    if isinstance(dtype, dt.Map):
        return pl.List(pl.Struct({KEY: physical(dtype.key_dtype), VALUE: physical(dtype.item_dtype)}))
    if isinstance(dtype, dt.Struct):
        return pl.Struct({one.name: physical(one.dtype) for one in dtype.fields})
    if dtype.typecode not in _PRIMITIVE:
        raise FrameTypeError(f"{dtype} cannot be the type of a column; give `dtype` as a Struct with named fields.")
    return _PRIMITIVE[dtype.typecode]


def logical(held: Any, *, nullable: bool = True) -> dt.DType:
    """The column type of a Polars type, nullable throughout unless told otherwise.

    Unsigned numbers become the next wider signed type, categories become strings.

    Raises:
        TypeError: there is no column type for it; dates, times and decimals must be cast first.
    """
    if held == pl.Null:
        return dt.Void()
    if isinstance(held, pl.List):
        return dt.List(logical(held.inner), nullable)
    if isinstance(held, pl.Array):
        return dt.List(logical(held.inner), nullable, held.size)
    if _MAP is not None and isinstance(held, _MAP):
        return dt.Map(logical(held.key, nullable=False), logical(held.value), nullable)
    if isinstance(held, pl.Struct):
        return dt.Struct([dt.Field(one.name, logical(one.dtype)) for one in held.fields], nullable)
    found = next((mine for theirs, mine in _FROM_POLARS.items() if held == theirs), None)
    if found is None:
        raise FrameTypeError(
            f"{held} has no column type; cast it to a number or to text before it becomes a frame "
            "(dates: to days or microseconds since the epoch)."
        )
    return found.with_null(nullable)


def arrow_type(dtype: dt.DType) -> pa.DataType:
    """The Arrow type of a column type: large strings and lists, with the nullability of items and fields."""
    if isinstance(dtype, dt.List):
        item = pa.field("item", arrow_type(dtype.item_dtype), nullable=dtype.item_dtype.nullable)
        return pa.list_(item, dtype.fixed_size) if dtype.fixed_size >= 0 else pa.large_list(item)
    if isinstance(dtype, dt.Map):
        value = pa.field(VALUE, arrow_type(dtype.item_dtype), nullable=dtype.item_dtype.nullable)
        return pa.map_(pa.field(KEY, arrow_type(dtype.key_dtype), nullable=False), value)
    if isinstance(dtype, dt.Struct):
        return pa.struct([arrow_field(one) for one in dtype.fields])
    if dt.is_string(dtype):
        return pa.large_string()
    if dt.is_void(dtype) or dt.is_any(dtype):
        return pa.null()
    return pa.bool_() if dt.is_boolean(dtype) else getattr(pa, dtype.name)()


def arrow_field(one: dt.Field) -> pa.Field:
    """A named column type as Arrow has it."""
    return pa.field(one.name, arrow_type(one.dtype), nullable=one.dtype.nullable)


def arrow_schema(dtype: dt.Struct) -> pa.Schema:
    """A frame's type as Arrow has it."""
    return pa.schema([arrow_field(one) for one in dtype.fields])


def from_arrow_type(held: pa.DataType, nullable: bool) -> dt.DType:
    """The column type of an Arrow type; items and fields are nullable as Arrow says.

    Raises:
        TypeError: there is no column type for it.
    """
    kinds = pa.types
    if kinds.is_dictionary(held):
        return from_arrow_type(held.value_type, nullable)
    if kinds.is_map(held):
        return dt.Map(
            from_arrow_type(held.key_type, False), from_arrow_type(held.item_type, held.item_field.nullable), nullable
        )
    if kinds.is_fixed_size_list(held):
        return dt.List(from_arrow_type(held.value_type, held.value_field.nullable), nullable, held.list_size)
    if kinds.is_list(held) or kinds.is_large_list(held) or kinds.is_list_view(held) or kinds.is_large_list_view(held):
        return dt.List(from_arrow_type(held.value_type, held.value_field.nullable), nullable)
    if kinds.is_struct(held):
        fields = [dt.Field(one.name, from_arrow_type(one.type, one.nullable or nullable)) for one in held]
        return dt.Struct(fields, nullable)
    empty = pl.from_arrow(pa.array([], held))
    assert isinstance(empty, pl.Series)  # an array makes a series
    return logical(empty.dtype, nullable=nullable)


def held_as(series: pl.Series, dtype: dt.DType) -> pl.Series:
    """A series cast to what holds a column type; itself where it is that already."""
    wanted = physical(dtype)
    return series if series.dtype == wanted else series.cast(wanted)


def held_frame(frame: pl.DataFrame, dtype: dt.Struct) -> pl.DataFrame:
    """The columns of a type, cast to what holds them."""
    return pl.DataFrame([held_as(frame.get_column(one.name), one.dtype) for one in dtype.fields])
