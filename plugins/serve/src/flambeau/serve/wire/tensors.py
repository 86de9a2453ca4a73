"""Tensors of the Open Inference Protocol (v2), as JSON and as bytes; numpy alone is needed."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from flambeau.serve.errors import BadRequest

__all__ = ["DATATYPES", "TensorHead", "bytes_elements", "packed", "unpacked"]

# The protocol's names, and numpy's; BYTES are strings of their own lengths.
DATATYPES: dict[str, str] = {
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_MOST_DIMENSIONS = 16

TensorHead = dict[str, Any]


def packed(tensor: dict[str, Any], raw: bytes | None) -> tuple[TensorHead, bytes]:
    """An input of a request as its head, and its elements in little-endian order.

    Args:
        tensor: `name`, `shape`, `datatype`, and `data`, flat or nested, unless `raw` has the elements.
        raw: elements that came as bytes; for BYTES each with four bytes of length before it.

    Raises:
        BadRequest: a shape, type or number of elements that cannot be.
    """
    name, shape, datatype = tensor.get("name"), tensor.get("shape"), tensor.get("datatype")
    if not isinstance(name, str) or not name:
        raise BadRequest("an input has no name.")
    if (
        not isinstance(shape, list)
        or len(shape) > _MOST_DIMENSIONS
        or not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40 for size in shape)
    ):
        raise BadRequest(f"input {name!r}: shape is a list of sizes, at most {_MOST_DIMENSIONS}.")
    count = math.prod(shape)
    head = {"name": name, "shape": shape, "datatype": datatype}
    if datatype == "BYTES":
        data = raw if raw is not None else _pack_strings(name, _flat(tensor.get("data")))
        if len(bytes_elements(data)) != count:
            raise BadRequest(f"input {name!r}: {len(bytes_elements(data))} elements for the shape {shape}.")
        return head, data
    if datatype not in DATATYPES:
        raise BadRequest(f"input {name!r}: datatype is {datatype!r}, expected one of BYTES, {', '.join(DATATYPES)}.")
    if raw is None:
        raw = _numbers(name, tensor.get("data"), datatype, count)
    width = np.dtype(DATATYPES[datatype]).itemsize
    if len(raw) != count * width:
        raise BadRequest(f"input {name!r}: {len(raw)} bytes for {count} elements of {width} bytes each.")
    return head, raw


def unpacked(head: TensorHead, data: bytes) -> np.ndarray[Any, Any]:
    """The inverse of `packed`, for all types but BYTES; its memory is its own."""
    return np.frombuffer(data, DATATYPES[head["datatype"]]).reshape(head["shape"]).copy()


def bytes_elements(data: bytes) -> list[bytes]:
    """The elements of BYTES: each has its length in four little-endian bytes before it.

    Raises:
        BadRequest: the lengths do not fit.
    """
    found, start = [], 0
    while start < len(data):
        if start + 4 > len(data):
            raise BadRequest("BYTES: a length is cut short.")
        (size,) = struct.unpack_from("<I", data, start)
        start += 4
        if start + size > len(data):
            raise BadRequest("BYTES: an element is longer than what is left.")
        found.append(data[start : start + size])
        start += size
    return found


def _numbers(name: str, data: Any, datatype: str, count: int) -> bytes:
    try:
        values = np.asarray(data)
        if values.size != count or values.dtype.kind not in "biuf":
            raise BadRequest(f"input {name!r}: data has {values.size} numbers, its shape {count}.")
        target = np.dtype(DATATYPES[datatype])
        if target.kind in "iu" and values.dtype.kind == "f":
            values = _whole(data, values)
        if target.kind in "iu" and values.dtype.kind in "iub" and values.size:
            limits = np.iinfo(target)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                raise BadRequest(f"input {name!r}: data has values beyond {datatype}.")
        elif target.kind in "iu" and values.dtype.kind == "f" and values.size:
            raise BadRequest(f"input {name!r}: data has fractions, and {datatype} has none.")
        return values.astype(target).tobytes()
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"input {name!r}: data is no array of numbers ({error}).") from error


def _whole(data: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers that NumPy made floats of, because only some fit into int64; others stay."""
    exact = np.asarray(data, dtype=object)
    return exact.astype(np.uint64) if all(type(one) is int and one >= 0 for one in exact.flat) else values


def _flat(data: Any, depth: int = 0) -> list[Any]:
    if not isinstance(data, list):
        return [data]
    if depth > _MOST_DIMENSIONS:
        raise BadRequest("data is nested too deeply.")
    return [value for part in data for value in _flat(part, depth + 1)]


def _pack_strings(name: str, values: list[Any]) -> bytes:
    found = []
    for value in values:
        if not isinstance(value, str):
            raise BadRequest(f"input {name!r}: BYTES in JSON are strings.")
        encoded = value.encode()
        found.append(struct.pack("<I", len(encoded)) + encoded)
    return b"".join(found)
