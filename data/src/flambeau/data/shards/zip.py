"""Zip archives as shards, after the convention of tar shards."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any

from flambeau.data.shards.bytes_source import BytesSource
from flambeau.data.shards.errors import DamagedShardError
from flambeau.data.shards.shard import Shard
from flambeau.data.shards.tar import _split, group

_LOCAL = struct.Struct("<4s5H3I2H")


class ZipShard(Shard):
    """Samples of a zip archive, at random: its directory is the index. Files are stored or deflated.

    Args:
        path: file or URL.
        verify: compare contents with the archive's checksums.
        settings: keywords of `open_object`, for URLs.
    """

    def __init__(self, path: Any, *, verify: bool = True, settings: dict[str, Any] | None = None) -> None:
        super().__init__(BytesSource(path, settings))
        self._verify = verify
        self._files: list[zipfile.ZipInfo] | None = None
        self._groups: list[tuple[str, int, int]] = []

    def __len__(self) -> int:
        self._open()
        return len(self._groups)

    def read(self, item: int) -> dict[str, Any]:
        """As `Shard.read`."""
        files = self._open()
        key, first, stop = self._groups[item]
        sample: dict[str, Any] = {"__key__": key}
        for file in files[first:stop]:
            sample[_split(file.filename)[1]] = self._content(file, item)
        return sample

    def _open(self) -> list[zipfile.ZipInfo]:
        if self._files is None:
            try:
                with self._as_file() as file, zipfile.ZipFile(file) as archive:
                    files = [info for info in archive.infolist() if not info.is_dir()]
            except zipfile.BadZipFile as error:
                raise DamagedShardError(
                    self.path, self.source.size, f"no directory of a zip archive ({error})"
                ) from error
            self._groups = group([info.filename for info in files])
            self._files = files
        return self._files

    def _as_file(self) -> Any:
        if self.remote:
            from flambeau.data.storage import open_object

            return open_object(self.path, **self.settings)
        return open(self.path, "rb")  # noqa: PTH123 - a plain file, closed by the caller

    def _content(self, file: zipfile.ZipInfo, item: int) -> bytes:
        start = file.header_offset
        header = bytes(self.source.read(start, start + _LOCAL.size))
        if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise DamagedShardError(self.path, start, f"no header of {file.filename!r}", item)
        *_, name_length, extra_length = _LOCAL.unpack(header)
        begin = start + _LOCAL.size + name_length + extra_length
        packed = self.source.read(begin, begin + file.compress_size)
        try:
            content = _unpack(file, packed)
        except (zlib.error, ValueError) as error:
            raise DamagedShardError(
                self.path, begin, f"{file.filename!r} cannot be unpacked ({error})", item
            ) from error
        if self._verify and zlib.crc32(content) != file.CRC:
            raise DamagedShardError(self.path, begin, f"the checksum of {file.filename!r} does not fit", item)
        return content


def _unpack(file: zipfile.ZipInfo, packed: memoryview) -> bytes:
    if file.compress_type == zipfile.ZIP_STORED:
        return bytes(packed)
    if file.compress_type == zipfile.ZIP_DEFLATED:
        return zlib.decompress(packed, -15)
    raise ValueError(f"compression type {file.compress_type}; expected stored or deflated")
