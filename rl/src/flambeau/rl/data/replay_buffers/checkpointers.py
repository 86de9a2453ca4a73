"""How storages are written to disk."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from flambeau.data.tensordict import TensorDict, is_tensor_collection
from flambeau.rl.data.replay_buffers.storages import _mapped_files as mapped_files
from flambeau.rl.data.replay_buffers.utils import Flat2TED, Nested2TED, TED2Flat, TED2Nested

__all__ = [
    "CompressedListStorageCheckpointer",
    "FlatStorageCheckpointer",
    "H5StorageCheckpointer",
    "ListStorageCheckpointer",
    "NestedStorageCheckpointer",
    "StorageCheckpointerBase",
    "StorageEnsembleCheckpointer",
    "TensorStorageCheckpointer",
]

_ITEMS = "items.pt"
_METADATA = "storage_metadata.json"


class StorageCheckpointerBase:
    """Writes storages to folders; hooks may change what is written, and what was read."""

    def __init__(self) -> None:
        self._save_hooks: list[Callable[..., Any]] = []
        self._load_hooks: list[Callable[..., Any]] = []

    def register_save_hook(self, hook: Callable[..., Any]) -> None:
        """Have `hook(content, path=folder)` change the content before it is written."""
        self._save_hooks.append(hook)

    def register_load_hook(self, hook: Callable[..., Any]) -> None:
        """Have `hook(content)` change the content after it was read."""
        self._load_hooks.append(hook)

    def dumps(self, storage: Any, path: Any) -> None:
        """Refuse: items of any kind have no form on disk.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"A {type(storage).__name__} cannot be written to a folder; save its state_dict with torch.save, or use a "
            "LazyTensorStorage or LazyMemmapStorage."
        )

    def loads(self, storage: Any, path: Any) -> None:
        """Refuse; see `dumps`.

        Raises:
            RuntimeError: always.
        """
        self.dumps(storage, path)


class TensorStorageCheckpointer(StorageCheckpointerBase):
    """Writes a storage's tensors, all places of them, as memory-mapped files."""

    def dumps(self, storage: Any, path: Any) -> None:
        """Write a storage to a folder.

        Raises:
            RuntimeError: the storage has no items yet.
        """
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        content = self._to_write(storage)
        for hook in self._save_hooks:
            content = hook(content, path=folder)
        collection = not isinstance(content, Tensor) and is_tensor_collection(content)
        mapped_files.copied(content, str(folder))
        described = {"metadata": {}, "is_pytree": not collection, "len": storage._len}
        (folder / _METADATA).write_text(json.dumps(described), encoding="utf-8")

    def loads(self, storage: Any, path: Any) -> None:
        """Read a storage from a folder.

        Raises:
            RuntimeError: a file has not the size that its tensor needs, or the content does not fit the storage.
        """
        folder = Path(path).absolute()
        described = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
        _check_sizes(folder)
        self._load(storage, mapped_files.open_all(str(folder)), int(described["len"]))

    def _to_write(self, storage: Any) -> Any:
        """What is written of a storage."""
        if not storage._known():
            raise RuntimeError("Cannot save a non-initialized storage: it has no items yet.")
        return storage._storage

    def _to_load(self, content: Any) -> Any:
        """What a storage has, of what was written."""
        return content

    def _load(self, storage: Any, content: Any, taken: int) -> None:
        for hook in self._load_hooks:
            content = hook(content)
        content = self._to_load(content)
        if not storage._known():
            content = TensorDict.clone(content) if is_tensor_collection(content) else _copied(content)
        storage._load_content(content)
        storage._len = taken


class FlatStorageCheckpointer(TensorStorageCheckpointer):
    """Writes episodes without their duplicated observations, which halves what images take; see `TED2Flat`.

    Args:
        done_keys: names of flags; by default "done", "truncated" and "terminated".
        reward_keys: names of rewards; by default "reward".
    """

    def __init__(self, done_keys: Any = None, reward_keys: Any = None) -> None:
        super().__init__()
        names = {"done_keys": done_keys, "reward_keys": reward_keys}
        given = {name: value for name, value in names.items() if value is not None}
        self._flatten, self._restore = TED2Flat(**given), Flat2TED(**given)

    def _to_write(self, storage: Any) -> Any:
        content = super()._to_write(storage)
        if isinstance(content, Tensor) or not is_tensor_collection(content):
            raise RuntimeError(
                f"{type(self).__name__} writes tensordicts; use a TensorStorageCheckpointer for other items."
            )
        rows = storage._max_size_along_dim0
        self._flatten._dims = storage.ndim
        self._flatten.is_full = bool(storage._is_full)
        self._flatten.shift = _behind(storage, rows) if storage._is_full else storage._rows()
        return self._flatten(content)

    def _to_load(self, content: Any) -> Any:
        return self._restore(content)


