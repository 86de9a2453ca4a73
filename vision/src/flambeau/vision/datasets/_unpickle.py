"""Reading published pickles of arrays without letting them run code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any

from flambeau.core.errors import FlambeauError

__all__ = ["UnsafePickleError", "load_arrays"]


class UnsafePickleError(FlambeauError, pickle.UnpicklingError):
    """A pickle that would run code, or build objects other than arrays and plain containers."""


def load_arrays(path: str | Path) -> Any:
    """Load a pickle of numbers, strings, lists, dictionaries and NumPy arrays; Python 2's strings become latin-1 text.

    Raises:
        UnsafePickleError: the file asks for anything else; nothing of it was run.
    """
    with Path(path).open("rb") as file:
        return _ArrayUnpickler(file, str(path)).load()


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, encoding="latin1")
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        """The few things an array is rebuilt from; a pickle gets at anything else through here alone."""
        import numpy as np

        allowed: dict[tuple[str, str], Any] = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): _encode_latin1,
        }
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.ndarray.__new__
        if (module, name) in allowed:
            return allowed[module, name]
        raise UnsafePickleError(
            f"{self._name} asks for {module}.{name}; only NumPy arrays and plain containers are read. "
            "The file is not the published one: delete it and fetch it again."
        )


def _encode_latin1(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into pickles that Python 2 can read."""
    if encoding not in ("latin1", "latin-1"):
        raise UnsafePickleError(f"A pickle encodes text as {encoding!r}; arrays need latin1 alone.")
    return text.encode("latin1")
