"""TFRecord files as shards."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import numpy as np

from flambeau.data._crc32c import masked_crc32c
from flambeau.data.shards.bytes_source import BytesSource
from flambeau.data.shards.errors import DamagedShardError
from flambeau.data.shards.shard import Shard

_LENGTH = struct.Struct("<QI")
_CHECK = struct.Struct("<I")


class TFRecordShard(Shard):
    """Records of a TFRecord file, at random: `{"__key__": "7", "record": b"..."}`.

    A record is framed by its length (u64) with a masked CRC-32C, and the content's CRC behind it. The frames are gone
    through once.

    Args:
        path: file or URL.
        verify: compare contents with their checksums. Lengths are always checked.
        settings: keywords of `open_object`, for URLs.
    """

    def __init__(self, path: Any, *, verify: bool = True, settings: dict[str, Any] | None = None) -> None:
        super().__init__(BytesSource(path, settings))
        self._verify = verify
        self._table: np.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self._records())

    def read(self, item: int) -> dict[str, Any]:
        """As `Shard.read`."""
        offset, size = self._records()[item].tolist()
        framed = self.source.read(offset, offset + size + 4)
        content = framed[:size]
        if self._verify and _CHECK.unpack(framed[size:])[0] != masked_crc32c(content):
            raise DamagedShardError(self.path, offset, f"the checksum of record {item} does not fit", item)
        return {"__key__": str(item), "record": bytes(content)}

    def salvage(self) -> int:
        """As `Shard.salvage`."""
        found: list[tuple[int, int]] = []
        with contextlib.suppress(DamagedShardError):
            found.extend(self._frames())  # what came before the error stays
        self._table = np.array(found, dtype=np.int64).reshape(-1, 2)
        return len(found)

    def _records(self) -> np.ndarray[Any, Any]:
        if self._table is None:
            self._table = np.array(list(self._frames()), dtype=np.int64).reshape(-1, 2)
        return self._table

    def _frames(self) -> Any:
        place, size = 0, self.source.size
        while place < size:
            head = bytes(self.source.read(place, place + _LENGTH.size))
            if len(head) < _LENGTH.size:
                raise DamagedShardError(self.path, place, "the file ends inside a record's length")
            length, check = _LENGTH.unpack(head)
            if masked_crc32c(head[:8]) != check:
                raise DamagedShardError(self.path, place, "the checksum of a record's length does not fit")
            content = place + _LENGTH.size
            if content + length + 4 > size:
                raise DamagedShardError(self.path, content, "the file ends inside a record")
            yield content, length
            place = content + length + 4
