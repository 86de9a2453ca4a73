"""From files to tensor collections.

A `Source` is where the files are: a folder, or an archive. `read` goes by the records of `meta.json` and by
nothing else: a file that no record names is never opened.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.non_tensor import spread
from flambeau.data.tensordict.memmap import nested, pickles
from flambeau.data.tensordict.memmap.commit import recover
from flambeau.data.tensordict.memmap.errors import LayoutError, MissingLayoutError
from flambeau.data.tensordict.memmap.files import Mode
from flambeau.data.tensordict.memmap.journal import JOURNAL
from flambeau.data.tensordict.memmap.keys import candidates, encode_key
from flambeau.data.tensordict.memmap.layout import META, RESERVED, dtype_named, index_of, kind_of, split_meta
from flambeau.data.tensordict.memmap.saving import give_record, join
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor

# How long a reader tries again while writers replace what it reads; a replacement takes milliseconds.
_PATIENCE_S = 30.0


class Source(Protocol):
    """Where files are read from; paths are below its root, with forward slashes."""

    name: str

    def read(self, path: str) -> bytes | None:
        """A file's content, None where there is none."""

    def tensor(self, path: str, dtype: torch.dtype, shape: torch.Size, sizes: Tensor | None) -> Tensor:
        """The tensor in a file, nested where `sizes` is given."""

    def has(self, path: str) -> bool:
        """Whether a file is there."""

    def where(self, path: str) -> str:
        """How messages call a file."""


class Folder:
    """Files in a folder."""

    def __init__(self, root: str, mode: Mode = "r+") -> None:
        self.name, self.mode = root, mode

    def read(self, path: str) -> bytes | None:
        """A file's content, None where there is none."""
        try:
            with open(f"{self.name}/{path}", "rb") as file:  # noqa: PTH123 - a string is enough
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def tensor(self, path: str, dtype: torch.dtype, shape: torch.Size, sizes: Tensor | None) -> Tensor:
        """The tensor in a file, mapped."""
        if sizes is not None:
            return nested.from_file(MemoryMappedTensor, f"{self.name}/{path}", dtype, sizes, self.mode)
        if 0 in shape:
            return MemoryMappedTensor._over(
                torch.UntypedStorage(0), dtype, shape, filename=f"{self.name}/{path}", readonly=self.mode == "r"
            )
        return MemoryMappedTensor._mapped(f"{self.name}/{path}", dtype, shape, self.mode)

    def has(self, path: str) -> bool:
        """Whether a file is there."""
        return os.path.isfile(f"{self.name}/{path}")  # noqa: PTH113 - a string is enough

    def where(self, path: str) -> str:
        """The file's path."""
        return f"{self.name}/{path}"


