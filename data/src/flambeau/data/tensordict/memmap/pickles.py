"""Pickled values that came from a file: only known harmless types, unless the caller vouches for the file.

A pickle may import and call anything. What is loaded by default is what cannot do harm: built-in values and containers,
dates, decimals, fractions, UUIDs, paths, `collections`, numpy arrays, torch tensors, dtypes and devices, and what was
registered with `torch.serialization.add_safe_globals`. All else needs `allow_pickle=True`.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Iterator
from typing import Any

import torch

from flambeau.data.tensordict.memmap.errors import UnsafePickleError

_SAFE: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        [
            "bool",
            "bytearray",
            "bytes",
            "complex",
            "dict",
            "float",
            "frozenset",
            "int",
            "list",
            "object",
            "range",
            "set",
            "slice",
            "str",
            "tuple",
        ]
    ),
    "_codecs": frozenset({"encode"}),
    "collections": frozenset({"Counter", "OrderedDict", "defaultdict", "deque"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "zoneinfo": frozenset({"ZoneInfo", "ZoneInfo._unpickle"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "uuid": frozenset({"UUID", "SafeUUID"}),
    "pathlib": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"}),
    "pathlib._local": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"}),
    "numpy": frozenset({"dtype", "ndarray"}),
    "numpy.core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy.core.numeric": frozenset({"_frombuffer"}),
    "numpy._core.numeric": frozenset({"_frombuffer"}),
    "torch": frozenset({"Size", "device", "Tensor"}),
    "torch._utils": frozenset({"_rebuild_tensor_v2", "_rebuild_parameter"}),
    "torch.nn.parameter": frozenset({"Parameter"}),
    "torch.serialization": frozenset({"_get_layout"}),
}

_allowed: bool | None = None


@contextlib.contextmanager
def set_allow_pickle(mode: bool | None) -> Iterator[None]:
    """Within the block, what `allow_pickle=None` means.

    Args:
        mode: True loads any pickle, False none at all, None those of harmless types alone (the default).
    """
    global _allowed
    before, _allowed = _allowed, mode
    try:
        yield
    finally:
        _allowed = before


def dumps(value: Any) -> bytes:
    """The pickle of a value, for a file that other versions of Python can read.

    Raises:
        TypeError: the value cannot be pickled; the message says why.
    """
    try:
        return pickle.dumps(value, protocol=4)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"a value of type {type(value).__qualname__} can be neither written as JSON nor pickled ({error}); "
            "remove it from the TensorDict, or define its class at the top of an importable module."
        ) from error


def loads(data: bytes, *, where: str, allow_pickle: bool | None = None) -> Any:
    """Load a pickled value.

    Args:
        data: the pickle.
        where: the file's name, for messages.
        allow_pickle: True trusts the file as far as running code from it; False refuses every pickle; None (default)
            loads values of harmless types and refuses the rest.

    Raises:
        UnsafePickleError: the value is not allowed, with what it wanted to import.
    """
    trusted = _allowed if allow_pickle is None else allow_pickle
    if trusted is False:
        raise UnsafePickleError(f"{where} is a pickle, and allow_pickle is False; pass allow_pickle=None or True.")
    if trusted:
        return pickle.loads(data)
    return _HarmlessUnpickler(io.BytesIO(data), where).load()


class _HarmlessUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, where: str) -> None:
        super().__init__(file)
        self.where = where

    def find_class(self, module: str, name: str) -> Any:
        if name in _SAFE.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage  # torch's own unpickles whatever the bytes hold
        if module == "torch" and isinstance(found := getattr(torch, name, None), (torch.dtype, torch.layout)):
            return found
        for candidate in torch.serialization.get_safe_globals():
            found, path = candidate if isinstance(candidate, tuple) else (candidate, None)
            if f"{module}.{name}" == (path or f"{found.__module__}.{found.__qualname__}"):
                return found
        raise UnsafePickleError(
            f"{self.where} wants to import {module}.{name}, which is not known to be harmless. If you trust the file's "
            "author, load it with allow_pickle=True or within set_allow_pickle(True), or allow this type alone: "
            f"torch.serialization.add_safe_globals([{name}])."
        )

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickleError(
            f"{self.where} refers to data outside itself; it was not written as a TensorDict's value."
        )


def _load_storage(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True)
