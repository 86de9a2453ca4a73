"""Data sets as memory-mapped files of this machine: a folder that is whole, or that is not there.

A copy is written to a folder beside its own, which takes its name in one step when all is written; the last file of it
is a mark with the size of each other file, and the digest of each file that it was made of.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flambeau.core.errors import DatasetMissingError, DiskFullError, HubWarning
from flambeau.core.files import lock, write_atomic
from flambeau.core.folders import recover_folder, replaced_folder
from flambeau.core.hub import cache_dir
from flambeau.core.hub.cache import file_digest
from flambeau.data.tensordict import TensorDict

__all__ = ["LocalCopy", "default_root"]

MARK = ".flambeau-dataset.json"
_LOCK_TIMEOUT_S = 3600.0
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def default_root(source: str) -> Path:
    """Folder of a source's data sets in the cache, below `FLAMBEAU_HOME`."""
    return cache_dir("datasets", "rl", source)


class LocalCopy:
    """One data set in a folder.

    Args:
        folder: where it is, or will be.
        name: of the data set, for messages.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder.absolute()
        self.name = name

    def fault(self) -> str | None:
        """Why the copy cannot be used; None where it is whole."""
        recover_folder(self.folder)
        mark = self.folder / MARK
        if not mark.is_file():
            return "there is no copy" if not self.folder.is_dir() else f"{self.folder} has no mark that it is whole"
        files: dict[str, int] = json.loads(mark.read_text(encoding="utf-8"))["files"]
        for name, size in files.items():
            path = self.folder / name
            found = path.stat().st_size if path.is_file() else -1
            if found != size:
                return f"{path} has {found:,} bytes, expected {size:,}" if found >= 0 else f"{path} is missing"
        return None

    @property
    def description(self) -> dict[str, Any]:
        """What its mark says of the copy: "facts", and "sources" with their digests; empty without a mark."""
        mark = self.folder / MARK
        if not mark.is_file():
            return {}
        found: dict[str, Any] = json.loads(mark.read_text(encoding="utf-8"))
        return found

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process makes the same copy."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with lock(self.folder, timeout_s=_LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def writing(self, sources: Mapping[str, Path], facts: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """A folder to write to, which becomes the copy when the block ends without an error.

        Args:
            sources: the files that it is made of, by their names; their digests are kept.
            facts: what else is to be known of the data set.
        """
        with self._room(), replaced_folder(self.folder) as folder:
            yield folder
            made = {name: {"sha256": file_digest(path)} for name, path in sources.items()}
            written = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            for path in written:
                _flush(path)
            sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in written}
            mark = {"dataset": self.name, "facts": dict(facts or {}), "sources": made, "files": sizes}
            write_atomic(folder / MARK, json.dumps(mark, indent=1, sort_keys=True))

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Say what to do where the disk is full; what was there before is there still."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise DiskFullError(
                f"{self.name} does not fit into {self.folder.parent}, which is full; make room, or give another root."
            ) from error

    def load(self) -> Any:
        """The copy as a tensordict of memory-mapped tensors.

        Raises:
            TruncatedFileError: a file is shorter than its tensor.
        """
        return TensorDict.load_memmap(self.folder)

    def accept_unmarked(self) -> bool:
        """Whether there is a folder of memory-mapped tensors without a mark, as torchrl writes; warns if so."""
        if not (self.folder / "meta.json").is_file() or (self.folder / MARK).exists():
            return False
        self.load()  # raises where a file is too short
        warnings.warn(
            f"{self.folder} was not written by Flambeau, and nothing says whether it is whole; it is used as it is.",
            HubWarning,
            stacklevel=4,
        )
        return True

    def missing(self, hint: str = "") -> DatasetMissingError:
        """The error for a copy that cannot be used and may not be made."""
        return DatasetMissingError(
            f"{self.name} is not in {self.folder}: {self.fault()}. Pass download=True to have it fetched and "
            f"converted.{hint}"
        )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
