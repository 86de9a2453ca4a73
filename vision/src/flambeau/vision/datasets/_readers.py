"""File formats that need an optional library: MATLAB's, HDF5, LMDB. The library loads when the first file is read."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau.core.errors import FlambeauError

__all__ = ["MissingReaderError", "load_mat", "reader"]


class MissingReaderError(FlambeauError, ImportError):
    """A library that a dataset's file format needs is not installed; the message says how to install it."""


def reader(library: str, dataset: str) -> ModuleType:
    """Import the library that reads a file format.

    Args:
        library: name of the module, such as "h5py".
        dataset: who needs it, for the message.

    Raises:
        MissingReaderError: it is not installed.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingReaderError(
            f"{dataset} needs {library.partition('.')[0]} to read its files ({error}). "
            'Run: pip install "flambeau-vision[datasets]"'
        ) from error


def load_mat(path: str | Path, dataset: str, *, squeeze: bool = True) -> dict[str, Any]:
    """The variables of a MATLAB file (version 4 to 7.2) by name; with `squeeze` arrays lose axes of length 1."""
    content: dict[str, Any] = reader("scipy.io", dataset).loadmat(str(path), squeeze_me=squeeze)
    return content
