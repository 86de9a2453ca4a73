"""Saving and loading as the methods of tensordicts call them: folders, archives and shared memory under one door."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.memmap import archive, nested
from flambeau.data.tensordict.memmap.commit import commit, write_meta, write_whole
from flambeau.data.tensordict.memmap.errors import ReadOnlyError
from flambeau.data.tensordict.memmap.files import check_mode
from flambeau.data.tensordict.memmap.future import in_background
from flambeau.data.tensordict.memmap.keys import candidates, encode_key
from flambeau.data.tensordict.memmap.layout import EXTRA, META, RESERVED, split_meta, type_string, with_extras
from flambeau.data.tensordict.memmap.loading import Folder, Reader, Source, load_folder
from flambeau.data.tensordict.memmap.parallel import run_all
from flambeau.data.tensordict.memmap.saving import Plan, attach, plan
from flambeau.data.tensordict.memmap.shared import SharedHandle
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor

_ALIGN = 64


@dataclass(frozen=True)
class Saved:
    """Where a memory-mapped tensordict lies.

    Attributes:
        prefix: its folder; None for shared memory.
        robust_key: how its keys are encoded.
        mode: of the maps: "r+", "r" or "c".
    """

    prefix: str | None
    robust_key: bool = True
    mode: str = "r+"


@dataclass(frozen=True)
class SaveOptions:
    """See `TensorDictBase.memmap`; `like` writes zeros."""

    copy_existing: bool = False
    num_threads: int = 0
    existsok: bool = True
    robust_key: bool = True
    fsync: bool = False
    like: bool = False


@dataclass(frozen=True)
class LoadOptions:
    """See `TensorDictBase.load_memmap`."""

    device: Any = None
    non_blocking: bool = False
    robust_key: bool = True
    mode: str | None = None
    num_threads: int = 0
    allow_pickle: bool | None = None


def save(value: Any, prefix: Any, options: SaveOptions, *, return_early: bool = False, inplace: bool = False) -> Any:
    """Save to a folder, or put into shared memory; returns the mapped collection, or a future of it."""
    job = functools.partial(_save, value, prefix, options, inplace)
    if not return_early:
        return job()
    if options.num_threads <= 0:
        raise ValueError("return_early=True needs num_threads > 0: somebody else has to write.")
    return in_background(job)


def _save(value: Any, prefix: Any, options: SaveOptions, inplace: bool) -> Any:
    if prefix is None:
        return _share(value, options, inplace)
    root = os.path.abspath(prefix)  # noqa: PTH100 - links stay as they are
    todo = Plan(root, options.copy_existing, options.like, options.robust_key)
    plan(value, "", todo)
    commit(todo, num_threads=options.num_threads, fsync=options.fsync, existsok=options.existsok)
    result = attach(value, "", options.robust_key, Folder(root).tensor, inplace=inplace)
    return mark(result, root, options.robust_key).lock_()


def mark(value: Any, root: str | None, robust_key: bool = True, *, mapped: bool = True, mode: str = "r+") -> Any:
    """Note the folder of a collection over files, and those of the collections below.

    Args:
        value: the collection.
        root: its folder, None for shared memory.
        robust_key: how its keys are encoded.
        mapped: whether `is_memmap` says so.
        mode: of the maps.
    """
    object.__setattr__(value, "_saved", Saved(root, robust_key, mode))  # of a frozen tensorclass, too
    if value._is_non_tensor:
        value.__dict__["_is_memmap"] = mapped
        return value
    if value._is_tensorclass:
        mark(value._tensordict, None if root is None else f"{root}/_tensordict", robust_key, mapped=mapped, mode=mode)
        return value
    value._is_memmap = mapped
    for name, item in _parts(value):
        below = None if root is None else f"{root}/{encode_key(name, robust=robust_key)}"
        mark(item, below, robust_key, mapped=mapped, mode=mode)
    return value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The collections one level down, by their folders' names."""
    if value._is_lazy_stack:
        return ((str(index), item) for index, item in enumerate(value.tensordicts))
    return ((key, item) for key, item in value.items() if isinstance(item, TensorCollection))


