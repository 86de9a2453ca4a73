"""Tensors for columns of every type, and columns from such tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pa, pl
from flambeau.data.frame._physical import KEY, VALUE, physical
from flambeau.data.frame.batches import list_from, list_parts, series_of_arrow
from flambeau.data.frame.column_classes import column_of
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.python_values import series_from, to_python
from flambeau.data.frame.pytorch.sharing import numbers, presence, shared, small
from flambeau.data.frame.scope import check_device

T = TypeVar("T")
K = TypeVar("K")

_INDEXES = (torch.int16, torch.int32, torch.int64)


@dataclass
class WithPresence(Generic[T]):
    """Values some of which may be missing.

    Attributes:
        values: of all rows; what stands for missing ones means nothing.
        presence: (rows,), bool: which are there.
    """

    values: T
    presence: Tensor


@dataclass
class PackedList(Generic[T]):
    """Lists laid end to end.

    Attributes:
        offsets: (rows + 1,), int32: where each list begins, and where the last ends.
        values: the items of all lists.
    """

    offsets: Tensor
    values: T


@dataclass
class PackedMap(Generic[K, T]):
    """Maps laid end to end.

    Attributes:
        offsets: (rows + 1,), int32: where each map begins, and where the last ends.
        keys: of all maps.
        values: of all maps.
    """

    offsets: Tensor
    keys: K
    values: T


class TensorConversion:
    """A way from a column to tensors, and back where there is one; calling it converts.

    Any function of a column serves `to_tensor` as well.
    """

    def to_tensor(self, col: Any) -> Any:
        """The column as tensors."""
        raise FrameTypeError(f"to_tensor for type {type(self).__name__} is not supported; override it.")

    def from_tensor(self, data: Any, dtype: dt.DType | None = None, device: str = "") -> Any:
        """Tensors as a column."""
        raise FrameTypeError(f"from_tensor for type {type(self).__name__} is not supported; override it.")

    def __call__(self, col: Any) -> Any:
        """The same as `to_tensor`."""
        return self.to_tensor(col)


class DefaultTensorConversion(TensorConversion):
    """The tensors that say all that a column says.

    ==============================  ===================================================
    numbers, booleans               a tensor; of the column's memory, but for booleans
    nullable values                 `WithPresence`
    lists                           `PackedList`
    maps                            `PackedMap`
    records, frames                 a named tuple
    text                            a list of str, with None where it is missing
    ==============================  ===================================================
    """

    def to_tensor(self, col: Any) -> Any:
        """The column as tensors."""
        return to_tensors(col._series(), col.dtype)

    def from_tensor(self, data: Any, dtype: dt.DType | None = None, device: str = "") -> Any:
        """The column that such tensors come from."""
        return from_tensor(data, dtype, device)


def to_tensors(series: pl.Series, dtype: dt.DType) -> Any:
    """A series of a column type as tensors; see `DefaultTensorConversion`."""
    if dt.is_string(dtype):
        return to_python(series, dtype)
    if dtype.nullable:
        return WithPresence(to_tensors(series, dtype.with_null(False)), presence(series))
    if dt.is_boolean_or_numerical(dtype):
        return numbers(series)
    if isinstance(dtype, dt.Struct):
        return dtype.py_type(*(to_tensors(series.struct.field(one.name), one.dtype) for one in dtype.fields))
    if not isinstance(dtype, dt.List | dt.Map):
        raise FrameTypeError(f"{dtype} has no tensors.")
    offsets, items = list_parts(series)
    if isinstance(dtype, dt.List):
        return PackedList(small(offsets), to_tensors(items, dtype.item_dtype))
    keys, values = items.struct.field(KEY), items.struct.field(VALUE)
    return PackedMap(small(offsets), to_tensors(keys, dtype.key_dtype), to_tensors(values, dtype.item_dtype))


class PadSequence(TensorConversion):
    """Lists of numbers as one tensor, the shorter ones filled up.

    Args:
        batch_first: whether rows come first: (rows, longest) rather than (longest, rows).
        padding_value: what fills rows that are shorter; missing lists are empty.
    """

    def __init__(self, *, batch_first: bool = True, padding_value: float = 0.0) -> None:
        self.batch_first = batch_first
        self.padding_value = padding_value

    def to_tensor(self, col: Any) -> Tensor:
        """The lists as a tensor of the items' type.

        Raises:
            TypeError: the column is none of lists of numbers.
        """
        if not isinstance(col.dtype, dt.List) or not dt.is_boolean_or_numerical(col.dtype.item_dtype):
            raise FrameTypeError(f"PadSequence is for lists of numbers, got {col.dtype}.")
        offsets, items = list_parts(col._series())
        lengths = np.diff(offsets)
        values = numbers(items)
        result = values.new_full((len(lengths), int(lengths.max(initial=0))), self.padding_value)
        inside = np.arange(result.shape[1]) < lengths[:, None]
        result[shared(inside)] = values
        return result if self.batch_first else result.T.contiguous()


def infer_dtype_from_tensor(data: Any) -> dt.DType:
    """The column type that tensors say all of.

    Raises:
        TypeError: they are no such tensors.
    """
    if isinstance(data, WithPresence):
        found = infer_dtype_from_tensor(data.values)
        if found.nullable:
            raise FrameTypeError("WithPresence structs can't be nested.")
        return found.with_null()
    if isinstance(data, Tensor):
        return _of_torch(data.dtype)
    if isinstance(data, PackedList):
        _check_offsets(data.offsets)
        return dt.List(infer_dtype_from_tensor(data.values))
    if isinstance(data, PackedMap):
        _check_offsets(data.offsets)
        return dt.Map(infer_dtype_from_tensor(data.keys), infer_dtype_from_tensor(data.values))
    if isinstance(data, tuple):
        found_types = [infer_dtype_from_tensor(one) for one in data]
        if names := getattr(data, "_fields", None):
            return dt.Struct([dt.Field(name, one) for name, one in zip(names, found_types, strict=True)])
        return dt.Tuple(found_types)
    if isinstance(data, list):
        return dt.infer_dtype_from_prefix(data)
    raise FrameTypeError(f"{type(data).__name__} is no tensor of a column; expected what to_tensor gives.")


def _of_torch(kind: torch.dtype) -> dt.DType:
    name = str(kind).removeprefix("torch.")
    found = getattr(dt, "boolean" if name == "bool" else name, None)
    if not isinstance(found, dt.DType):
        raise FrameTypeError(f"tensors of {kind} have no column type; convert to a signed integer, float32 or float64.")
    return found


def _check_offsets(offsets: Any) -> None:
    if not isinstance(offsets, Tensor) or offsets.dtype not in _INDEXES:
        raise FrameTypeError("offsets are expected to be an integer-valued tensor.")


def from_tensor(data: Any, dtype: dt.DType | None = None, device: str = "") -> Any:
    """A column over tensors as `to_tensor` gives them; numbers share the tensor's memory.

    Args:
        data: a tensor, `WithPresence`, `PackedList`, `PackedMap`, a tuple of such, or a list of Python values.
        dtype: type of the column; what the tensors say where not given. It must agree with them.
        device: "cpu".

    Raises:
        ValueError: the type does not agree with the tensors.
        TypeError: they are no such tensors.
    """
    check_device(device)
    found = infer_dtype_from_tensor(data) if dtype is None else dtype
    return column_of(_series(data, found), found)


def _series(data: Any, dtype: dt.DType) -> pl.Series:
    if isinstance(data, list):
        return series_from(data, dtype)
    if isinstance(data, WithPresence):
        if not dtype.nullable:
            raise FrameValueError(f"WithPresence makes a nullable column, dtype is {dtype}.")
        made = _series(data.values, dtype.with_null(False))
        return made.set(pl.Series(~data.presence.numpy()), None) if not bool(data.presence.all()) else made
    if dtype.nullable:
        raise FrameValueError(f"a nullable column is made of WithPresence, got {type(data).__name__} for {dtype}.")
    if isinstance(data, Tensor):
        return _numbers(data, dtype)
    build: Callable[[Any, Any], pl.Series] | None = _NESTED.get(
        type(data), _record if isinstance(data, tuple) else None
    )
    if build is None:
        raise FrameTypeError(f"{type(data).__name__} is no tensor of a column; expected what to_tensor gives.")
    return build(data, dtype)


def _numbers(data: Tensor, dtype: dt.DType) -> pl.Series:
    if _of_torch(data.dtype) != dtype:
        raise FrameValueError(f"Unexpected dtype {data.dtype} for the tensor, expected {dtype}.")
    if data.dim() != 1:
        raise FrameValueError(f"a column is made of a one-dimensional tensor, got shape {tuple(data.shape)}.")
    return series_of_arrow(pa.array(data.detach().cpu().contiguous().numpy()))


def _list(data: PackedList[Any], dtype: dt.DType) -> pl.Series:
    if not isinstance(dtype, dt.List):
        raise FrameValueError(f"PackedList makes a column of lists, dtype is {dtype}.")
    return list_from(data.offsets.numpy(), _series(data.values, dtype.item_dtype))


def _map(data: PackedMap[Any, Any], dtype: dt.DType) -> pl.Series:
    if not isinstance(dtype, dt.Map):
        raise FrameValueError(f"PackedMap makes a column of maps, dtype is {dtype}.")
    keys, values = _series(data.keys, dtype.key_dtype), _series(data.values, dtype.item_dtype)
    pairs = pl.DataFrame([keys.alias(KEY), values.alias(VALUE)]).to_struct("")
    return list_from(data.offsets.numpy(), pairs).cast(physical(dtype))


def _record(data: tuple[Any, ...], dtype: dt.DType) -> pl.Series:
    if not isinstance(dtype, dt.Struct):
        raise FrameValueError(f"a tuple makes a column of records, dtype is {dtype}.")
    if len(data) != len(dtype.fields):
        raise FrameValueError(f"Tuple has {len(data)} fields when the type has {len(dtype.fields)}: {dtype}.")
    columns = [_series(one, field.dtype).alias(field.name) for one, field in zip(data, dtype.fields, strict=True)]
    return pl.DataFrame(columns).to_struct("")


_NESTED: dict[type, Callable[[Any, Any], pl.Series]] = {PackedList: _list, PackedMap: _map}
