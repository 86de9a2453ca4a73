"""Reading archives as a sequence of members: tar, zip, and single compressed files, told apart by content.

Nothing is judged here; `archives` decides what may be written. What cannot be read comes out as `HubError`.
"""

from __future__ import annotations

import contextlib
import importlib
import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from flambeau.core.errors import HubError, UnsafeArchiveError

BLOCK = 1 << 20
_TAR_BLOCK = 512
# Headers with long names and attributes are read in one go; no honest one comes near this.
_LARGEST_HEADER = 16 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma", b"\x28\xb5\x2f\xfd": "zstd"}
_ZIP_HEADER = 30  # the fixed part of what precedes an entry's data
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_SUFFIX = re.compile(r"\.(tar|zip|(tar\.)?(gz|bz2|xz|zst)|t[bgx]z2?)$", re.IGNORECASE)
_TAR_SUFFIX = re.compile(r"\.(tar(\.\w+)?|t[bgx]z2?)$", re.IGNORECASE)

Kind = Literal["file", "folder", "symlink", "hardlink", "other"]


@dataclass(frozen=True)
class Member:
    """One thing in an archive. `open` works until the next member is asked for.

    `size` is what the archive claims, None where it claims nothing. `link` is where a link points, as written.
    """

    name: str
    kind: Kind
    open: Callable[[], IO[bytes]]
    size: int | None = None
    link: str = ""
    executable: bool = False
    tar: tarfile.TarInfo | None = None


def bare_name(path: Path) -> str:
    """An archive's name without its suffix."""
    return _SUFFIX.sub("", path.name) or path.name


def members(path: Path, most_bytes: int) -> Iterator[Member]:
    """Go through an archive once.

    Args:
        path: the archive.
        most_bytes: stop reading after so many uncompressed bytes.

    Raises:
        HubError: not an archive of a known kind, or encrypted. What damage raises depends on the kind; see `readable`.
        UnsafeArchiveError: more than `most_bytes` come out.
    """
    with path.open("rb") as file:
        head = file.read(_TAR_BLOCK)
        file.seek(0)
        if head.startswith(_ZIP_MAGIC):
            yield from _zip(file)
            return
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
        if kind is None and not _is_tar(head, path):
            raise HubError(f"{path} is not an archive that can be read; expected tar, zip, gz, bz2, xz or zst.")
        with _Metered(file if kind is None else _decompressed(kind, file, path), most_bytes) as stream:
            if _is_tar(stream.peek(), path):
                yield from _tar(stream)
            else:
                yield Member(bare_name(path), "file", lambda: cast("IO[bytes]", contextlib.nullcontext(stream)))


def _is_tar(head: bytes, path: Path) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, tarfile.ENCODING, "surrogateescape")
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # a tar with nothing in it, or a file of zeros
        return _TAR_SUFFIX.search(path.name) is not None
    except tarfile.HeaderError:
        return False
    return True


class _Metered:
    """A stream that is read forward, counts what comes out, and refuses to hand out too much, at once or in all."""

    def __init__(self, stream: IO[bytes], most_bytes: int) -> None:
        self.stream, self.most_bytes = stream, most_bytes
        self.position, self.last, self._ahead = 0, b"", b""

    def peek(self) -> bytes:
        self._ahead = self.stream.read(_TAR_BLOCK)
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_HEADER:
            raise UnsafeArchiveError(
                f"the archive has a header of {size:,} bytes; at most {_LARGEST_HEADER:,} is sane."
            )
        block, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(block) < size:
            block += self.stream.read(size - len(block))
        self.position += len(block)
        if self.position > self.most_bytes:
            raise UnsafeArchiveError(f"it unpacks to more than {self.most_bytes:,} bytes.")
        self.last = block
        return block

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> int:
        if position < self.position:
            raise tarfile.ReadError("it points backwards")
        while self.position < position and self.read(min(BLOCK, position - self.position)):
            pass
        return self.position

    def __enter__(self) -> _Metered:
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.close()


def _tar(stream: _Metered) -> Iterator[Member]:
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:") as tar:
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # or millions of members would be kept for a look back that never comes
            yield _tar_member(tar, info)
        # `tarfile` takes anything it cannot read for the end; the true end is a block of zeros.
        if stream.last != bytes(_TAR_BLOCK):
            raise tarfile.ReadError("it ends without an end mark")


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    kinds: list[tuple[bool, Kind]] = [
        (info.isreg(), "file"), (info.isdir(), "folder"), (info.issym(), "symlink"), (info.islnk(), "hardlink"),
    ]  # fmt: skip
    kind: Kind = next((kind for matches, kind in kinds if matches), "other")

    def open_() -> IO[bytes]:
        return cast("IO[bytes]", tar.extractfile(info))

    return Member(info.name, kind, open_, info.size, info.linkname, bool(info.mode & 0o100), info)


def _zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _refuse_overlap(entries)
        for entry in entries:
            yield _zip_member(archive, entry)


def _refuse_overlap(entries: list[zipfile.ZipInfo]) -> None:
    """Bytes that many entries share are how small zips become enormous (Fifield 2019, "A better zip bomb")."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise UnsafeArchiveError(f"its entry {entry.orig_filename!r} overlaps the one before it.")
        end = entry.header_offset + _ZIP_HEADER + entry.compress_size


def _zip_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Member:
    if entry.flag_bits & 1:
        raise HubError(
            f"{archive.filename}: {entry.orig_filename!r} is encrypted; unpack it by hand with its password."
        )
    mode = entry.external_attr >> 16
    kinds: dict[int, Kind] = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink"}
    kind: Kind = kinds.get(stat.S_IFMT(mode), "other")
    if kind == "file" and entry.is_dir():
        kind = "folder"
    link = archive.open(entry).read(4096).decode("utf-8", "surrogateescape") if kind == "symlink" else ""
    # `filename` stops at a NUL and has separators rewritten; what the archive really says is judged.
    return Member(entry.orig_filename, kind, lambda: archive.open(entry), entry.file_size, link, bool(mode & 0o100))


def _decompressed(kind: str, file: IO[bytes], path: Path) -> IO[bytes]:
    if kind != "zstd":
        return cast("IO[bytes]", importlib.import_module(kind).open(file, "rb"))
    for module in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            return cast("IO[bytes]", importlib.import_module(module).open(file, "rb"))
    raise HubError(f"{path} is compressed with zstd. Run: pip install backports.zstd")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the readers' many ways to fail into one.

    Raises:
        HubError: the archive is damaged.
    """
    damaged = (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, UnicodeError,
        NotImplementedError, OverflowError,
    )  # fmt: skip
    try:
        yield
    except (*damaged, OSError) as error:
        # The decompressors raise bare OSErrors about data; those with a number are the system's.
        if isinstance(error, HubError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise HubError(f"{path} is damaged or truncated ({error}); remove it and fetch it again.") from error