class NestedStorageCheckpointer(FlatStorageCheckpointer):
    """Writes episodes one behind the other, without their duplicated observations, and places that were not written.

    A checkpoint takes as much of the disk as there are items, whatever the storage could hold; see `TED2Nested`.

    Args:
        done_keys: names of flags; by default "done", "truncated" and "terminated".
        reward_keys: names of rewards; by default "reward".
    """

    def __init__(self, done_keys: Any = None, reward_keys: Any = None) -> None:
        super().__init__(done_keys, reward_keys)
        names = {"done_keys": done_keys, "reward_keys": reward_keys}
        given = {name: value for name, value in names.items() if value is not None}
        self._flatten, self._restore = TED2Nested(**given), Nested2TED(**given)

    def _to_write(self, storage: Any) -> Any:
        nested = super()._to_write(storage)
        content = TensorDict({}, [])
        for key, value in nested.items(True, True):
            rows: Any = value
            if isinstance(value, Tensor):
                content.set(("values", *as_key(key)), rows.values())
                content.set(("offsets", *as_key(key)), rows.offsets())
        return self._described(nested, content)

    def _described(self, source: Any, target: Any) -> Any:
        """A form with what another one says of the storage."""
        for name in (self._flatten.shift_key, self._flatten.is_full_key, "_storage_shape"):
            found = source.get(name)
            target.set_non_tensor(name, getattr(found, "data", found))
        return target

    def _to_load(self, content: Any) -> Any:
        offsets, values = content.get("offsets"), content.get("values")
        count = len(next(iter(offsets.values(True, True)))) - 1
        nested = TensorDict({}, [count])
        for key, value in values.items(True, True):
            starts = offsets.get(key).as_subclass(Tensor)
            nested.set(key, torch.nested.nested_tensor_from_jagged(value.as_subclass(Tensor), starts))
        return super()._to_load(self._described(content, nested))


def as_key(key: Any) -> tuple[str, ...]:
    """A nested key."""
    return (key,) if isinstance(key, str) else tuple(key)


