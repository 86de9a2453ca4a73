"""Records of TFRecord files, decoded without TensorFlow or protobuf.

A record is: length (u64), masked CRC-32C of the length (u32), payload, masked CRC-32C of the payload (u32), all
little-endian. The payload is a `tf.train.Example`, or a `SequenceExample`, in the protobuf wire format.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from flambeau.data._crc32c import masked_crc32c
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import functional_datapipe
from flambeau.data.datapipes.iter.files import SizedByHand

Spec = dict[str, tuple[tuple[int, ...], torch.dtype]]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


@functional_datapipe("load_from_tfrecord")
class TFRecordLoaderIterDataPipe(SizedByHand, Expanding[dict[str, Any]]):
    """Examples out of TFRecord files (functional name: `load_from_tfrecord`).

    Args:
        datapipe: source of `(path, stream of bytes)`; streams are closed when they are read.
        spec: feature -> (shape, dtype); only these features are decoded, and each has to be there. One dimension may be
            -1. A dtype of None keeps bytes as they are. Without it every feature comes as it is stored: int64 and
            float32 tensors of one dimension, lists of bytes.
        length: what `len()` says; unknown when negative.

    Yields:
        Dicts by feature. The feature lists of a `SequenceExample` are lists of tensors.

    Raises:
        RuntimeError: while iterating, for a file that is cut short or damaged, or an example that does not fit `spec`.
    """

    def __init__(self, datapipe: Iterable[tuple[str, Any]], spec: Spec | None = None, length: int = -1) -> None:
        for name, (shape, _) in (spec or {}).items():
            if sum(size == -1 for size in shape) > 1:
                raise ValueError(f"spec of {name!r}: only one dimension may be -1, got {tuple(shape)}.")
        self.datapipe = datapipe
        self.source_datapipe = datapipe
        self.spec = spec
        self.length = length

    def _expand(self, item: tuple[str, Any]) -> Iterator[dict[str, Any]]:
        path, stream = item
        try:
            for payload in records(stream, str(path)):
                yield example(payload, self.spec, str(path))
        finally:
            stream.close()


def records(stream: Any, name: str) -> Iterator[bytes]:
    """The payloads of the records of a stream, checked.

    Raises:
        RuntimeError: the stream ends within a record, or a checksum does not fit.
    """
    number = 0
    while head := _exactly(stream, 12, name, number, at_end=True):
        length, crc = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != crc:
            raise RuntimeError(f"{name}: record {number} is damaged: its length does not fit its checksum.")
        body = _exactly(stream, length + 4, name, number)
        payload = body[:length]
        if masked_crc32c(payload) != int.from_bytes(body[length:], "little"):
            raise RuntimeError(f"{name}: record {number} is damaged: its {length} bytes do not fit their checksum.")
        yield payload
        number += 1


def _exactly(stream: Any, count: int, name: str, number: int, *, at_end: bool = False) -> bytes:
    found = io.BytesIO()
    while found.tell() < count and (block := stream.read(count - found.tell())):
        found.write(block)
    if found.tell() < count and not (at_end and found.tell() == 0):
        raise RuntimeError(f"{name}: the file ends within record {number}: {found.tell()} of {count} bytes are there.")
    return found.getvalue()


def example(payload: bytes, spec: Spec | None = None, name: str = "example") -> dict[str, Any]:
    """The features of one serialised `Example` or `SequenceExample`; see `load_from_tfrecord`."""
    found: dict[str, Any] = {}
    for number, content in _fields(memoryview(payload)):
        if number == 1:  # Example.features, or SequenceExample.context
            found |= {key: _feature(value, key, spec) for key, value in _map(content) if _wanted(key, spec)}
        elif number == 2:  # SequenceExample.feature_lists
            for key, value in _map(content):
                if _wanted(key, spec):
                    found[key] = [_feature(one, key, spec) for _, one in _fields(value)]
    absent = [key for key in spec or {} if key not in found]
    if absent:
        raise RuntimeError(
            f"{name}: an example lacks the features {absent} that spec asks for; it has {sorted(found)}."
        )
    return found


def _wanted(key: str, spec: Spec | None) -> bool:
    return spec is None or key in spec


def _map(content: Any) -> Iterator[tuple[str, Any]]:
    """Entries of a protobuf map from string to message."""
    for _, entry in _fields(content):
        parts = dict(_fields(entry))
        yield bytes(parts[1]).decode(), parts.get(2, memoryview(b""))


def _feature(content: Any, key: str, spec: Spec | None) -> Any:
    values: Any = []
    for kind, packed in _fields(content):
        if kind == _BYTES_LIST:
            values = [bytes(value) for _, value in _fields(packed)]
        elif kind == _FLOAT_LIST:
            values = _floats(packed)
        elif kind == _INT64_LIST:
            values = _integers(packed)
    return values if spec is None else _shaped(values, key, *spec[key])


def _shaped(values: Any, key: str, shape: tuple[int, ...], dtype: torch.dtype | None) -> Any:
    if isinstance(values, list):
        if dtype is not None and values:
            values = torch.frombuffer(bytearray(b"".join(values)), dtype=dtype)
        elif dtype is not None:
            values = torch.empty(0, dtype=dtype)
        else:
            return values[0] if tuple(shape) == () and len(values) == 1 else values
    try:
        return values.to(dtype).reshape(shape)
    except RuntimeError as error:
        raise RuntimeError(
            f"feature {key!r} has {values.numel()} values, which do not fit the shape {tuple(shape)}."
        ) from error


def _floats(packed: Any) -> torch.Tensor:
    parts = [np.frombuffer(value, dtype="<f4") for _, value in _fields(packed)]  # packed, or single values
    return torch.from_numpy(np.concatenate(parts).astype(np.float32)) if parts else torch.empty(0)


def _integers(packed: Any) -> torch.Tensor:
    numbers: list[int] = []
    for _, value in _fields(packed):
        if isinstance(value, int):
            numbers.append(value)
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            numbers.append(number)
    return torch.tensor([number - (1 << 64) if number >> 63 else number for number in numbers], dtype=torch.int64)


def _fields(message: Any) -> Iterator[tuple[int, Any]]:
    """(number, content) of the fields of a message: an int for varints, else a view of the bytes."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise RuntimeError(f"a record is no Example: wire type {kind} of field {number} is not in use.")
        if position + size > end:
            raise RuntimeError(f"a record is no Example: field {number} is longer than what is left.")
        yield number, message[position : position + size]
        position += size


def _varint(message: Any, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise RuntimeError("a record is no Example: a number in it does not end.")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
