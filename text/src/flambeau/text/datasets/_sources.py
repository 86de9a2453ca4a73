"""How the text files of a split come out of what is fetched: as they are, out of an archive, or out of its parts."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from flambeau.core.errors import DownloadError
from flambeau.core.hub import read_archive
from flambeau.text.datasets._locations import Download, Place


class Source(Protocol):
    """What a split's texts are made of; picklable, and nothing happens before `files`."""

    @property
    def downloads(self) -> tuple[Download, ...]:
        """Everything that may be fetched."""

    def files(self, place: Place) -> list[Path]:
        """The text files in order; fetched and unpacked unless they are there."""


@dataclass(frozen=True)
class Plain:
    """Files that are read as they are fetched."""

    downloads: tuple[Download, ...]

    def files(self, place: Place) -> list[Path]:
        """The files in order."""
        return [place.obtain(download) for download in self.downloads]


@dataclass(frozen=True)
class Text:
    """One text file in an archive.

    Args:
        path: where it is unpacked to.
        member: the end of its name in the archive.
        digest: MD5 of its bytes, where it is on record; asked for where the archive itself has none.
    """

    path: str
    member: str
    digest: str | None = None


@dataclass(frozen=True)
class Packed:
    """Text files out of one archive; the others in it stay there."""

    archive: Download
    members: tuple[Text, ...]

    @property
    def downloads(self) -> tuple[Download, ...]:
        """The archive."""
        return (self.archive,)

    def files(self, place: Place) -> list[Path]:
        """The texts in order."""
        return place.texts([text.path for text in self.members], self._unpack)

    def _unpack(self, place: Place) -> None:
        archive = place.obtain(self.archive)
        # The digest of a whole archive vouches for what is in it; a copy without one is checked by its texts.
        vouched = any(choice.digest for choice in self.archive.choices if archive.name == Path(choice.path).name)
        texts = tuple(replace(text, digest=None) for text in self.members) if vouched else self.members
        _take(place, archive, texts, _copy)


@dataclass(frozen=True)
class PackedEach:
    """Text files of which each has an archive of its own."""

    parts: tuple[Packed, ...]

    @property
    def downloads(self) -> tuple[Download, ...]:
        """The archives."""
        return tuple(part.archive for part in self.parts)

    def files(self, place: Place) -> list[Path]:
        """The texts in order."""
        return [file for part in self.parts for file in part.files(place)]


@dataclass(frozen=True)
class Gathered:
    """Many small files of an archive, gathered into one text file for each folder, a line for each line of theirs.

    Args:
        archive: the archive.
        folder: path of the folders in the archive, such as `train`.
        labels: names of the folders; the order of the texts.
        path: where the texts are unpacked to, each under its folder's name.
    """

    archive: Download
    folder: str
    labels: tuple[str, ...]
    path: str

    @property
    def downloads(self) -> tuple[Download, ...]:
        """The archive."""
        return (self.archive,)

    def files(self, place: Place) -> list[Path]:
        """The texts, one for each label."""
        return place.texts([f"{self.path}/{label}" for label in self.labels], self._unpack)

    def _unpack(self, place: Place) -> None:
        gathered: dict[str, list[str]] = {label: [] for label in self.labels}
        for name, stream in read_archive(place.obtain(self.archive)):
            *_, split, label, _ = ("", "", *PurePosixPath(name).parts)
            if split == self.folder and label in gathered and not _is_litter(name):
                gathered[label] += _lines(stream)
        for label, lines in gathered.items():
            with place.writing(f"{self.path}/{label}") as file:
                file.write("\n".join(lines).encode())


