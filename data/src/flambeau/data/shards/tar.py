"""Tar archives as shards, as webdataset has it: files in a row that share a name up to its first dot are a sample."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from flambeau.data._crc32c import crc32c
from flambeau.data.shards.bytes_source import BytesSource
from flambeau.data.shards.errors import DamagedShardError
from flambeau.data.shards.index import Index, Member, index_path
from flambeau.data.shards.shard import Shard

BLOCK = 512
_FILES = b"0\0"
_STRETCH = 1 << 20  # read of a remote archive at a time while its headers are looked for


class TarShard(Shard):
    """Samples of a tar archive, at random.

    The index beside the archive is used where it fits; else one is made by going through the headers. A sample is a
    dictionary of `__key__` and, for each of its files, what follows the first dot of the name: `{"__key__": "train/7",
    "jpg": b"...", "cls": b"3"}`.

    Args:
        path: file or URL of an uncompressed archive.
        verify: compare contents with the index's checksums, where it has them.
        settings: keywords of `open_object`, for URLs.
    """

    def __init__(self, path: Any, *, verify: bool = True, settings: dict[str, Any] | None = None) -> None:
        super().__init__(BytesSource(path, settings))
        self._verify = verify
        self._index: Index | None = None
        self._groups: list[tuple[str, int, int]] | None = None

    @property
    def index(self) -> Index:
        """Where each file lies."""
        if self._index is None:
            self._index = self._stored_index() or Index.of(list(members(self.source)))
        return self._index

    def __len__(self) -> int:
        return len(self._samples())

    def read(self, item: int) -> dict[str, Any]:
        """As `Shard.read`."""
        key, first, stop = self._samples()[item]
        files = [self.index[place] for place in range(first, stop)]
        start = files[0].offset
        content = self.source.read(start, files[-1].offset + files[-1].size)
        sample: dict[str, Any] = {"__key__": key}
        for file in files:
            part = content[file.offset - start : file.offset - start + file.size]
            if len(part) < file.size:
                raise DamagedShardError(self.path, file.offset, f"{file.name!r} is cut off", item)
            if self._verify and file.checksum is not None and crc32c(part) != file.checksum:
                raise DamagedShardError(self.path, file.offset, f"the checksum of {file.name!r} does not fit", item)
            sample[_split(file.name)[1]] = bytes(part)
        return sample

    def salvage(self) -> int:
        """As `Shard.salvage`."""
        found: list[Member] = []
        with contextlib.suppress(DamagedShardError):
            found.extend(members(self.source))  # what came before the error stays
        self._groups = group([member.name for member in found])[:-1]  # the last one may lack files
        self._index = Index.of(found)
        return len(self._groups)

    def _samples(self) -> list[tuple[str, int, int]]:
        if self._groups is None:
            self._groups = group(self.index.names)
        return self._groups

    def _stored_index(self) -> Index | None:
        source = BytesSource(str(index_path(Path(self.path))) if not self.remote else self.path + ".idx", self.settings)
        try:
            content = source.whole()
        except OSError:  # there is none
            return None
        return Index.from_bytes(content, self.source.size)


def group(names: list[str]) -> list[tuple[str, int, int]]:
    """Samples of consecutive names: (key, first, one behind the last). Names without a dot are of no sample."""
    samples = []
    numbered = ((place, *_split(name)) for place, name in enumerate(names))
    for (key, has_kind), run in groupby(numbered, key=lambda one: (one[1], bool(one[2]))):
        places = [place for place, _, _ in run]
        if has_kind:
            samples.append((key, places[0], places[-1] + 1))
    return samples


def _split(name: str) -> tuple[str, str]:
    folder, slash, base = name.rpartition("/")
    stem, _, kind = base.partition(".")
    return folder + slash + stem, kind


def members(source: BytesSource) -> Iterator[Member]:
    """The regular files of a tar archive (POSIX ustar and pax, GNU long names), in order.

    Raises:
        DamagedShardError: a header is no header, or the archive ends early.
    """
    window = _Window(source)
    place, size = 0, source.size
    name: str | None = None
    length: int | None = None
    while place < size:
        header = bytes(window.read(place, BLOCK))
        if header == bytes(BLOCK):
            return
        _check_header(source.path, place, header)
        content = place + BLOCK
        extent = _number(header[124:136]) if length is None else length
        kind = header[156:157]
        place = content + -(-extent // BLOCK) * BLOCK
        if kind in (b"L", b"x", b"g"):
            record = bytes(window.read(content, extent))
            if kind == b"L":
                name = record.rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif kind == b"x":
                fields = _pax(record)
                name = fields.get("path", name)
                length = int(fields["size"]) if "size" in fields else length
            continue
        if kind in (b"0", b"\0", b"7"):
            if content + extent > size:
                raise DamagedShardError(source.path, content, f"the archive ends inside {_name(header)!r}")
            yield Member(name or _name(header), content, extent)
        name = length = None
    raise DamagedShardError(source.path, size, "the archive's end mark is missing, so files may be")


class _Window:
    """Small reads of a remote archive, served by large ones."""

    def __init__(self, source: BytesSource) -> None:
        self._source = source
        self._start = 0
        self._held = memoryview(b"")

    def read(self, start: int, length: int) -> memoryview:
        if start < self._start or start + length > self._start + len(self._held):
            self._start, self._held = start, self._source.read(start, start + max(length, _STRETCH))
        return self._held[start - self._start : start - self._start + length]


def _check_header(path: str, place: int, header: bytes) -> None:
    if len(header) < BLOCK:
        raise DamagedShardError(path, place, "the archive ends inside a header")
    found = sum(header) - sum(header[148:156]) + 8 * 0x20
    try:
        stored = int(header[148:156].split(b"\0")[0].strip() or b"0", 8)
    except ValueError:
        stored = -1
    if found != stored:
        raise DamagedShardError(path, place, "this is no header of a tar archive, its checksum does not fit")


def _number(digits: bytes) -> int:
    if digits[0] & 0x80:  # GNU: binary, for sizes that eleven octal digits cannot say
        return int.from_bytes(bytes([digits[0] & 0x7F]) + digits[1:], "big")
    return int(digits.strip(b" \0") or b"0", 8)


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")


def _pax(record: bytes) -> dict[str, str]:
    fields = {}
    while record:
        digits, _, rest = record.partition(b" ")
        length = int(digits)
        key, _, value = rest[: length - len(digits) - 2].partition(b"=")
        fields[key.decode()] = value.decode("utf-8", "surrogateescape")
        record = record[length:]
    return fields
