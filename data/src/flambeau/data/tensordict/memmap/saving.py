"""From a tensor collection to the files that hold it, and back to a collection over these files.

`plan` walks the collection and lists what belongs where; nothing is written yet. `commit.py` writes it. `attach`
walks once more and puts the mapped tensors in place of the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict.memmap import jsonable, nested, pickles
from flambeau.data.tensordict.memmap.keys import encode_key
from flambeau.data.tensordict.memmap.layout import META, type_string, with_extras
from flambeau.data.tensordict.memmap.parallel import Leaf
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor

CPU = torch.device("cpu")

# How a leaf's file is opened: path below the root, dtype, shape, and the sizes of a nested tensor.
Open = Callable[[str, torch.dtype, torch.Size, Tensor | None], Tensor]


@dataclass
class Plan:
    """What a save writes.

    Attributes:
        root: the folder, absolute; empty for an archive.
        copy_existing: whether tensors that lie in other files may be copied.
        like: write zeros in place of the elements.
        robust_key: percent-encode keys.
        leaves: tensors, by paths below the root.
        blobs: pickles, by paths below the root.
        metas: the `meta.json` of each folder, the nested before what holds them.
        kept: files that hold their tensor already.
        shared: whether everything goes to shared memory.
        shared_already: tensors that lie in shared memory, by paths.
    """

    root: str
    copy_existing: bool = False
    like: bool = False
    robust_key: bool = True
    leaves: list[Leaf] = field(default_factory=list)
    blobs: list[tuple[str, bytes]] = field(default_factory=list)
    metas: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    shared: bool = False
    shared_already: dict[str, Tensor] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def name(self, folder: str, key: str, suffix: str = "") -> str:
        """The path of an entry.

        Raises:
            ValueError: another entry has it.
        """
        path = join(folder, encode_key(key, robust=self.robust_key) + suffix)
        if path in self.taken or path == join(folder, META):
            raise ValueError(f"key {key!r} needs the file {path}, which another entry has; rename one of them.")
        self.taken.add(path)
        return path


def join(folder: str, name: str) -> str:
    """A path below the root, always with forward slashes."""
    return f"{folder}/{name}" if folder else name


def plan(value: Any, folder: str, current: Plan) -> None:
    """List what belongs into a folder for a collection.

    Raises:
        RuntimeError: a tensor lies in another file, and `copy_existing` is off.
        TypeError: a tensor or value that no file can hold; the message names its key.
    """
    if value._is_non_tensor:
        current.metas.append((folder, _non_tensor_meta(value, folder, current)))
    elif value._is_tensorclass:
        below = current.name(folder, "_tensordict")
        current.metas.append((folder, {"_type": type_string(type(value)), **value._absent_fields()}))
        plan(value._tensordict, below, current)
    elif value._is_lazy_stack:
        for index, item in enumerate(value.tensordicts):
            plan(item, current.name(folder, str(index)), current)
        meta = {"_type": type_string(_saved_class(value)), "stack_dim": value.stack_dim}
        current.metas.append((folder, meta))
    else:
        _plan_entries(value, folder, current)


def _plan_entries(value: Any, folder: str, current: Plan) -> None:
    entries: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Tensor):
            entries[key] = _plan_leaf(key, item, folder, current)
        else:
            plan(item, current.name(folder, key), current)
            entries[key] = {"type": _saved_class(item).__name__}
    meta = with_extras(entries, value._names_or_none())
    meta |= {"shape": list(value.batch_size), "device": "cpu", "_type": type_string(_saved_class(value))}
    current.metas.append((folder, meta))


def _saved_class(value: Any) -> type:
    """The class that a collection comes back as: views and wrappers over tensors come back as TensorDicts."""
    if value._is_non_tensor or value._is_tensorclass:
        return type(value)
    if value._is_lazy_stack:
        return classes.LazyStackedTensorDict
    return classes.TensorDict


def _plan_leaf(key: str, tensor: Tensor, folder: str, current: Plan) -> dict[str, Any]:
    path = current.name(folder, key, ".memmap")
    if tensor.is_nested:
        return _plan_nested(key, tensor, path, folder, current)
    if tensor.layout is not torch.strided:
        raise TypeError(f"{key!r} has layout {tensor.layout}; files hold dense tensors: set its to_dense() instead.")
    plain, record = take_record(tensor)
    _place(tensor, plain, path, current)
    entry: dict[str, Any] = {
        "device": "cpu",
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "is_nested": False,
    }
    if record is not None:
        entry["tensor_type"] = record
    return entry


def _place(tensor: Tensor, plain: Tensor, path: str, current: Plan) -> None:
    nbytes = plain.numel() * plain.element_size()
    target = f"{current.root}/{path}"
    if current.shared and isinstance(tensor, MemoryMappedTensor) and tensor._filename is None and not current.like:
        current.shared_already[path] = tensor
        return
    if isinstance(tensor, MemoryMappedTensor) and tensor._filename is not None:
        if tensor._filename == target and _whole(tensor) and not current.like:
            current.kept.add(path)
            return
        if tensor._filename != target and not current.copy_existing and current.root:
            raise RuntimeError(
                f"a tensor lies in {tensor._filename} already, and would be copied to {target}; if that is meant, pass "
                "copy_existing=True."
            )
    if nbytes:
        current.leaves.append(Leaf(path, None if current.like else plain, nbytes))


def _whole(tensor: MemoryMappedTensor) -> bool:
    """Whether a tensor is all of its file, not a view of some of it."""
    return (
        not tensor._readonly
        and tensor.storage_offset() == 0
        and tensor.is_contiguous()
        and tensor.nbytes == tensor.untyped_storage().nbytes()
    )


def _plan_nested(key: str, tensor: Tensor, path: str, folder: str, current: Plan) -> dict[str, Any]:
    jagged = tensor.layout is torch.jagged
    parts = getattr(tensor, "_nested", None) or nested.take_apart(tensor)
    _place(tensor, parts.flat, path, current)
    sizes = current.name(folder, f"{key}.shape", ".memmap")
    current.leaves.append(Leaf(sizes, parts.sizes, parts.sizes.nbytes))
    entry = {"device": "cpu", "shape": list(parts.sizes.shape), "dtype": str(tensor.dtype), "is_nested": True}
    return {**entry, "layout": "jagged"} if jagged else entry


def take_record(tensor: Tensor) -> tuple[Tensor, dict[str, Any] | None]:
    """A registered tensor type as a plain tensor and the record that makes it one again; others as they are."""
    if type(tensor) is Tensor or isinstance(tensor, MemoryMappedTensor):
        return tensor, None
    tensors = sys.modules.get("flambeau.core.tensors")
    return (tensor, None) if tensors is None else tensors.to_record(tensor)


def give_record(tensor: Tensor, record: dict[str, Any] | None) -> Tensor:
    """Undo `take_record`, over the same memory."""
    if record is None:
        return tensor
    from flambeau.core.tensors import from_record

    return from_record(tensor.as_subclass(Tensor), record)


def _non_tensor_meta(value: Any, folder: str, current: Plan) -> dict[str, Any]:
    """The record of a non-tensor, its value beside it where JSON cannot hold it."""
    if type(value).__name__ == "NonTensorStack":
        data = value.tolist()
        meta = {"_type": type_string(type(value)), "stack_dim": 0, "device": None, "shape": list(value.batch_size)}
        if jsonable.is_plain(data):
            return {**meta, "data": data}
        current.blobs.append((join(folder, "pickle.pkl"), pickles.dumps(data)))
        return {**meta, "data": "pickle.pkl"}
    meta = {"_type": type_string(type(value)), "_is_non_tensor": True, "_metadata": None}
    if jsonable.is_plain(value.data):
        return {"_type": meta.pop("_type"), "data": value.data, **meta}
    current.blobs.append((join(folder, "other.pickle"), pickles.dumps({"data": value.data})))
    return meta


def attach(value: Any, folder: str, robust_key: bool, opened: Open, *, inplace: bool = False) -> Any:
    """The collection over the files that now hold it.

    Args:
        value: what was saved.
        folder: where, below the root.
        robust_key: as it was saved.
        opened: opens a leaf's file.
        inplace: put the tensors into `value` itself.
    """
    if value._is_non_tensor:
        return value if inplace else value.copy()  # `mark` and locking must not reach what was saved
    if value._is_tensorclass:
        inner = attach(value._tensordict, join(folder, "_tensordict"), robust_key, opened, inplace=inplace)
        return value if inplace else value._wrap(inner)
    if value._is_lazy_stack:
        parts = [
            attach(item, join(folder, str(index)), robust_key, opened, inplace=inplace)
            for index, item in enumerate(value.tensordicts)
        ]
        return value if inplace else type(value)(*parts, stack_dim=value.stack_dim)
    entries: dict[str, Any] = {}
    for key, item in value.items():
        path = join(folder, encode_key(key, robust=robust_key))
        if isinstance(item, Tensor):
            entries[key] = _attached(item, f"{path}.memmap", opened)
        else:
            entries[key] = attach(item, path, robust_key, opened, inplace=inplace)
    return _filled(value, entries, inplace)


def _filled(value: Any, entries: dict[str, Any], inplace: bool) -> Any:
    if not inplace:
        names = value._names_or_none()
        names = None if names is None else list(names)
        if isinstance(value, classes.TensorDict):  # a subclass stays what it is
            return value._result(entries, value.batch_size, CPU, names)
        return classes.make_td(entries, value.batch_size, CPU, names)
    for key, item in entries.items():
        value._set_str(key, item, validated=True, ignore_lock=True)
    value._device = CPU
    return value


def _attached(tensor: Tensor, path: str, opened: Open) -> Tensor:
    if tensor.is_nested:
        parts = getattr(tensor, "_nested", None) or nested.take_apart(tensor)
        made = opened(path, tensor.dtype, torch.Size([nested.numel(parts.sizes)]), parts.sizes)
        if tensor.layout is torch.jagged:
            return nested.to_jagged(getattr(made, "_nested", parts).flat, parts.sizes)
        return made
    _, record = take_record(tensor)
    return give_record(opened(path, tensor.dtype, tensor.shape, None), record)