@dataclass
class Reader:
    """One load.

    Attributes:
        source: of the files.
        device: where tensors go; None leaves them mapped, "meta" opens no file.
        non_blocking: of the copies to a device.
        robust_key: whether encoded names are looked for before raw ones.
        allow_pickle: see `pickles.loads`.
    """

    source: Source
    device: torch.device | None = None
    non_blocking: bool = False
    robust_key: bool = True
    allow_pickle: bool | None = None

    def read(self, folder: str = "") -> Any:
        """The collection in a folder.

        Raises:
            MissingLayoutError: there is no complete one.
            LayoutError: its records make no sense.
        """
        meta = self.meta(folder)
        where = self.source.where(join(folder, META))
        kind = kind_of(meta.get("_type"), where, trusted=self.allow_pickle)
        if isinstance(kind, str):
            return _READERS[kind](self, folder, meta, where)
        return self._tensorclass(kind, folder, meta)

    def meta(self, folder: str) -> dict[str, Any]:
        """The record of a folder."""
        where = self.source.where(join(folder, META))
        text = self.source.read(join(folder, META))
        if text is None:
            raise MissingLayoutError(
                f"{where} is missing: no TensorDict was saved there, or its writer did not finish. Check the path, or "
                "save again."
            )
        try:
            meta = json.loads(text)
        except ValueError as error:
            raise LayoutError(f"{where} is damaged ({error}); restore it, or save the TensorDict again.") from error
        if not isinstance(meta, dict):
            raise LayoutError(f"{where} holds a {type(meta).__name__} where an object was expected.")
        return meta

    def _tensordict(self, folder: str, meta: dict[str, Any], where: str) -> Any:
        entries, names = split_meta(meta)
        data: dict[str, Any] = {}
        try:
            size = torch.Size(meta.get("shape", ()))
            device = self.device
            if device is None and meta.get("device"):
                device = torch.device(meta["device"])
            for key, entry in entries.items():
                nested = "type" in entry
                data[key] = self._nested(folder, key, size, device) if nested else self._leaf(folder, key, entry)
        except (KeyError, TypeError) as error:
            if isinstance(error, LayoutError):
                raise
            raise LayoutError(f"{where} is damaged ({error!r}); restore it, or save the TensorDict again.") from error
        return classes.make_td(data, size, device, names)

    def _nested(self, folder: str, key: str, size: torch.Size, device: torch.device | None) -> Any:
        value = self.read(self._below(folder, key))
        if not value._is_non_tensor:
            return value
        if not value.batch_size and size:
            value = spread(value, size)  # its record does not tell the batch size
        return value if device is None else value.to(device)

    def _below(self, folder: str, key: str) -> str:
        for name in candidates(key, robust=self.robust_key):
            path = join(folder, name)
            if self.source.has(join(path, META)):
                return path
        return join(folder, encode_key(key))

    def _leaf(self, folder: str, key: str, entry: dict[str, Any]) -> Tensor:
        where = self.source.where(join(folder, META))
        dtype = dtype_named(entry["dtype"], where)
        shape = torch.Size(entry["shape"])
        if self.device is not None and self.device.type == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        path = self._file(folder, key)
        if entry.get("is_nested"):
            tensor = self._nested_leaf(folder, key, path, dtype, shape, entry.get("layout") == "jagged")
        else:
            tensor = self.source.tensor(path, dtype, shape, None)
        if "tensor_type" in entry:
            tensor = give_record(tensor, entry["tensor_type"])
        if self.device is not None and self.device.type != "cpu":
            tensor = tensor.to(self.device, non_blocking=self.non_blocking)
        return tensor

    def _file(self, folder: str, key: str) -> str:
        names = candidates(key, robust=self.robust_key)
        for name in names[:-1]:
            if self.source.has(path := join(folder, f"{name}.memmap")):
                return path
        return join(folder, f"{names[-1]}.memmap") if len(names) == 1 else self._raw(folder, names)

    def _raw(self, folder: str, names: tuple[str, ...]) -> str:
        last = join(folder, f"{names[-1]}.memmap")
        return last if self.source.has(last) else join(folder, f"{names[0]}.memmap")

    def _nested_leaf(
        self, folder: str, key: str, path: str, dtype: torch.dtype, shape: torch.Size, jagged: bool
    ) -> Tensor:
        table = path.removesuffix(".memmap") + ".shape.memmap"
        if not self.source.has(table):
            table = self._file(folder, f"{key}.shape")
        sizes = self.source.tensor(table, torch.int64, shape, None).as_subclass(Tensor).clone()
        tensor = self.source.tensor(path, dtype, torch.Size([nested.numel(sizes)]), sizes)
        if not jagged:
            return tensor
        parts = tensor._nested if isinstance(tensor, MemoryMappedTensor) else None
        flat = tensor.values() if parts is None else parts.flat
        return nested.to_jagged(flat, sizes)

    def _lazy_stack(self, folder: str, meta: dict[str, Any], where: str) -> Any:
        parts: list[Any] = []
        while self.source.has(join(path := join(folder, str(len(parts))), META)):
            parts.append(self.read(path))
        if not parts:
            raise LayoutError(f"{where} is of a stack, but there is no folder 0 beside it; restore it, or save again.")
        return classes.LazyStackedTensorDict(*parts, stack_dim=meta["stack_dim"])

    def _part(self, folder: str, meta: dict[str, Any], where: str) -> Any:
        """A part of a tensordict, which the tensordict library saves as the whole and the index."""
        try:
            index = index_of(meta["index"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise LayoutError(f"{where} has an index that makes no sense ({error!r}); save it again.") from error
        return classes._SubTensorDict(self.read(join(folder, "_source")), index)

    def _tensorclass(self, cls: Any, folder: str, meta: dict[str, Any]) -> Any:
        if not hasattr(cls, "_from_saved"):
            raise LayoutError(
                f"{join(folder, META)} holds a {cls.__module__}.{cls.__qualname__}, which is no tensorclass of this "
                "library; define it with flambeau.data.tensordict.tensorclass."
            )
        absent = {key: value for key, value in meta.items() if key not in RESERVED}
        return cls._from_saved(self.read(join(folder, "_tensordict")), absent)

    def _non_tensor(self, folder: str, meta: dict[str, Any], where: str) -> Any:
        value = meta["data"] if "data" in meta else self._pickled(join(folder, "other.pickle"), where)["data"]
        name = meta["_type"].rpartition(".")[2].removesuffix("'>")
        cls = classes.MetaData if name == "MetaData" else classes.NonTensorData
        return cls(value, batch_size=torch.Size(meta.get("shape", ())))

    def _non_tensor_stack(self, folder: str, meta: dict[str, Any], where: str) -> Any:
        data = meta.get("data")
        if data == "pickle.pkl":
            data = self._pickled(join(folder, "pickle.pkl"), where)
        if not isinstance(data, list):
            raise LayoutError(f"{where} has data of type {type(data).__name__}; expected a list.")
        shape = meta.get("shape")
        return classes.NonTensorStack._from_nested(data, None, None if shape is None else len(shape))

    def _pickled(self, path: str, where: str) -> Any:
        data = self.source.read(path)
        if data is None:
            raise MissingLayoutError(f"{where} says that its value is in {path}, which is missing; save it again.")
        return pickles.loads(data, where=self.source.where(path), allow_pickle=self.allow_pickle)


_READERS: dict[str, Callable[[Reader, str, dict[str, Any], str], Any]] = {
    "TensorDict": Reader._tensordict,
    "TensorDictParams": Reader._tensordict,
    "PersistentTensorDict": Reader._tensordict,  # the folder holds the tensors themselves
    "_SubTensorDict": Reader._part,
    "LazyStackedTensorDict": Reader._lazy_stack,
    "NonTensorData": Reader._non_tensor,
    "MetaData": Reader._non_tensor,
    "NonTensorStack": Reader._non_tensor_stack,
}


def load_folder(root: str, options: Callable[[Source], Reader], mode: Mode = "r+") -> Any:
    """Load what is saved in a folder, the old version or the new while somebody replaces it.

    Args:
        root: the folder, absolute.
        options: makes the reader for a source.
        mode: of the maps.

    Raises:
        MissingLayoutError: there is no complete version.
        LayoutError: what is saved is damaged, or was replaced all the time for half a minute.
    """
    above = _enclosing(Path(root))
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        for folder in above:
            recover(folder)
        before = _version(root)
        try:
            loaded = options(Folder(root, mode)).read()
        except LayoutError:
            # A file that vanished under a reader was replaced; one that was never there stays so.
            if _settled(above, root, before):
                raise
        else:
            if _settled(above, root, before):
                return loaded
        if time.monotonic() > deadline:
            raise LayoutError(f"{root} was replaced again and again while it was loaded; load it between two writes.")
        time.sleep(random.uniform(0, 0.005))  # out of step with the writer


def _enclosing(root: Path) -> list[Path]:
    """A folder and the saved TensorDicts that it is part of."""
    folders = [root]
    for parent in root.parents:
        if not ((parent / META).is_file() or (parent / JOURNAL).is_file()):
            break
        folders.append(parent)
    return folders


def _version(root: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(f"{root}/{META}")  # noqa: PTH116 - a string is enough
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _settled(above: list[Path], root: str, before: tuple[int, int, int] | None) -> bool:
    return _version(root) == before and not any((folder / JOURNAL).exists() for folder in above)