@dataclass(frozen=True)
class Nested:
    """Texts out of an archive in an archive, cleaned while they are unpacked.

    Args:
        archive: the outer archive.
        inner: name of the inner one, below the dataset's folder and at the end of its name in the outer one.
        members: the texts; `member` is their name before they are cleaned.
        clean: writes the cleaned text: `(file to write, name in the archive, stream)`.
        inner_copy: the inner archive on its own, where it is published so.
    """

    archive: Download
    inner: str
    members: tuple[Text, ...]
    clean: Callable[[IO[bytes], str, IO[bytes]], object]
    inner_copy: Download | None = None

    @property
    def downloads(self) -> tuple[Download, ...]:
        """The outer archive."""
        return (self.archive,)

    def files(self, place: Place) -> list[Path]:
        """The texts in order."""
        return place.texts([text.path for text in self.members], self._unpack)

    def _unpack(self, place: Place) -> None:
        inner = place.find(self.inner) or self._inner(place)
        _take(place, inner, self.members, self.clean)

    def _inner(self, place: Place) -> Path:
        try:
            outer = place.obtain(self.archive)
        except DownloadError as error:
            if self.inner_copy is None:
                raise
            try:
                return place.obtain(self.inner_copy)
            except DownloadError as second:
                raise type(error)(f"{error}\n{second}") from error
        _take(place, outer, (Text(self.inner, PurePosixPath(self.inner).name),), _copy)
        found = place.find(self.inner)
        if found is None:
            raise DownloadError(f"{outer} has no {PurePosixPath(self.inner).name}; it is another version. Remove it.")
        return found


@dataclass(frozen=True)
class Stories:
    """Files of archives that lists of addresses choose: those named by the SHA-1 of an address in the list.

    Args:
        parts: for each archive the list, the archive, and the folder it is unpacked to.
        suffix: of the files' names.
    """

    parts: tuple[tuple[Download, Download, str], ...]
    suffix: str = ".story"

    @property
    def downloads(self) -> tuple[Download, ...]:
        """Lists and archives."""
        return tuple(download for addresses, archive, _ in self.parts for download in (addresses, archive))

    def files(self, place: Place) -> list[Path]:
        """The files in the order of the lists."""
        return [file for part in self.parts for file in self._part(place, *part)]

    def _part(self, place: Place, addresses: Download, archive: Download, folder: str) -> list[Path]:
        listed = place.find(addresses.path) if place.from_dir is not None else None
        text = (listed or place.obtain(addresses)).read_bytes()
        names = [f"{folder}/{_sha1(line)}{self.suffix}" for line in text.splitlines() if line]

        def unpack(where: Place) -> None:
            wanted = {PurePosixPath(name).name: name for name in names}
            for name, stream in read_archive(where.obtain(archive)):
                path = wanted.get(PurePosixPath(name).name)
                if path is not None and where.find(path) is None:
                    with where.writing(path, durable=False) as file:
                        shutil.copyfileobj(stream, file)

        return place.texts(names, unpack)


def _take(
    place: Place, archive: Path, texts: tuple[Text, ...], write: Callable[[IO[bytes], str, IO[bytes]], object]
) -> None:
    """Write texts out of an archive; of several members that fit, one whose path fits is better than one by its end."""
    fit: dict[str, int] = {}
    for name, stream in read_archive(archive):
        for text in texts:
            rank = _fit(name, text.member)
            if rank > fit.get(text.path, 0):
                fit[text.path] = rank
                with place.writing(text.path, text.digest) as file:
                    write(file, name, stream)
                break  # a stream can be read once


def _fit(name: str, member: str) -> int:
    if _is_litter(name) or not name.endswith(member):
        return 0
    return 2 if name == member or name.endswith(f"/{member}") else 1


def _is_litter(name: str) -> bool:
    """Whether a file is what macOS adds to archives."""
    parts = PurePosixPath(name).parts
    return parts[-1].startswith("._") or parts[0] == "__MACOSX"


def _copy(file: IO[bytes], name: str, stream: IO[bytes]) -> None:
    shutil.copyfileobj(stream, file, 1 << 20)


def _lines(stream: IO[bytes]) -> list[str]:
    """Lines as text files have them: any of the three ends of a line, none of Unicode's others."""
    return [line.rstrip("\n") for line in io.StringIO(stream.read().decode("utf-8"), newline=None)]


def _sha1(line: bytes) -> str:
    return hashlib.sha1(line, usedforsecurity=False).hexdigest()
