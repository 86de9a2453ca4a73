"""Members of archives, and compressed files opened."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import PurePath
from typing import Any

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.iter.files import SizedByHand
from flambeau.data.datapipes.utils.streams import StreamWrapper, reopened


def _joined(archive: str, member: str) -> str:
    """A member's path: below the archive's."""
    return PurePath(archive, member).as_posix()


def _recipe(archive: Any) -> Any:
    return archive.recipe if isinstance(archive, StreamWrapper) else None


class _Archive(SizedByHand, Expanding[tuple[str, StreamWrapper]]):
    """Base: subclasses define `_members`."""

    def __init__(self, datapipe: Iterable[tuple[str, Any]], length: int = -1) -> None:
        self.datapipe = datapipe
        self.source_datapipe = datapipe
        self.length = length

    def _expand(self, item: tuple[str, Any]) -> Iterator[tuple[str, StreamWrapper]]:
        path, stream = item
        archive = stream if isinstance(stream, StreamWrapper) else StreamWrapper(stream, name=path)
        try:
            yield from self._members(path, archive)
        finally:
            archive.autoclose()

    def _members(self, path: str, archive: StreamWrapper) -> Iterator[tuple[str, StreamWrapper]]:
        raise NotImplementedError(f"{type(self).__qualname__} has to define _members.")


@functional_datapipe("load_from_tar")
class TarArchiveLoaderIterDataPipe(_Archive):
    """Files in tar archives (functional name: `load_from_tar`).

    Args:
        datapipe: source of `(path, stream of bytes)`.
        mode: as for `tarfile.open`: `"r:*"` for archives that can be sought, `"r|*"` for streams; members of a stream
            have to be read before the next one is asked for. A stream that cannot seek is read as one in either mode.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path of the archive / name of the member, stream)`.
    """

    def __init__(self, datapipe: Iterable[tuple[str, Any]], mode: str = "r:*", length: int = -1) -> None:
        super().__init__(datapipe, length)
        self.mode = mode

    def _members(self, path: str, archive: StreamWrapper) -> Iterator[tuple[str, StreamWrapper]]:
        recipe = _recipe(archive)
        # Not closed here: members of a compressed archive are read through it, by whoever holds them. What has to be
        # closed is the archive's own stream, which ends with its last member.
        tar = _opened_tar(archive, self.mode)
        for number, member in enumerate(tar):
            if not member.isfile():
                continue
            stream = tar.extractfile(member)
            how = None if recipe is None else (open_tar_member, recipe, self.mode, number)
            name = _joined(path, member.name)
            yield name, StreamWrapper(stream, archive, name=name, recipe=how)
            if _streamed(archive, self.mode):
                # A stream may be endless, and tarfile would keep every header.
                tar.members.clear()  # type: ignore[attr-defined]


def _streamed(archive: StreamWrapper, mode: str) -> bool:
    return "|" in mode or not _seekable(archive)


def _seekable(stream: Any) -> bool:
    try:
        return bool(stream.seekable())
    except AttributeError:
        return False


def _opened_tar(archive: StreamWrapper, mode: str) -> tarfile.TarFile:
    if _streamed(archive, mode) and "|" not in mode:
        mode = mode.replace(":", "|") if ":" in mode else f"{mode}|*"
    return tarfile.open(fileobj=archive.file_obj, mode=mode)  # type: ignore[call-overload]


def open_tar_member(recipe: Any, mode: str, number: int) -> StreamWrapper:
    """The member of a number in a tar archive that is opened anew."""
    archive = reopened(recipe)
    tar = _opened_tar(archive, mode)
    for index, member in enumerate(tar):
        if index == number:
            return _only_child(tar.extractfile(member), archive, member.name)
    raise ValueError(f"{archive!r} has no member number {number}: the archive has changed since the state was taken.")


@functional_datapipe("load_from_zip")
class ZipArchiveLoaderIterDataPipe(_Archive):
    """Files in zip archives (functional name: `load_from_zip`).

    Args:
        datapipe: source of `(path, stream of bytes)`; the streams can be sought.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path of the archive / name of the member, stream)`.
    """

    def _members(self, path: str, archive: StreamWrapper) -> Iterator[tuple[str, StreamWrapper]]:
        recipe = _recipe(archive)
        with zipfile.ZipFile(archive.file_obj) as opened:
            for member in opened.infolist():
                if member.is_dir():
                    continue
                how = None if recipe is None else (open_zip_member, recipe, member.filename)
                name = _joined(path, member.filename)
                yield name, StreamWrapper(opened.open(member), archive, name=name, recipe=how)


def open_zip_member(recipe: Any, name: str) -> StreamWrapper:
    """A member of a zip archive that is opened anew."""
    archive = reopened(recipe)
    return _only_child(zipfile.ZipFile(archive.file_obj).open(name), archive, name)


def _only_child(stream: Any, archive: StreamWrapper, name: str) -> StreamWrapper:
    made = StreamWrapper(stream, archive, name=name)
    archive.autoclose()
    return made


@functional_datapipe("load_from_rar")
class RarArchiveLoaderIterDataPipe(_Archive):
    """Files in rar archives (functional name: `load_from_rar`).

    Needs the package rarfile and, for members that are compressed, one of the programs that it unpacks with (unrar,
    unar, 7z or bsdtar).

    Args:
        datapipe: source of `(path, stream of bytes)`.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path of the archive / name of the member, stream)`.

    Raises:
        ModuleNotFoundError: rarfile is not installed.
    """

    def __init__(self, datapipe: IterDataPipe[tuple[str, Any]], *, length: int = -1) -> None:
        if importlib.util.find_spec("rarfile") is None:
            raise ModuleNotFoundError("load_from_rar reads with rarfile; install it: pip install 'flambeau-data[rar]'")
        super().__init__(datapipe, length)

    def _members(self, path: str, archive: StreamWrapper) -> Iterator[tuple[str, StreamWrapper]]:
        import rarfile

        recipe = _recipe(archive)
        # Given the path rather than the stream, the tool reads a member without a temporary copy of the archive.
        opened = rarfile.RarFile(path if PurePath(path).suffix and _is_file(path) else archive.file_obj)
        for member in opened.infolist():
            if member.is_dir():
                continue
            how = None if recipe is None else (open_rar_member, path, recipe, member.filename)
            name = _joined(path, member.filename)
            yield name, StreamWrapper(opened.open(member), archive, name=name, recipe=how)


def _is_file(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_file()


def open_rar_member(path: str, recipe: Any, name: str) -> StreamWrapper:
    """A member of a rar archive that is opened anew."""
    import rarfile

    archive = reopened(recipe)
    return _only_child(rarfile.RarFile(path if _is_file(path) else archive.file_obj).open(name), archive, name)


class CompressionType(Enum):
    """How a file is compressed, or which archive it is."""

    GZIP = "gzip"
    LZMA = "lzma"
    TAR = "tar"
    ZIP = "zip"
    BZIP2 = "bz2"
    ZSTD = "zstd"


_BY_SUFFIX = {
    ".gz": CompressionType.GZIP,
    ".xz": CompressionType.LZMA,
    ".lzma": CompressionType.LZMA,
    ".bz2": CompressionType.BZIP2,
    ".tar": CompressionType.TAR,
    ".zip": CompressionType.ZIP,
    ".zst": CompressionType.ZSTD,
    ".zstd": CompressionType.ZSTD,
}


_OF_TARS = (CompressionType.GZIP, CompressionType.LZMA, CompressionType.BZIP2)  # what tarfile opens itself


def _zstd(stream: Any) -> Any:
    try:
        from compression import zstd  # Python 3.14
    except ModuleNotFoundError:
        try:
            from backports import zstd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("zstd files need a reader; install it: pip install backports.zstd") from error
    return zstd.ZstdFile(stream)


_OPENERS: dict[CompressionType, Callable[[Any], Any]] = {
    CompressionType.GZIP: lambda stream: gzip.GzipFile(fileobj=stream),
    CompressionType.LZMA: lzma.LZMAFile,
    CompressionType.TAR: lambda stream: tarfile.open(fileobj=stream, mode="r:*"),  # noqa: SIM115  # the reader closes it
    CompressionType.ZIP: zipfile.ZipFile,
    CompressionType.BZIP2: bz2.BZ2File,
    CompressionType.ZSTD: _zstd,
}


@functional_datapipe("decompress")
class DecompressorIterDataPipe(IterDataPipe[tuple[str, StreamWrapper]]):
    """Opens compressed files (functional name: `decompress`).

    Args:
        source_datapipe: source of `(path, stream of bytes)`.
        file_type: "gzip", "lzma", "bz2", "zstd", "tar" or "zip", or the member of `CompressionType`; by the path's
            ending when None. A path that ends in ".tar.gz" or the like is a tar archive.

    Yields:
        `(path, stream)`. For "tar" the stream wraps the `tarfile.TarFile`, for "zip" the `zipfile.ZipFile`.

    Raises:
        RuntimeError: while iterating, for a path without a known ending.
    """

    state_fields = ()
    types = CompressionType

    def __init__(
        self, source_datapipe: IterDataPipe[tuple[str, Any]], file_type: str | CompressionType | None = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.file_type = CompressionType(file_type.lower()) if isinstance(file_type, str) else file_type

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path, stream in self.source_datapipe:
            kind = self.file_type or self._kind(path)
            recipe = _recipe(stream)
            how = None if recipe is None else (open_compressed, recipe, kind.value)
            yield path, _decompressed(stream, kind, path, how)

    def _kind(self, path: str) -> CompressionType:
        suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
        if suffixes[-2:-1] == [".tar"] and _BY_SUFFIX.get(suffixes[-1]) in _OF_TARS:
            return CompressionType.TAR
        suffix = suffixes[-1] if suffixes else ""
        if suffix not in _BY_SUFFIX:
            known = ", ".join(_BY_SUFFIX)
            raise RuntimeError(f"decompress: {path!r} does not end like a compressed file ({known}); give file_type.")
        return _BY_SUFFIX[suffix]


def _decompressed(stream: Any, kind: CompressionType, name: str | None, recipe: Any) -> StreamWrapper:
    parent = stream if isinstance(stream, StreamWrapper) else None
    inner = stream.file_obj if isinstance(stream, StreamWrapper) else stream
    made = StreamWrapper(_OPENERS[kind](inner), parent, name=name, recipe=recipe)
    if parent is not None:
        parent.autoclose()
    return made


def open_compressed(recipe: Any, kind: str) -> StreamWrapper:
    """A compressed file that is opened anew."""
    return _decompressed(reopened(recipe), CompressionType(kind), None, None)


@functional_datapipe("extract")
class ExtractorIterDataPipe(IterDataPipe[Any]):
    """Another name of `decompress` (functional name: `extract`)."""

    def __new__(  # type: ignore[misc]  # upstream: calling the class gives the other pipe
        cls, source_datapipe: IterDataPipe[tuple[str, Any]], file_type: str | CompressionType | None = None
    ) -> DecompressorIterDataPipe:
        """Build the pipes that the class stands for."""
        return DecompressorIterDataPipe(source_datapipe, file_type)

    def __init__(
        self, source_datapipe: IterDataPipe[tuple[str, Any]], file_type: str | CompressionType | None = None
    ) -> None:
        """Never called: `__new__` gives another class's object."""


class _Compressed(SizedByHand, IterDataPipe[tuple[str, StreamWrapper]]):
    """Base: one kind of compression, whatever the path's ending; the ending is taken off the path."""

    state_fields = ()
    kind: CompressionType

    def __init__(self, datapipe: Iterable[tuple[str, Any]], length: int = -1) -> None:
        self.datapipe = datapipe
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path, stream in self.datapipe:
            recipe = _recipe(stream)
            how = None if recipe is None else (open_compressed, recipe, self.kind.value)
            yield PurePath(path).with_suffix("").as_posix(), _decompressed(stream, self.kind, path, how)


@functional_datapipe("load_from_bz2")
class Bz2FileLoaderIterDataPipe(_Compressed):
    """Opens bz2 files (functional name: `load_from_bz2`).

    Args:
        datapipe: source of `(path, stream of bytes)`.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path without its ending, stream)`.
    """

    kind = CompressionType.BZIP2


@functional_datapipe("load_from_xz")
class XzFileLoaderIterDataPipe(_Compressed):
    """Opens xz files (functional name: `load_from_xz`).

    Args:
        datapipe: source of `(path, stream of bytes)`.
        length: what `len()` says; unknown when negative.

    Yields:
        `(path without its ending, stream)`.
    """

    kind = CompressionType.LZMA