class H5StorageCheckpointer(FlatStorageCheckpointer):
    """Writes the same to one HDF5 file; needs h5py.

    Args:
        checkpoint_file: the file's name.
        done_keys: see `FlatStorageCheckpointer`.
        reward_keys: see `FlatStorageCheckpointer`.
        h5_kwargs: arguments of `h5py.Group.create_dataset`, such as `{"compression": "gzip"}`.
        kwargs: the same, one by one.
    """

    def __init__(
        self,
        *,
        checkpoint_file: str = "checkpoint.h5",
        done_keys: Any = None,
        reward_keys: Any = None,
        h5_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(done_keys, reward_keys)
        self.checkpoint_file = checkpoint_file
        self.h5_kwargs = {**(h5_kwargs or {}), **kwargs}

    def dumps(self, storage: Any, path: Any) -> None:
        """Write a storage to a file in a folder.

        Raises:
            RuntimeError: the storage has no items yet.
            ModuleNotFoundError: h5py is not installed.
        """
        import h5py

        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        content = self._to_write(storage)
        with h5py.File(folder / self.checkpoint_file, "w") as file:
            file.attrs["len"] = storage._len
            file.attrs["format"] = "flat"
            for key, value in content.items(True, True):
                name = "/".join(key) if isinstance(key, tuple) else key
                plain = value.as_subclass(Tensor).cpu()
                array = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
                made = file.create_dataset(name, data=array.numpy(), **self.h5_kwargs)
                made.attrs["dtype"] = str(plain.dtype).removeprefix("torch.")
            for name in (self._flatten.shift_key, self._flatten.is_full_key, "_storage_shape"):
                found = content.get(name)
                file.attrs[name] = json.dumps(getattr(found, "data", found))

    def loads(self, storage: Any, path: Any) -> None:
        """Read a storage from a file that `dumps` wrote.

        Raises:
            RuntimeError: a file of another layout, or content that does not fit the storage.
        """
        import h5py

        file_name = Path(path).absolute() / self.checkpoint_file
        with h5py.File(file_name, "r") as file:
            if file.attrs.get("format") != "flat":
                raise RuntimeError(f"{file_name} has another layout than H5StorageCheckpointer writes.")
            content = TensorDict({}, [])

            def read(name: str, node: Any) -> None:
                if isinstance(node, h5py.Dataset):
                    dtype = getattr(torch, node.attrs["dtype"])
                    found = torch.from_numpy(node[()])
                    key = tuple(name.split("/"))
                    content.set(key, found.view(dtype) if dtype == torch.bfloat16 else found.to(dtype))

            file.visititems(read)
            for name, value in file.attrs.items():
                if name not in ("len", "format"):
                    content.set_non_tensor(name, json.loads(value))
            taken = int(file.attrs["len"])
        self._load(storage, content, taken)


class ListStorageCheckpointer(StorageCheckpointerBase):
    """Writes a list's items, tensors, tensordicts and plain values, to one file, `items.pt`."""

    def dumps(self, storage: Any, path: Any) -> None:
        """Write a storage to a folder.

        Raises:
            RuntimeError: an item that could only be read by running code it names.
        """
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        content = storage.state_dict()["_storage"]
        for hook in self._save_hooks:
            content = hook(content, path=folder)
        torch.save(content, folder / _ITEMS)
        try:
            torch.load(folder / _ITEMS, weights_only=True, mmap=True)
        except pickle.UnpicklingError as error:
            (folder / _ITEMS).unlink()
            raise RuntimeError(
                f"A {type(storage).__name__} is written to a folder if its items are tensors, tensordicts and plain "
                f"values: {error}. Save others yourself, or keep them as tensors."
            ) from error
        described = {"metadata": {}, "is_pytree": True, "len": len(storage)}
        (folder / _METADATA).write_text(json.dumps(described), encoding="utf-8")

    def loads(self, storage: Any, path: Any) -> None:
        """Read a storage from a folder."""
        content = torch.load(Path(path).absolute() / _ITEMS, weights_only=True)
        for hook in self._load_hooks:
            content = hook(content)
        storage.load_state_dict({"_storage": content})


class CompressedListStorageCheckpointer(ListStorageCheckpointer):
    """Writes a list's compressed items, as they are, to one file."""


class StorageEnsembleCheckpointer(StorageCheckpointerBase):
    """Writes each storage of an ensemble to a folder of its own."""

    def dumps(self, storage: Any, path: Any) -> None:
        """Write the storages below a folder."""
        for at, each in enumerate(storage._storages):
            each.dumps(Path(path).absolute() / str(at))

    def loads(self, storage: Any, path: Any) -> None:
        """Read the storages from a folder that `dumps` wrote."""
        for at, each in enumerate(storage._storages):
            each.loads(Path(path).absolute() / str(at))


def _behind(storage: Any, rows: int) -> int:
    """The place behind the row of a full ring that was written last; the number of rows for the first."""
    last = storage._last_cursor
    if last is None:
        return rows
    if isinstance(last, range):
        last = last[-1]
    elif isinstance(last, slice):
        last = range(*last.indices(rows))[-1]
    elif isinstance(last, tuple):
        last = last[0]
    last = int(last.reshape(-1)[-1]) if isinstance(last, Tensor) else int(last)
    return last + 1


def _copied(content: Any) -> Any:
    return tree_map(lambda leaf: leaf.as_subclass(Tensor).clone(), content)


def _check_sizes(folder: Path) -> None:
    """Each file has as many bytes as its tensor; a shorter one would read as zeros."""
    for described in folder.rglob("meta.json"):
        found = json.loads(described.read_text(encoding="utf-8"))
        for key, entry in found.items():
            if not isinstance(entry, dict) or "dtype" not in entry or "shape" not in entry:
                continue
            file = described.parent / f"{key}.memmap"
            dtype = getattr(torch, str(entry["dtype"]).removeprefix("torch."))
            expected = math.prod(entry["shape"]) * dtype.itemsize
            if not file.exists() or file.stat().st_size != expected:
                size = file.stat().st_size if file.exists() else 0
                raise RuntimeError(
                    f"{file} has {size} bytes, expected {expected}: the checkpoint is damaged; load another one."
                )
