"""Reading published pickles of arrays without letting them run code."""

from __future__ import annotations

import io
import pickle
from typing import IO, Any

import numpy as np

from flambeau.rl.errors import UnsafePickleError

__all__ = ["load_array_file", "load_pickle"]

_ALLOWED: dict[tuple[str, str], Any] = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
_MOST_HEADER = 10_000


def load_pickle(file: IO[bytes], name: str) -> Any:
    """Numbers, texts, bytes, lists, tuples, dictionaries and NumPy arrays of a pickle.

    Raises:
        UnsafePickleError: the file asks for anything else; nothing of it was run.
    """
    return _ArrayUnpickler(file, name).load()


def load_array_file(file: IO[bytes], name: str) -> Any:
    """What a `.npy` file holds; where that is an object, as `load_pickle`.

    Raises:
        UnsafePickleError: see `load_pickle`.
        ValueError: no `.npy` file.
    """
    data = io.BytesIO(file.read())
    version = np.lib.format.read_magic(data)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(data, max_header_size=_MOST_HEADER)
    if not dtype.hasobject:
        data.seek(0)
        return np.lib.format.read_array(data, allow_pickle=False)
    found = load_pickle(data, name)
    # An object that is no array is stored as an array of none of its dimensions.
    return found.item() if isinstance(found, np.ndarray) and shape == () else found


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, encoding="latin1")
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        """The few things an array is rebuilt from; a pickle gets at anything else through here alone."""
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.ndarray.__new__
        if name == "scalar" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return _scalar
        if name == "_frombuffer" and module in ("numpy.core.numeric", "numpy._core.numeric"):
            return _from_buffer
        if (module, name) == ("_codecs", "encode"):
            return _encode_latin1
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        raise UnsafePickleError(
            f"{self._name} asks for {module}.{name}; only NumPy arrays and plain containers are read. The file is not "
            "the published one: remove it, and fetch it again."
        )


def _scalar(dtype: np.dtype[Any], value: bytes) -> Any:
    if dtype.hasobject:
        raise UnsafePickleError("A pickle has an object among its numbers; arrays of numbers alone are read.")
    return np.frombuffer(value, dtype)[0]


def _from_buffer(buffer: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> Any:
    if dtype.hasobject:
        raise UnsafePickleError("A pickle has objects in an array; arrays of numbers alone are read.")
    return np.frombuffer(buffer, dtype).reshape(shape, order="F" if order == "F" else "C")


def _encode_latin1(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into pickles that Python 2 can read."""
    if encoding not in ("latin1", "latin-1"):
        raise UnsafePickleError(f"A pickle encodes text as {encoding!r}; arrays need latin1 alone.")
    return text.encode("latin1")
