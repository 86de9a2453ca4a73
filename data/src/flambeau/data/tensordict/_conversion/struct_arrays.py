"""NumPy's structured arrays as tensordicts, and back: a field an entry, a nested dtype a nested tensordict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes


def from_struct_array(array: np.ndarray, device: Any = None) -> Any:
    """A TensorDict of the fields, its batch size the array's shape. Text and objects become non-tensor data.

    Numbers share the array's memory where their layout allows.

    Raises:
        TypeError: the array has no fields.
    """
    if array.dtype.names is None:
        raise TypeError(f"expected a structured array; dtype {array.dtype} has no fields.")
    return from_columns(((name, array[name]) for name in array.dtype.names), array.shape, device)


def from_columns(columns: Iterable[tuple[str, np.ndarray]], shape: Sequence[int], device: Any = None) -> Any:
    """A TensorDict of arrays that have the shape of its batch; see `from_struct_array`."""
    td = classes.TensorDict({}, batch_size=shape, device=device)
    for name, column in columns:
        if column.dtype.names is not None:
            td.set(name, from_struct_array(column, device))
        elif column.dtype.kind in "biufc":
            td.set(name, torch.from_numpy(_shareable(column)))
        else:
            value = column.tolist()
            td.set(name, classes.NonTensorStack.from_list(value) if isinstance(value, list) else value)
    return td


def _shareable(column: np.ndarray) -> np.ndarray:
    """A column whose memory a tensor can share: itself, or a copy where layout or byte order are not torch's."""
    native = column.dtype.newbyteorder("=")
    fits = all(stride % column.itemsize == 0 and stride >= 0 for stride in column.strides)
    if fits and column.dtype == native and column.flags.writeable and column.flags.aligned:
        return column
    return column.astype(native)


def to_struct_array(td: Any) -> np.ndarray:
    """A structured array of the batch's shape; trailing dimensions of tensors become sub-array fields.

    Raises:
        TypeError: a dtype that NumPy lacks, such as bfloat16; or a value that no field can hold but an object.
    """
    shape = tuple(td.batch_size)
    columns = {key: _column(key, value) for key, value in td.items()}
    dtype = np.dtype([(key, column.dtype, column.shape[len(shape) :]) for key, column in columns.items()])
    made = np.empty(shape, dtype=dtype)
    for key, column in columns.items():
        made[key] = column
    return made


def _column(key: str, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        try:
            return value.detach().cpu().numpy()
        except TypeError as error:
            raise TypeError(
                f"{key!r} has dtype {value.dtype}, which NumPy lacks; convert it first, with to()."
            ) from error
    if value._is_non_tensor:
        return _objects(value.tolist(), tuple(value.batch_size))
    return to_struct_array(value)


def _objects(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Values in an array: as text where all are, else as objects."""
    made = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        item = values
        for position in index:
            item = item[position]
        made[index] = item
    flat = made.reshape(-1)
    if len(flat) and all(type(item) is str for item in flat):
        return made.astype(f"<U{max(1, *map(len, flat))}")
    return made
