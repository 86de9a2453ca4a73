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

__all__ = [
    "CompressedListStorageCheckpointer",
    "ListStorageCheckpointer",
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
        if not storage._known():
            raise RuntimeError("Cannot save a non-initialized storage: it has no items yet.")
        content = storage._storage
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
        content = mapped_files.open_all(str(folder))
        for hook in self._load_hooks:
            content = hook(content)
        if not storage._known():
            content = TensorDict.clone(content) if is_tensor_collection(content) else _copied(content)
        storage._load_content(content)
        storage._len = int(described["len"])


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