def write_value(place: Saved, value: Any) -> None:
    """Write non-tensor data in place of what is saved there, so that a reader finds the old or the new.

    Raises:
        ReadOnlyError: it was loaded for reading.
    """
    if place.prefix is None or place.mode == "c":
        return
    if place.mode == "r":
        raise ReadOnlyError(f'{place.prefix} was loaded with mode="r"; load it with mode="r+" to change its values.')
    todo = Plan(place.prefix, robust_key=place.robust_key)
    plan(value, "", todo)
    for path, data in todo.blobs:  # first what the record will refer to
        write_whole(f"{place.prefix}/{path}", data)
    for folder, meta in todo.metas:
        write_meta(place.prefix, folder, meta)


def _share(value: Any, options: SaveOptions, inplace: bool) -> Any:
    """Put every tensor into one piece of shared memory."""
    todo = Plan("", True, options.like, shared=True)
    plan(value, "", todo)
    offsets: dict[str, int] = {}
    end = 0
    for leaf in todo.leaves:
        offsets[leaf.path] = end
        end += -(-leaf.nbytes // _ALIGN) * _ALIGN
    handle = SharedHandle(max(end, 1))
    memory = torch.empty(0, dtype=torch.uint8).set_(handle.storage)
    for leaf in todo.leaves:
        if leaf.tensor is not None:
            start = offsets[leaf.path]
            target = memory[start : start + leaf.nbytes].view(leaf.tensor.dtype).view(leaf.tensor.shape)
            target.copy_(leaf.tensor.detach())

    def opened(path: str, dtype: torch.dtype, shape: torch.Size, sizes: Tensor | None) -> Tensor:
        if path in todo.shared_already:
            return todo.shared_already[path]
        offset = offsets.get(path, 0) // dtype.itemsize
        if sizes is None:
            return MemoryMappedTensor._over(handle.storage, dtype, shape, offset=offset, handler=handle)
        count = nested.numel(sizes)
        flat = torch.empty(0, dtype=dtype).set_(handle.storage, offset, (count,))  # type: ignore[call-overload]  # torch lacks this form
        return nested.from_entries(flat, sizes)

    return mark(attach(value, "", True, opened, inplace=inplace), None).lock_()


def save_archive(value: Any, prefix: Any, options: SaveOptions, compression: Any) -> Any:
    """Save to an archive; returns the collection over it."""
    if prefix is None:
        raise ValueError("an archive needs a file name; pass `prefix`.")
    path = os.path.abspath(prefix)  # noqa: PTH100 - links stay as they are
    if not options.existsok and Path(path).exists():
        raise RuntimeError(f"{path} exists, and existsok is False; choose another name, or allow replacing.")
    todo = Plan("", True, options.like, options.robust_key)
    plan(value, "", todo)
    archive.write(path, todo, compression, fsync=options.fsync)
    source = archive.ArchiveSource(path, "c")
    result = attach(value, "", options.robust_key, source.tensor)
    result._set_device(torch.device("cpu"))
    return result  # unlocked, as what is loaded from an archive


def load(prefix: Any, options: LoadOptions, *, subpath: Any = None, out: Any = None) -> Any:
    """Load from a folder or an archive."""
    device = torch.device(options.device) if options.device is not None else None
    if out is not None and out.device is not None:
        if device is not None and device != out.device:
            raise ValueError(f"device is {device}, but `out` lives on {out.device}; pass one of them.")
        device = out.device
    if options.mode is not None:
        check_mode(options.mode)
    root = os.path.abspath(prefix)  # noqa: PTH100 - links stay as they are

    threaded = device is not None and device.type not in ("cpu", "meta") and options.num_threads > 1

    def reader(source: Source) -> Reader:
        target = None if threaded else device
        return Reader(source, target, options.non_blocking, options.robust_key, options.allow_pickle)

    if os.path.isfile(root):  # noqa: PTH113 - a string is enough
        source = archive.ArchiveSource(root, options.mode or "c")
        loaded = reader(source).read(_archive_folder(source, subpath))
        loaded = _moved(loaded, device, options) if threaded else loaded
        return loaded if out is None else rebind(out, loaded)
    if subpath is not None:
        root = _folder(root, subpath)
    loaded = load_folder(root, reader, options.mode or "r+")  # type: ignore[arg-type]
    loaded = _moved(loaded, device, options) if threaded else loaded
    if device is None or device.type == "cpu":
        mark(loaded, root, options.robust_key, mapped=False, mode=options.mode or "r+")
    return loaded if out is None else rebind(out, loaded)


def refresh(value: Any, allow_pickle: bool | None) -> Any:
    """Load again what a collection was saved as or loaded from, into the collection.

    Raises:
        RuntimeError: it has no folder.
    """
    place = getattr(value, "_saved", None)
    if place is None or place.prefix is None:
        raise RuntimeError("there is nothing to refresh from; save to a folder with memmap_(prefix) first.")
    mapped = value.is_memmap()
    options = LoadOptions(robust_key=place.robust_key, mode=place.mode, allow_pickle=allow_pickle)
    out = load(place.prefix, options, out=value)
    return mark(out, place.prefix, place.robust_key, mode=place.mode) if mapped else out


def _moved(loaded: Any, device: Any, options: LoadOptions) -> Any:
    """A loaded collection on a device, several tensors being read and copied at a time."""
    leaves = loaded._leaves()
    moved: list[Any] = [None] * len(leaves)

    def move(at: int) -> None:
        moved[at] = leaves[at].to(device, non_blocking=options.non_blocking)

    run_all([functools.partial(move, at) for at in range(len(leaves))], options.num_threads)
    return loaded._with_leaves(iter(moved), device, False)


def _names(subpath: Any) -> list[str]:
    return subpath.split("/") if isinstance(subpath, str) else list(key_path(subpath))


def _folder(root: str, subpath: Any) -> str:
    for name in _names(subpath):
        found = [one for one in candidates(name) if Path(root, one).is_dir()]
        root = f"{root}/{found[0] if found else encode_key(name)}"
    return root


def _archive_folder(source: Source, subpath: Any) -> str:
    return "" if subpath is None else "/".join(encode_key(name) for name in _names(subpath))


def rebind(out: Any, loaded: Any) -> Any:
    """Put loaded entries into a tensordict that is there, locked or not; remove the others."""
    if isinstance(out, classes.TensorDictParams):  # whose tensors have to become parameters again
        out._changed(lambda: rebind(out._param_td, loaded))
        out._saved, out._is_memmap = loaded._saved, loaded._is_memmap
        return out
    target, source = (out._tensordict, loaded._tensordict) if out._is_tensorclass else (out, loaded)
    if target._is_lazy_stack and source._is_lazy_stack:
        for mine, new in zip(target.tensordicts, source.tensordicts, strict=True):
            rebind(mine, new)
    else:
        for key in [key for key in target._key_names() if source._get_str(key) is None]:
            target._del_str(key)
        for key, item in source.items():
            mine = target._get_str(key)
            nested_both = isinstance(mine, TensorCollection) and isinstance(item, TensorCollection)
            if nested_both and not mine._is_non_tensor and not item._is_non_tensor:
                rebind(mine, item)
            else:
                target._set_str(key, item, validated=True, ignore_lock=True)
    target._saved, target._is_memmap = source._saved, source._is_memmap
    target._cache = None
    return out


# --- new entries


def add_empty(td: Any, path: tuple[str, ...], shape: Any, dtype: torch.dtype, robust_key: bool) -> Any:
    """A new entry of zeros."""
    holder, file = _place(td, path, robust_key)
    made = MemoryMappedTensor.empty(shape, dtype=dtype, filename=file, existsok=True)
    return _added(holder, path[-1], made, robust_key)


def add_tensor(td: Any, path: tuple[str, ...], tensor: Tensor, copy_data: bool, robust_key: bool) -> Any:
    """A new entry with a tensor's content."""
    holder, file = _place(td, path, robust_key)
    made = MemoryMappedTensor.from_tensor(tensor, filename=file, existsok=True, copy_existing=True, copy_data=copy_data)
    return _added(holder, path[-1], made, robust_key)


def add_storage(
    td: Any, path: tuple[str, ...], storage: torch.UntypedStorage, shape: Any, dtype: torch.dtype, robust_key: bool
) -> Any:
    """A new entry over memory that is mapped already."""
    holder, file = _place(td, path, robust_key)
    mapped = storage.filename
    if file is not None and mapped is not None and os.path.abspath(mapped) != file:  # noqa: PTH100
        raise RuntimeError(f"the storage maps {mapped}, but the entry's file is {file}; map that one.")
    if file is not None and mapped is None:  # memory of this process, which is nowhere else: the file has to hold it
        here = MemoryMappedTensor.from_storage(storage, shape=shape, dtype=dtype)
        made = MemoryMappedTensor.from_tensor(here, filename=file, existsok=True, copy_existing=True)
    else:
        made = MemoryMappedTensor.from_storage(storage, shape=shape, dtype=dtype, filename=file)
    return _added(holder, path[-1], made, robust_key)


def _place(td: Any, path: tuple[str, ...], robust_key: bool) -> tuple[Any, str | None]:
    """The tensordict that gets a new entry, made if it is not there, and the entry's file."""
    if td._saved is None:
        raise RuntimeError("make_memmap adds to a memory-mapped tensordict; call memmap_() on this one first.")
    holder = td
    for name in path[:-1]:
        _check_dense(holder)
        below = holder._get_str(name)
        if below is None:
            below = holder._make_child(name, ignore_lock=True)
            saved = holder._saved
            prefix = None if saved.prefix is None else f"{saved.prefix}/{encode_key(name, robust=robust_key)}"
            object.__setattr__(below, "_saved", replace(saved, prefix=prefix))
            below._is_memmap = holder._is_memmap
            if prefix is not None:
                Path(prefix).mkdir(exist_ok=True)
                _note(holder, name, {"type": "TensorDict"})
                write_meta(prefix, "", _meta_of(below))
        holder = below
    _check_dense(holder)
    if holder._saved.prefix is None:
        return holder, None
    return holder, f"{holder._saved.prefix}/{encode_key(path[-1], robust=robust_key)}.memmap"


def _check_dense(holder: Any) -> None:
    if holder._is_lazy_stack:
        raise RuntimeError("an entry of a lazy stack lies in several files; add to the tensordicts of the stack.")


def _added(holder: Any, key: str, tensor: Any, robust_key: bool) -> Any:
    width = len(holder.batch_size)
    if not tensor.is_nested and tensor.shape[:width] != holder.batch_size:
        raise RuntimeError(
            f"{key!r} has shape {list(tensor.shape)}; it must begin with the batch size {list(holder.batch_size)}."
        )
    holder._set_str(key, tensor, validated=True, ignore_lock=True)
    holder._cache = None
    if holder._saved.prefix is not None:
        sizes = None if tensor._nested is None else tensor._nested.sizes
        if sizes is not None:
            table = f"{holder._saved.prefix}/{encode_key(f'{key}.shape', robust=robust_key)}.memmap"
            MemoryMappedTensor.from_tensor(sizes, filename=table, existsok=True)
        shape = list(tensor.shape if sizes is None else sizes.shape)
        entry = {"device": "cpu", "shape": shape, "dtype": str(tensor.dtype), "is_nested": sizes is not None}
        _note(holder, key, entry)
    return tensor


def _meta_of(td: Any) -> dict[str, Any]:
    return {"shape": list(td.batch_size), "device": "cpu", "_type": type_string(type(td))}


def _note(holder: Any, key: str, entry: dict[str, Any]) -> None:
    """Add an entry to the record of a folder."""
    path = Path(holder._saved.prefix, META)
    meta = json.loads(path.read_text("utf-8"))
    entries, names = split_meta(meta)
    entries[key] = entry
    rest = {name: meta[name] for name in RESERVED - {EXTRA} if name in meta}
    write_meta(holder._saved.prefix, "", {**with_extras(entries, names), **rest})
