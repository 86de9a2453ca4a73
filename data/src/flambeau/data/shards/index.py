"""The index beside a shard: where each member lies.

Layout of `<shard>.idx`, numbers little-endian:

====================  =======================================================================
bytes                 content
====================  =======================================================================
8                     b"FBSHIDX" and the version, 1
u64                   members, n
u64                   size of the shard in bytes: an index of another size is not believed
u32                   CRC-32C of everything behind the header
u32                   compression of the names: 1 zlib (RFC 1950), 2 Zstandard (RFC 8878)
n * (u64, u64, u64)   offset of the content, its size, its CRC-32C
rest                  JSON list of the members' names, compressed
====================  =======================================================================
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.core.files import write_atomic
from flambeau.data._crc32c import crc32c
from flambeau.data.shards.errors import ShardError

_HEADER = struct.Struct("<8sQQII")
_MAGIC = b"FBSHIDX\x01"
_ZLIB, _ZSTD = 1, 2
NO_CHECKSUM = 2**64 - 1


@dataclass(frozen=True)
class Member:
    """One file inside a shard: its name, and where its content lies."""

    name: str
    offset: int
    size: int
    checksum: int | None = None


class Index:
    """The members of a shard in compact form: 24 bytes and the name each, whose arrays workers share after a fork.

    Args:
        table: (n, 3) uint64: offset, size, CRC-32C or `NO_CHECKSUM`.
        names: n names.
    """

    def __init__(self, table: np.ndarray[Any, Any], names: list[str]) -> None:
        self.table = table
        self.names = names

    @classmethod
    def of(cls, members: list[Member]) -> Index:
        """The index of some members."""
        rows = [(m.offset, m.size, NO_CHECKSUM if m.checksum is None else m.checksum) for m in members]
        return cls(np.array(rows, dtype=np.uint64).reshape(-1, 3), [m.name for m in members])

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: int) -> Member:
        offset, size, checksum = self.table[place].tolist()
        return Member(self.names[place], offset, size, None if checksum == NO_CHECKSUM else checksum)

    def __iter__(self) -> Iterator[Member]:
        return (self[place] for place in range(len(self)))

    def to_bytes(self, shard_size: int) -> bytes:
        """The content of an index file."""
        text = json.dumps(self.names, ensure_ascii=False, separators=(",", ":")).encode()
        zstd = _zstd()
        kind, packed = (_ZLIB, zlib.compress(text, 6)) if zstd is None else (_ZSTD, zstd.compress(text))
        body = self.table.astype("<u8").tobytes() + packed
        return _HEADER.pack(_MAGIC, len(self), shard_size, crc32c(body), kind) + body

    @classmethod
    def from_bytes(cls, content: bytes | memoryview, shard_size: int | None = None) -> Index | None:
        """Read an index file; None where it is damaged, of another version, or of a shard of another size.

        Raises:
            ShardError: its names are compressed by Zstandard, which is not installed.
        """
        if len(content) < _HEADER.size:
            return None
        magic, count, size, checksum, kind = _HEADER.unpack_from(content)
        body = bytes(content[_HEADER.size :])
        if magic != _MAGIC or shard_size not in (None, size) or crc32c(body) != checksum:
            return None
        table = np.frombuffer(body, dtype="<u8", count=3 * count).astype(np.uint64).reshape(-1, 3)
        packed = body[24 * count :]
        if kind == _ZLIB:
            return cls(table, json.loads(zlib.decompress(packed)))
        zstd = _zstd()
        if zstd is None:
            raise ShardError("A shard's index is compressed by Zstandard. Run: pip install backports.zstd")
        return cls(table, json.loads(zstd.decompress(packed)))

    def write(self, shard: Path) -> None:
        """Write the index beside its shard."""
        write_atomic(index_path(shard), self.to_bytes(shard.stat().st_size))


def index_path(shard: Path) -> Path:
    """Where a shard's index lies."""
    return shard.with_name(shard.name + ".idx")


def _zstd() -> Any | None:
    """The module that packs Zstandard: of Python 3.14, or its backport."""
    from importlib import import_module

    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None
