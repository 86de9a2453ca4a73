"""Where a dataset's files are looked for, and how they come there: fetched, verified, or placed by the user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flambeau.core import files
from flambeau.core.datasets import DatasetFile, DatasetInfo, prepare_dataset
from flambeau.core.errors import (
    DatasetMissingError,
    DiskFullError,
    DownloadError,
    GatedError,
    HashMismatchError,
    HubError,
    OfflineError,
)
from flambeau.text.datasets._urls import addresses

# The lock only spares a second process the work; one that cannot get it goes on without.
_LOCK_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    Args:
        url: its address.
        path: its name below the dataset's folder.
        digest: MD5 or SHA-256 in hex, told apart by length; None where none is on record.
        mirrors: further addresses of the same bytes.
        copies: other files that hold the same texts, such as the same folder packed anew, each with its own digest.
    """

    url: str
    path: str
    digest: str | None = None
    mirrors: tuple[str, ...] = ()
    copies: tuple[Download, ...] = ()

    @property
    def choices(self) -> tuple[Download, ...]:
        """The file itself, then its copies."""
        return (self, *self.copies)

    def file(self, dataset: str, splits: tuple[str, ...], extra: tuple[str, ...] = ()) -> DatasetFile:
        """The facts as the registry states them, below the root that all datasets share.

        Args:
            dataset: name of the dataset's folder.
            splits: those that need the file.
            extra: addresses to ask first.
        """
        first, *others = (*extra, *(address for url in (self.url, *self.mirrors) for address in addresses(url)))
        digest = (self.digest or "").lower() or None
        return DatasetFile(
            url=first,
            path=below(dataset, self.path),
            mirrors=tuple(others),
            md5=digest if digest and len(digest) == 32 else None,
            sha256=digest if digest and len(digest) == 64 else None,
            splits=splits,
        )


def below(dataset: str, path: str) -> str:
    """A path of a dataset relative to the root: upstream's cache has every dataset in `datasets/NAME`."""
    return f"datasets/{dataset}/{path}"


@dataclass(frozen=True)
class Place:
    """Where one split's files belong, and what may be done to get them there.

    Args:
        root: folder of all datasets.
        dataset: name of the dataset.
        split: the split that is wanted.
        splits: all of the dataset.
        download: fetch what is missing.
        from_dir: folder of the user's with some or all of the files, archives or unpacked; only read from.
        mirror: addresses of folders that have the files under their names; asked first.
    """

    root: str
    dataset: str
    split: str
    splits: tuple[str, ...]
    download: bool = True
    from_dir: str | None = None
    mirror: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The dataset's own folder."""
        return Path(self.root) / "datasets" / self.dataset

    def find(self, path: str) -> Path | None:
        """A file that is there already: in the user's folder, under its path or its bare name, or in the dataset's."""
        own = Path(self.from_dir) if self.from_dir is not None else None
        given = [own / path, own / path.rpartition("/")[2]] if own is not None else []
        return next((place for place in (*given, self.folder / path) if place.is_file()), None)

    def texts(self, paths: list[str], unpack: Callable[[Place], object]) -> list[Path]:
        """The files that items are read from; `unpack` makes those that are not there.

        A file is there whole or not at all, so that being there is enough.

        Raises:
            HubError: `unpack` did not make one of them: the archive is another one than it should be.
        """
        if None in map(self.find, paths):
            self.folder.mkdir(parents=True, exist_ok=True)
            with files.lock(self.folder / ".flambeau-texts", timeout_s=_LOCK_TIMEOUT_S):
                if None in map(self.find, paths):  # else another process made them meanwhile
                    unpack(self)
        found = [self.find(path) for path in paths]
        if lacking := [path for path, place in zip(paths, found, strict=True) if place is None]:
            raise HubError(
                f"{self.dataset}: what was fetched has no {' and no '.join(lacking)}. Remove {self.folder} and try "
                "again; if that does not help, the archive's layout has changed: unpack these files there by hand."
            )
        return [place for place in found if place is not None]

    def obtain(self, download: Download) -> Path:
        """One file, fetched unless it is there, and verified; where its own addresses fail, a copy of its contents.

        Raises:
            DatasetMissingError: it is not there, and may not be fetched.
            DownloadError: no address delivered it. The message says where to put it by hand.
        """
        if self.from_dir is not None:
            return self._given(download)
        there = [choice for choice in download.choices if (self.folder / choice.path).is_file()]
        if not self.download:
            return self._prepared(there[0] if there else download, download)
        failures: list[DownloadError] = []
        for choice in (*there, *(choice for choice in download.choices if choice not in there)):
            try:
                return self._prepared(choice, download)
            except (DiskFullError, GatedError):
                raise
            except DownloadError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise type(failures[0])("\n".join(str(failure) for failure in failures)) from failures[0]

    def _given(self, download: Download) -> Path:
        names = [choice.path for choice in download.choices]
        for choice in download.choices:
            if (found := self.find(choice.path)) is not None:
                file = choice.file(self.dataset, ())
                _verify(found, file)
                return found
        raise DatasetMissingError(
            f"{self.dataset}: {self.from_dir} has neither {' nor '.join(names)} nor what is unpacked from it. Put one "
            f"of them there, for example from {download.url}, or leave from_dir out to have it fetched."
        )

    def _prepared(self, choice: Download, original: Download) -> Path:
        extra = tuple(f"{folder.rstrip('/')}/{choice.path}" for folder in self.mirror)
        file = choice.file(self.dataset, (self.split,), extra)
        name = self.dataset.lower() if choice is original else f"{self.dataset.lower()}-copy"
        facts = DatasetInfo(name=name, splits=self.splits, files=(file,), homepage=choice.url)
        try:
            return prepare_dataset(facts, self.root, download=self.download, splits=(self.split,)) / file.path
        except OfflineError as error:
            place = Path(self.root, file.path)
            if not place.is_file():
                raise
            _verify(place, file, offline=True)
            raise AssertionError(f"{place} is as it should be, but was not taken.") from error

    @contextlib.contextmanager
    def writing(self, path: str, digest: str | None = None, *, durable: bool = True) -> Iterator[IO[bytes]]:
        """A file of the dataset's folder to write, which appears when it is complete and has its digest.

        Args:
            path: below the folder.
            digest: MD5 that its bytes must have.
            durable: have it on the disk before it appears, so that a power failure leaves it whole or absent; with a
                hundred thousand small files that takes many minutes.

        Raises:
            HashMismatchError: it has another digest; nothing of it is kept.
        """
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
        try:
            with part.open("xb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if digest is not None:
                _verify(part, DatasetFile(path=path, md5=digest), str(target))
            if durable:
                files.replace(part, target)
            else:
                part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def _verify(found: Path, file: DatasetFile, shown: str | None = None, *, offline: bool = False) -> None:
    from flambeau.core.datasets.presence import fault

    if damage := fault(found, file):
        why = " It is not fetched again, for the network is switched off (FLAMBEAU_OFFLINE)." if offline else ""
        raise HashMismatchError(f"{shown or found}: {damage}. It is damaged or another version; replace it.{why}")
