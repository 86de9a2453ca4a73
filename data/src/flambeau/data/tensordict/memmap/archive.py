"""Archives: a saved TensorDict in one zip file, whose tensors are mapped where they lie.

The entries are the files of the folder layout. Tensors are stored without compression and begin at multiples of 64
bytes, which an extra block of id 0x6474 in front of them sees to; any program that reads zip files passes over it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import torch
from torch import Tensor

from flambeau.core.errors import UnsafeArchiveError
from flambeau.core.files import replace
from flambeau.data.tensordict.memmap import jsonable, nested
from flambeau.data.tensordict.memmap.commit import recover
from flambeau.data.tensordict.memmap.errors import LayoutError, MissingLayoutError, ReadOnlyError, TruncatedFileError
from flambeau.data.tensordict.memmap.files import room_for
from flambeau.data.tensordict.memmap.layout import META
from flambeau.data.tensordict.memmap.parallel import CHUNK_BYTES, raw_bytes
from flambeau.data.tensordict.memmap.saving import Plan, join

ALIGN = 64
_PAD_ID = 0x6474
_ZIP64_BLOCK = 20
_LOCAL = struct.Struct("<4s5H3L2H")
_METHODS = {
    None: zipfile.ZIP_STORED,
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def _method(compression: Any) -> int:
    if compression in _METHODS:
        return _METHODS[compression]
    if compression in _METHODS.values():
        return int(compression)
    raise ValueError(f"compression is {compression!r}; use {', '.join(repr(name) for name in _METHODS if name)}.")


class _Writer:
    """A zip file that appears when it is complete."""

    def __init__(self, path: str, compression: Any, level: int | None = None, *, fsync: bool = False) -> None:
        self.target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
        self.temporary = self.target.with_name(f".{self.target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        self.method, self.level, self.fsync = _method(compression), level, fsync

    def __enter__(self) -> _Writer:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.file: BinaryIO = self.temporary.open("xb")
        self.zip = zipfile.ZipFile(self.file, "w", self.method, allowZip64=True, compresslevel=self.level)
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        try:
            if kind is None:
                with room_for(str(self.target), 0):
                    self.zip.close()
                    self.file.flush()
                    if self.fsync:
                        os.fsync(self.file.fileno())
                self.file.close()
                replace(self.temporary, self.target)
        finally:
            with contextlib.suppress(OSError, ValueError):  # what is half written is thrown away
                self.zip.close()
            with contextlib.suppress(OSError):
                self.file.close()
            self.temporary.unlink(missing_ok=True)

    def add(self, name: str, parts: Iterator[Any], nbytes: int, *, aligned: bool) -> None:
        """Write an entry from pieces of bytes."""
        info = zipfile.ZipInfo(name, _now())
        info.compress_type = self.method
        info._compresslevel = self.level  # type: ignore[attr-defined]
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        info.create_system = 3
        if aligned and self.method == zipfile.ZIP_STORED:
            start = self.file.tell() + _LOCAL.size + len(name.encode()) + _ZIP64_BLOCK
            if start % ALIGN:
                padding = (-start - 4) % ALIGN
                info.extra = struct.pack("<HH", _PAD_ID, padding) + bytes(padding)
        info.file_size = nbytes
        with room_for(str(self.target), nbytes), self.zip.open(info, "w", force_zip64=True) as entry:
            for part in parts:
                entry.write(part)


def _now() -> Any:
    import time

    return time.localtime()[:6]


def write(path: str, plan: Plan, compression: Any, *, fsync: bool = False) -> None:
    """Write what a plan lists into an archive, which replaces one that is there when it is complete."""
    with _Writer(path, compression, fsync=fsync) as writer:
        for folder, meta in sorted(plan.metas, key=lambda item: item[0]):
            text = jsonable.dumps(meta)
            writer.add(join(folder, META), iter([text]), len(text), aligned=False)
        for name, data in plan.blobs:
            writer.add(name, iter([data]), len(data), aligned=False)
        for leaf in plan.leaves:
            parts = _zeros(leaf.nbytes) if leaf.tensor is None else iter([raw_bytes(leaf.tensor)])
            writer.add(leaf.path, parts, leaf.nbytes, aligned=True)


def _zeros(nbytes: int) -> Iterator[bytes]:
    piece = bytes(min(nbytes, CHUNK_BYTES))
    for start in range(0, nbytes, CHUNK_BYTES):
        yield piece[: nbytes - start]


class ArchiveSource:
    """The files in an archive, mapped once.

    Args:
        path: the zip file.
        mode: "r" and "c" keep writes to this process, "r+" writes to the file.

    Raises:
        LayoutError: it is no zip file.
    """

    def __init__(self, path: str, mode: str = "c") -> None:
        self.name, self.mode = path, mode
        try:
            with zipfile.ZipFile(path) as archive:
                self.entries = {info.filename: info for info in archive.infolist()}
        except zipfile.BadZipFile as error:
            raise LayoutError(f"{path} is no archive ({error}); restore it, or save the TensorDict again.") from error
        nbytes = Path(path).stat().st_size
        storage: Any = torch.UntypedStorage.from_file(path, mode == "r+", nbytes)
        self.storage = storage
        self.memory = torch.empty(0, dtype=torch.uint8).set_(storage)

    def has(self, path: str) -> bool:
        """Whether there is such an entry."""
        return path in self.entries

    def where(self, path: str) -> str:
        """How messages call an entry."""
        return f"{self.name}!{path}"

    def read(self, path: str) -> bytes | None:
        """An entry's content, None where there is none."""
        if path not in self.entries:
            return None
        try:
            with zipfile.ZipFile(self.name) as archive:
                return archive.read(path)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise LayoutError(
                f"{self.where(path)} is damaged ({error}); restore the archive, or save it again."
            ) from error

    def tensor(self, path: str, dtype: torch.dtype, shape: torch.Size, sizes: Tensor | None) -> Tensor:
        """The tensor in an entry: a view of the map where it lies at a multiple of its elements' size, else a copy."""
        if sizes is not None:
            flat = self.tensor(path, dtype, torch.Size([nested.numel(sizes)]), None)
            return nested.from_entries(flat, sizes)
        nbytes = shape.numel() * dtype.itemsize
        if nbytes == 0:
            return torch.empty(shape, dtype=dtype)
        info = self.entries.get(path)
        if info is None:
            raise MissingLayoutError(f"{self.where(path)} is missing; {nbytes:,} bytes were expected. Save it again.")
        if info.file_size < nbytes:
            raise TruncatedFileError(
                f"{self.where(path)} holds {info.file_size:,} bytes, but its shape and dtype need {nbytes:,}."
            )
        if info.compress_type == zipfile.ZIP_STORED:
            start = data_offset(self.memory, info, self.name)
            if start % dtype.itemsize == 0:
                return torch.empty(0, dtype=dtype).set_(self.storage, start // dtype.itemsize, shape)  # type: ignore[call-overload]  # torch lacks it
            if self.mode != "r+":
                return self.memory[start : start + nbytes].clone().view(dtype).view(shape)
        if self.mode == "r+":
            raise ReadOnlyError(
                f"{self.where(path)} is compressed or not aligned, and cannot be written in place; load with "
                'mode="c", or pack the archive again without compression.'
            )
        data = self.read(path)
        assert data is not None
        return torch.frombuffer(bytearray(data), dtype=dtype, count=shape.numel()).view(shape)


def data_offset(memory: Tensor, info: zipfile.ZipInfo, where: str) -> int:
    """Where an entry's content begins in the archive."""
    header = bytes(memory[info.header_offset : info.header_offset + _LOCAL.size].numpy())
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise LayoutError(f"{where} is damaged: entry {info.filename} has no header where its index points.")
    fields = _LOCAL.unpack(header)
    start = info.header_offset + _LOCAL.size + fields[9] + fields[10]
    if start + info.compress_size > len(memory):
        raise TruncatedFileError(f"{where} is cut short: entry {info.filename} goes beyond its end.")
    return int(start)


def is_memmap_archive(path: str | Path) -> bool:
    """Whether a file is an archive of a saved TensorDict: a zip file with a `meta.json` at its top."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return META in archive.namelist()


def pack_memmap(
    prefix: str | Path,
    archive_path: str | Path,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
) -> Path:
    """Pack the folder of a saved TensorDict into an archive.

    Args:
        prefix: the folder.
        archive_path: the file to write, outside the folder; one that exists is replaced when the new is complete.
        compression: "stored" (default, can be mapped), "deflate", "bzip2" or "lzma".
        compresslevel: as `zipfile` takes it.

    Returns:
        The archive's path.

    Raises:
        MissingLayoutError: the folder holds no complete TensorDict.
        ValueError: the archive would lie in the folder.
    """
    root, target = Path(prefix), Path(archive_path)
    recover(root)
    if not (root / META).is_file():
        raise MissingLayoutError(
            f"{root / META} is missing: no TensorDict was saved there, or its writer did not finish."
        )
    if target.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{target} lies in the folder {root} that is packed; choose a place outside.")
    with _Writer(str(target), compression, compresslevel) as writer:
        for path in _files(root):
            name = path.relative_to(root).as_posix()
            writer.add(name, _chunks(path), path.stat().st_size, aligned=path.suffix == ".memmap")
    return target


def _files(root: Path) -> list[Path]:
    """The files of a saved TensorDict, records first; what a writer left behind, and links, stay out."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".flambeau-"))
        found += [Path(folder, name) for name in names if not name.endswith(".tmp")]
    found = [path for path in found if path.is_file() and not path.is_symlink()]
    return sorted(found, key=lambda path: (path.suffix == ".memmap", path))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def unpack_memmap(archive_path: str | Path, prefix: str | Path) -> Path:
    """Unpack an archive into a folder, which `load_memmap` then maps.

    Args:
        archive_path: the archive.
        prefix: the folder to write; one that holds a TensorDict is replaced file by file, its `meta.json` last.

    Returns:
        The folder's path.

    Raises:
        UnsafeArchiveError: an entry would be written outside the folder.
        LayoutError: it is no archive of a TensorDict.
    """
    if not is_memmap_archive(archive_path):
        raise LayoutError(f"{archive_path} is no archive of a TensorDict: a zip file with {META} at its top.")
    root = Path(prefix)
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive_path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        for info in infos:
            _check_name(info, archive_path)
        (root / META).unlink(missing_ok=True)
        for info in sorted(infos, key=lambda info: (info.filename.endswith(META), -info.filename.count("/"))):
            target = root / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.parent.resolve().is_relative_to(root.resolve()):
                raise UnsafeArchiveError(f"{target.parent} is a link that leaves {root}; remove it.")
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            with archive.open(info) as source, room_for(str(target), info.file_size), temporary.open("wb") as file:
                while piece := source.read(CHUNK_BYTES):
                    file.write(piece)
            temporary.replace(target)
    return root


def _check_name(info: zipfile.ZipInfo, archive: Any) -> None:
    name = PurePosixPath(info.filename)
    bad = name.is_absolute() or ".." in name.parts or "\\" in info.filename or info.filename[1:2] == ":"
    if bad or stat.S_ISLNK(info.external_attr >> 16):
        raise UnsafeArchiveError(
            f"{archive}: entry {info.filename!r} would leave the folder or is a link; nothing was unpacked."
        )


def refresh_archive_checksums(archive_path: str | Path) -> Path:
    """Write the checksums anew after tensors of an archive were written in place (`mode="r+"`).

    Zip programs check them; `load_memmap` does not.

    Returns:
        The archive's path.

    Raises:
        LayoutError: it is no archive.
    """
    path = Path(archive_path)
    source = ArchiveSource(str(path), "c")
    patches: list[tuple[int, bytes]] = []
    with zipfile.ZipFile(path) as archive:
        position = archive.start_dir
    for info in source.entries.values():
        if info.compress_type == zipfile.ZIP_STORED:
            start = data_offset(source.memory, info, str(path))
            crc = _crc(source.memory[start : start + info.file_size])
            patches += [(info.header_offset + 14, crc), (position + 16, crc)]
        lengths = struct.unpack("<3H", bytes(source.memory[position + 28 : position + 34].numpy()))
        position += 46 + sum(lengths)
    with path.open("r+b") as file:
        for offset, crc in patches:
            file.seek(offset)
            file.write(crc)
    return path


def _crc(data: Tensor) -> bytes:
    value = 0
    for start in range(0, len(data), CHUNK_BYTES):
        piece: Any = data[start : start + CHUNK_BYTES].numpy()
        value = zlib.crc32(piece, value)
    return struct.pack("<L", value)
