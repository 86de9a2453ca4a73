"""The records of a file of `torch.save`: whether each is as large as the tensors that lie in it.

torch's readers take the size of a storage from the pickle and its place from the zip's directory, and compare nothing:
a record that was emptied or cut short gives the bytes of its neighbour, or of whatever memory follows.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from flambeau.core.errors import CheckpointError

# What readers of pickles raise over bytes that make no sense.
READER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)

# Classes of storages that files name, and the bytes of one item; dtypes of later years are saved as untyped bytes.
# torch could be asked, and would warn that these classes are deprecated.
_ITEM_BYTES = {
    f"{name}Storage": size
    for size, names in (
        (1, ("Untyped", "Bool", "Byte", "Char", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4")),
        (2, ("BFloat16", "Half", "Short")),
        (4, ("Float", "Int", "QInt32")),
        (8, ("ComplexFloat", "Double", "Long")),
        (16, ("ComplexDouble",)),
    )
    for name in names
}


class _Nothing:
    """Stands for everything a pickle builds besides storages: it takes whatever is done to it, and runs nothing."""

    def __new__(cls, *arguments: object, **keywords: object) -> _Nothing:
        return super().__new__(cls)

    def __init__(self, *arguments: object, **keywords: object) -> None:
        pass

    def __call__(self, *arguments: object, **keywords: object) -> _Nothing:
        return self

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __hash__(self) -> int:
        return id(self)

    def append(self, item: object) -> None:
        """As of a list."""

    def extend(self, items: object) -> None:
        """As of a list."""

    def add(self, item: object) -> None:
        """As of a set."""


class _Kind(_Nothing):
    """The class of a storage, by name alone."""

    name = ""


class _Sizes(pickle.Unpickler):
    """Reads how many bytes each storage has, and builds nothing."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.bytes: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        if name.endswith("Storage"):
            kind = _Kind()
            kind.name = name
            return kind
        return _Nothing

    def persistent_load(self, identifier: Any) -> _Nothing:
        match identifier:
            case ("storage", _Kind(name=name), str(key), _, int(count)):
                self.bytes[key] = max(self.bytes.get(key, 0), count * _ITEM_BYTES.get(name, 0))
        return _Nothing()


def check_records(path: Path) -> bool:
    """Compare the records of a file with what its pickle says of them.

    Returns:
        Whether the file can be memory-mapped: no record of tensors is compressed.

    Raises:
        CheckpointError: a record is absent, or smaller than the tensors that lie in it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            records = {member.filename: member for member in archive.infolist()}
            pickled = next(name for name in records if name.endswith("/data.pkl"))
            with archive.open(pickled) as file:
                sizes = _Sizes(file)
                sizes.load()
    except (*READER_ERRORS, OSError, StopIteration, pickle.PickleError, zipfile.BadZipFile, zlib.error):
        return True  # torch's own reader judges such a file next, and tells
    folder = pickled.removesuffix("data.pkl")
    for key, wanted in sizes.bytes.items():
        record = records.get(f"{folder}data/{key}")
        have = record.file_size if record else 0
        if have < wanted:
            raise CheckpointError(
                f"{path}: the file is damaged: its record data/{key} has {have:,} bytes, expected {wanted:,}; remove "
                "it and fetch it again."
            )
    return all(records[f"{folder}data/{key}"].compress_type == zipfile.ZIP_STORED for key in sizes.bytes)
