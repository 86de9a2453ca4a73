"""Shards of MosaicML's streaming format (MDS), described by the `index.json` beside them."""

from __future__ import annotations

import functools
import gzip
import json
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.data.shards.bytes_source import BytesSource
from flambeau.data.shards.errors import DamagedShardError, ShardError
from flambeau.data.shards.index import _zstd
from flambeau.data.shards.shard import Shard

_SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def _scalar(dtype: str, content: bytes) -> Any:
    return np.frombuffer(content, dtype)[0].item()


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "jpeg": bytes,  # as stored; a decoder makes pictures of them
    "png": bytes,
    "str": lambda content: content.decode("utf-8"),
    "int": lambda content: int(np.frombuffer(content, "<i8")[0]),
    "str_int": lambda content: int(content),
    "str_float": lambda content: float(content),
    "json": json.loads,
    **{name: functools.partial(_scalar, name) for name in _SCALARS},
}


class MDSShard(Shard):
    """Samples of one MDS shard.

    A file begins with the number of samples (u32) and where each begins and the last ends (u32); a sample is the sizes
    (u32) of its columns of variable size, and the columns. Columns of encodings bytes, jpeg, png, str, int, str_int,
    str_float, json, the numeric scalars, and `ndarray:dtype:shape` are read; those that would run code (pkl) are
    refused.

    Args:
        folder: where the shard lies, path or URL.
        about: its entry in `index.json`.
        settings: keywords of `open_object`, for URLs.
    """

    def __init__(self, folder: str, about: dict[str, Any], *, settings: dict[str, Any] | None = None) -> None:
        self._about = about
        packed = about.get("zip_data")
        file = (packed or about["raw_data"])["basename"]
        super().__init__(BytesSource(f"{folder.rstrip('/')}/{file}", settings))
        self._compression = about.get("compression") if packed else None
        self._lock = threading.Lock()
        self._raw: memoryview | None = None
        self._decoders = [_decoder(self.path, encoding) for encoding in about["column_encodings"]]

    def __len__(self) -> int:
        return int(self._about["samples"])

    def read(self, item: int) -> dict[str, Any]:
        """As `Shard.read`."""
        where = 4 * (item + 1)
        begin, end = struct.unpack("<2I", self._bytes(where, where + 8, item))
        content = bytes(self._bytes(begin, end, item))
        sizes = list(self._about["column_sizes"])
        variable = [place for place, size in enumerate(sizes) if size is None]
        head = 4 * len(variable)
        try:
            for place, size in zip(variable, struct.unpack_from(f"<{len(variable)}I", content), strict=True):
                sizes[place] = size
            if head + sum(sizes) != len(content):
                raise ValueError("its columns do not add up to it")
            sample, place = {}, head
            for name, size, decode in zip(self._about["column_names"], sizes, self._decoders, strict=True):
                sample[name] = decode(content[place : place + size])
                place += size
        except (ValueError, struct.error) as error:
            raise DamagedShardError(self.path, begin, f"sample {item} cannot be read ({error})", item) from error
        return sample

    def _bytes(self, start: int, stop: int, item: int) -> memoryview:
        if self._compression is None:
            found = self.source.read(start, stop)
        else:
            found = self._unpacked()[start:stop]
        if len(found) != stop - start:
            raise DamagedShardError(self.path, start, f"the file ends inside sample {item}", item)
        return found

    def _unpacked(self) -> memoryview:
        with self._lock:
            if self._raw is None:
                self._raw = memoryview(_unpack(self.path, self._compression or "", bytes(self.source.whole())))
            return self._raw

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.path.rpartition("/")[0], "about": self._about, "settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"], state["about"], settings=state["settings"])  # type: ignore[misc]


def mds_shards(index: str | os.PathLike[str], *, settings: dict[str, Any] | None = None) -> list[MDSShard]:
    """The shards that an `index.json`, or the folder it lies in, lists.

    Raises:
        ShardError: there is none, or it is of another format.
    """
    path = os.fspath(index)
    path = path if path.endswith(".json") else path.rstrip("/") + "/index.json"
    source = BytesSource(path, settings)
    about = json.loads(bytes(source.whole()))
    shards = about.get("shards") if isinstance(about, dict) else None
    if shards is None or any(shard.get("format") != "mds" for shard in shards):
        raise ShardError(f"{path}: expected an index of shards of format 'mds'.")
    folder = path.rpartition("/")[0] or str(Path())
    return [MDSShard(folder, shard, settings=settings) for shard in shards]


def _decoder(path: str, encoding: str) -> Callable[[bytes], Any]:
    if encoding in _DECODERS:
        return _DECODERS[encoding]
    kind, _, rest = encoding.partition(":")
    dtype, _, shape = rest.partition(":")
    if kind == "ndarray" and dtype and shape:
        sizes = tuple(int(size) for size in shape.split(","))
        return lambda content: np.frombuffer(content, dtype).reshape(sizes)
    known = ", ".join(sorted(_DECODERS))
    raise ShardError(f"{path}: columns of encoding {encoding!r} are not read; known: {known}, ndarray:dtype:shape.")


def _unpack(path: str, compression: str, content: bytes) -> bytes:
    kind = compression.partition(":")[0]
    if kind == "gz":
        return gzip.decompress(content)
    if kind == "zstd" and (zstd := _zstd()) is not None:
        return bytes(zstd.decompress(content))
    remedy = "Run: pip install backports.zstd" if kind == "zstd" else "expected gz or zstd"
    raise ShardError(f"{path}: compressed by {kind!r}. {remedy}")
