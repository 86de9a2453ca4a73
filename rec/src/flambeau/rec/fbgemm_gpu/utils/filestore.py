"""A folder that bytes, tensors and files are put into by name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.core.files import write_atomic
from flambeau.rec.errors import OptionError

__all__ = ["FileStore", "MissingFileError"]


class MissingFileError(FlambeauError, FileNotFoundError):
    """A store has no file of a name."""


class FileStore:
    """A folder; files are whole or not there at all.

    Args:
        bucket: the folder, which exists.

    Raises:
        ValueError: it does not.
    """

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        if not Path(bucket).is_dir():
            raise OptionError(f"bucket is {bucket}, which is no folder; make it before.")

    def _path(self, path: str) -> Path:
        return Path(f"{self.bucket}/{path}")

    def write(self, path: str, raw_input: BinaryIO | Tensor | Path, ttls: int = 864000) -> FileStore:
        """Put something into the store.

        Args:
            path: its name; folders in it exist.
            raw_input: an open file, a tensor, which `torch.load` reads again, or the path of a file.
            ttls: seconds that remote stores keep it; a folder keeps it until it is removed.

        Returns:
            The store.

        Raises:
            FileExistsError: there is something of this name.
            FileNotFoundError: a folder, or the file that is to be copied, is not there.
            TypeError: another kind of input.
        """
        target = self._path(path)
        if target.exists():
            raise FileExistsError(f"{target} exists already; remove it before.")
        if isinstance(raw_input, Tensor):
            memory = io.BytesIO()
            torch.save(raw_input, memory)
            write_atomic(target, memory.getvalue())
        elif isinstance(raw_input, Path):
            if not raw_input.exists():
                raise MissingFileError(f"{raw_input} is not there; it was to be put into {self.bucket}.")
            write_atomic(target, raw_input.read_bytes())
        elif hasattr(raw_input, "read"):
            write_atomic(target, raw_input.read())
        else:
            raise TypeError(f"raw_input is a {type(raw_input).__name__}; expected an open file, a tensor or a Path.")
        return self

    def read(self, path: str) -> io.BytesIO:
        """What is in the store under a name.

        Args:
            path: the name.

        Raises:
            FileNotFoundError: there is nothing.
        """
        source = self._path(path)
        if not source.exists():
            raise MissingFileError(f"{source} is not there; `exists` tells.")
        return io.BytesIO(source.read_bytes())

    def remove(self, path: str) -> FileStore:
        """Remove a file, if there is one.

        Args:
            path: its name.
        """
        self._path(path).unlink(missing_ok=True)
        return self

    def exists(self, path: str) -> bool:
        """Whether there is something under a name.

        Args:
            path: the name.
        """
        return self._path(path).exists()

    def create_directory(self, path: str) -> FileStore:
        """Make a folder, with those that it is in; it may be there already.

        Args:
            path: its name.
        """
        self._path(path).mkdir(parents=True, exist_ok=True)
        return self

    def remove_directory(self, path: str) -> FileStore:
        """Remove a folder, if there is one.

        Args:
            path: its name.

        Raises:
            OSError: there is something in it.
        """
        folder = self._path(path)
        if folder.exists():
            folder.rmdir()
        return self
