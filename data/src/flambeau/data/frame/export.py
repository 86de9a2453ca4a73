"""Series as Arrow arrays of exactly the column's type, sharing memory."""

from __future__ import annotations

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import KEY, VALUE, arrow_type
from flambeau.data.frame.batches import list_parts
from flambeau.data.frame.errors import FrameValueError


def arrow_array(series: pl.Series, dtype: dt.DType) -> pa.Array:
    """A series as an Arrow array of a column type."""
    if dt.is_primitive(dtype):
        made = series.rechunk().to_arrow()
        return made if made.type == arrow_type(dtype) else made.cast(arrow_type(dtype))
    missing = pa.array(series.is_null().to_numpy()) if series.null_count() else None
    if isinstance(dtype, dt.Struct):
        children = [arrow_array(series.struct.field(one.name), one.dtype) for one in dtype.fields]
        kind = arrow_type(dtype)
        if not children:
            return pa.array([{}] * len(series), kind)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)
    if isinstance(dtype, dt.List) and dtype.fixed_size >= 0:
        return _fixed(series, dtype, missing)
    offsets, items = list_parts(series)
    if isinstance(dtype, dt.List):
        values = arrow_array(items, dtype.item_dtype)
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=arrow_type(dtype), mask=missing)
    assert isinstance(dtype, dt.Map)  # the only nested type left
    if offsets[-1] > np.iinfo(np.int32).max:
        raise FrameValueError(
            f"Arrow's maps hold at most 2**31 - 1 entries in an array, got {offsets[-1]}; batch first."
        )
    keys = arrow_array(items.struct.field(KEY), dtype.key_dtype)
    values = arrow_array(items.struct.field(VALUE), dtype.item_dtype)
    starts = pa.array(offsets.astype(np.int32), mask=None if missing is None else _starts_missing(series))
    return pa.MapArray.from_arrays(starts, keys, values, type=arrow_type(dtype))


def _starts_missing(series: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where a missing map's offset is marked missing; the last offset has no map."""
    return np.append(series.is_null().to_numpy(), False)


def _fixed(series: pl.Series, dtype: dt.List, missing: pa.Array | None) -> pa.Array:
    whole = series if missing is None else series.fill_null([dtype.item_dtype.default_value()] * dtype.fixed_size)
    offsets, items = list_parts(whole)
    if np.any(np.diff(offsets) != dtype.fixed_size):
        raise FrameValueError(f"a row is not of the fixed size of {dtype}; cast to a List without fixed_size.")
    values = arrow_array(items, dtype.item_dtype)
    return pa.FixedSizeListArray.from_arrays(values, type=arrow_type(dtype), mask=missing)
