"""Consolidation: all tensors of a collection in one storage, which can be a file that carries its structure.

The file is the payload, then the structure as JSON, then the length of the JSON as a little-endian int64. The
structure tells of each tensor its dtype, shape, first and last byte, and padding; of each collection its class. It is
the format of the tensordict library; what that has no place for (the order of mixed keys, tensor types) is a second
JSON between payload and structure, with its length and a mark behind it, which that library passes over.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flambeau.core.files import replace
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.errors import LOCKED
from flambeau.data.tensordict.memmap import jsonable, nested, pickles
from flambeau.data.tensordict.memmap.errors import LayoutError, MissingLayoutError
from flambeau.data.tensordict.memmap.files import allocate, create, room_for
from flambeau.data.tensordict.memmap.future import in_background
from flambeau.data.tensordict.memmap.layout import dtype_named, kind_of
from flambeau.data.tensordict.memmap.parallel import CHUNK_BYTES, pwrite_all, raw_bytes, run_all
from flambeau.data.tensordict.memmap.saved import rebind
from flambeau.data.tensordict.memmap.saving import give_record, take_record
from flambeau.data.tensordict.memmap.tensor import MemoryMappedTensor

_TAIL = struct.Struct("<q")
_WORD = 8
_MARK = b"flambeau"
# What the format says of a collection; nested collections stand beside it under their keys.
_OWN = frozenset({"cls", "non_tensors", "leaves", "cls_metadata"})
# How the names of the parts of a ragged tensor begin.
_RAGGED = ("<NJT", "<NT>", "<NT_SIZES>")


@dataclass(frozen=True)
class Options:
    """See `TensorDictBase.consolidate`."""

    num_threads: int = 0
    device: torch.device | None = None
    non_blocking: bool = False
    share_memory: bool = False
    pin_memory: bool = False
    metadata: bool = False


class Structure(NamedTuple):
    """What a collection is made of.

    Attributes:
        plain: what the format has a place for, which is all that the tensordict library reads.
        beside: the rest. "order" of the keys; "tensor_types"; "leaves" whose keys look like parts of ragged tensors and
            "nested" collections whose keys are words of the format, which would be taken for those; and "below", the
            same of nested collections by their keys.
    """

    plain: dict[str, Any]
    beside: dict[str, Any]

    def child(self, key: str) -> Structure:
        """The structure of a nested collection."""
        nested = self.beside.get("nested", {})
        return Structure(nested[key] if key in nested else self.plain[key], self.beside.get("below", {}).get(key, {}))

    def nested_keys(self) -> list[str]:
        """The keys of the nested collections."""
        return [*(key for key in self.plain if key not in _OWN), *self.beside.get("nested", ())]


@dataclass
class _Piece:
    """A plain tensor on its way into the storage."""

    tensor: Tensor
    start: int
    nbytes: int


class _Layout:
    """Places for tensors, one after the other in the order of the keys."""

    def __init__(self, padded: bool) -> None:
        self.padded, self.end, self.pieces = padded, 0, list[_Piece]()

    def place(self, tensor: Tensor) -> list[Any]:
        """Take a place; returns the entry that tells of it."""
        nbytes = tensor.numel() * tensor.element_size()
        pad = -nbytes % _WORD if self.padded else 0
        start = self.end
        self.pieces.append(_Piece(tensor, start, nbytes))
        self.end = start + nbytes + pad
        return [str(tensor.dtype), list(tensor.shape), start, self.end, pad]


def _padded(plains: list[Tensor]) -> _Layout:
    """A layout in which every tensor begins at a whole word."""
    return _Layout(any((piece.numel() * piece.element_size()) % _WORD for piece in plains))


def consolidate(value: Any, filename: str | None, options: Options, *, inplace: bool, return_early: bool) -> Any:
    """Lay all tensors out in one storage; see `TensorDictBase.consolidate`."""
    if filename is None and value.is_consolidated():
        return value
    if inplace and value.is_locked:
        raise RuntimeError(LOCKED)
    job = partial(_consolidate, value, filename, options, inplace)
    if not return_early:
        return job()
    if options.num_threads <= 0:
        raise ValueError("return_early=True needs num_threads > 0: somebody else has to copy.")
    return in_background(job)


def _consolidate(value: Any, filename: str | None, options: Options, inplace: bool) -> Any:
    plains = [piece for leaf in _leaves(value) for piece in _plain_parts(leaf)]
    layout = _padded(plains)
    structure = describe(value, layout)
    if filename is not None:
        path = os.path.abspath(filename)  # noqa: PTH100 - links stay as they are
        _write(path, layout, structure, options.num_threads)
        result = _from_file(path, value if inplace else None, lock=True)
        return result.to(options.device) if options.device is not None and options.device.type != "cpu" else result
    device = options.device or _device_of(plains)
    storage = _storage(layout.end, device, options)
    _fill(storage, layout, options)
    return adopt(structure, storage, value if inplace else None, type(value), lock=True)


def still_consolidated(value: Any) -> bool:
    """Whether a collection is what was consolidated: unlocked, it may have got other entries since."""
    known = value._consolidated
    if known is None or value.is_locked:
        return known is not None
    storage = known["storage"].untyped_storage()._cdata
    plains = [piece for leaf in _leaves(value) for piece in _plain_parts(leaf)]
    if any(piece.untyped_storage()._cdata != storage or not piece.is_contiguous() for piece in plains):
        return False
    layout = _padded(plains)
    if describe(value, layout) != known["metadata"]:
        return False
    start = known["storage"].storage_offset()
    return all(
        piece.tensor.storage_offset() * piece.tensor.element_size() == start + piece.start for piece in layout.pieces
    )


def _device_of(tensors: list[Tensor]) -> torch.device:
    devices = {tensor.device for tensor in tensors}
    return devices.pop() if len(devices) == 1 else torch.device("cpu")


def _storage(nbytes: int, device: torch.device, options: Options) -> Tensor:
    if options.share_memory and device.type == "cpu":
        return MemoryMappedTensor.empty((nbytes,), dtype=torch.uint8).as_subclass(Tensor)
    return torch.empty(nbytes, dtype=torch.uint8, device=device, pin_memory=options.pin_memory)


def _fill(storage: Tensor, layout: _Layout, options: Options) -> None:
    tasks = [partial(_copy, storage, piece, options.non_blocking) for piece in layout.pieces if piece.nbytes]
    if options.num_threads > 1 and len(tasks) > 1:
        run_all(tasks, options.num_threads)
    else:
        for task in tasks:
            task()
    if options.non_blocking and storage.is_cuda:
        torch.cuda.synchronize(storage.device)


def _copy(storage: Tensor, piece: _Piece, non_blocking: bool) -> None:
    target = storage[piece.start : piece.start + piece.nbytes]
    source = piece.tensor.detach()
    if piece.start % source.element_size() == 0 and source.dtype is not torch.bool:
        target.view(source.dtype).view(source.shape).copy_(source, non_blocking=non_blocking)
    else:
        target.copy_(
            source.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8), non_blocking=non_blocking
        )


def _write(path: str, layout: _Layout, structure: Structure, num_threads: int) -> None:
    """Write the file so that it appears complete."""
    plain, beside = structure
    extra = jsonable.dumps(beside) if beside else b""
    tail = extra + _TAIL.pack(len(extra)) + _MARK if beside else b""
    text = jsonable.dumps(plain)
    tail += text + _TAIL.pack(len(text))
    nbytes = layout.end + len(tail)
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = create(temporary)
    try:
        with room_for(path, nbytes):
            allocate(descriptor, nbytes)
            tasks = [partial(_write_piece, descriptor, *part) for part in _chunks(layout)]
            if num_threads > 1 and len(tasks) > 1:
                run_all(tasks, num_threads)
            else:
                for task in tasks:
                    task()
            pwrite_all(descriptor, memoryview(tail), layout.end)
        os.close(descriptor)
        descriptor = -1
        replace(Path(temporary), Path(path))
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        Path(temporary).unlink(missing_ok=True)


def _chunks(layout: _Layout) -> Iterator[tuple[Tensor, int]]:
    for piece in layout.pieces:
        if piece.nbytes <= CHUNK_BYTES or not piece.tensor.is_contiguous():
            if piece.nbytes:
                yield piece.tensor, piece.start
            continue
        flat = piece.tensor.reshape(-1)
        step = CHUNK_BYTES // flat.element_size()
        for start in range(0, flat.numel(), step):
            yield flat[start : start + step], piece.start + start * flat.element_size()


def _write_piece(descriptor: int, tensor: Tensor, offset: int) -> None:
    pwrite_all(descriptor, raw_bytes(tensor), offset)


# --- structure


def _leaves(value: Any) -> Iterator[Tensor]:
    """All tensors, in the order in which `describe` places them."""
    if value._is_non_tensor:
        return
    if value._is_tensorclass:
        yield from _leaves(value._tensordict)
    elif value._is_lazy_stack:
        for item in value.tensordicts:
            yield from _leaves(item)
    else:
        for _, item in value.items():
            if isinstance(item, Tensor):
                yield item
            else:
                yield from _leaves(item)


def _plain_parts(tensor: Any) -> list[Tensor]:
    if not tensor.is_nested:
        return [tensor]
    if tensor.layout is torch.jagged:
        return [tensor.values(), tensor.offsets(), *([] if tensor.lengths() is None else [tensor.lengths()])]
    parts = nested.take_apart(tensor)
    return [parts.flat, parts.sizes]


def describe(value: Any, layout: _Layout) -> Structure:
    """The structure of a collection, its tensors placed."""
    if value._is_non_tensor:
        return Structure(_describe_stack(value), {})
    if value._is_tensorclass:
        inner = describe(value._tensordict, layout)
        return _structure("TensorClass", {"tensorclass": str(type(value))}, {"_tensordict": inner})
    if value._is_lazy_stack:
        parts = {str(index): describe(item, layout) for index, item in enumerate(value.tensordicts)}
        meta = {"stack_dim": value.stack_dim, "stack_dim_name": None, "is_locked": value.is_locked}
        return _structure("LazyStackedTensorDict", {"cls_metadata": meta}, parts)
    return _describe_tensordict(value, layout)


def _describe_tensordict(value: Any, layout: _Layout) -> Structure:
    leaves: dict[str, Any] = {}
    values: dict[str, Any] = {}
    below: dict[str, Structure] = {}
    beside: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Tensor):
            apart = not item.is_nested and key.startswith(_RAGGED)
            _describe_leaf(key, item, beside.setdefault("leaves", {}) if apart else leaves, beside, layout)
        elif item._is_non_tensor and type(item).__name__ != "NonTensorStack":
            values[key] = _describe_value(item)
        else:
            below[key] = describe(item, layout)
    own = {"non_tensors": values, "leaves": leaves, "cls_metadata": _metadata(value)}
    made = _structure("TensorDict", own, below, beside)
    order = list(value._key_names())
    if order != [*values, *_keys_of(leaves), *beside.get("leaves", ()), *made.nested_keys()]:
        beside["order"] = order
    return made


def _structure(
    cls: str, own: dict[str, Any], below: dict[str, Structure], beside: dict[str, Any] | None = None
) -> Structure:
    """The structure of a collection over those of the nested ones; `beside` is added to."""
    beside = {} if beside is None else beside
    plain = {"cls": cls, "non_tensors": {}, "leaves": {}, "cls_metadata": {}, **own}
    for key, inner in below.items():
        (beside.setdefault("nested", {}) if key in _OWN else plain)[key] = inner.plain
        if inner.beside:
            beside.setdefault("below", {})[key] = inner.beside
    return Structure(plain, beside)


def _keys_of(leaves: dict[str, Any]) -> list[str]:
    """The keys whose tensors the entries tell of."""
    keys = []
    for name in leaves:
        if name.startswith("<NJT_VALUES>"):
            keys.append(name[12:])
        elif name.startswith("<NT>"):
            keys.append(name[4:])
        elif not name.startswith(_RAGGED):
            keys.append(name)
    return keys


def _metadata(value: Any) -> dict[str, Any]:
    device = value.device
    names = value._names_or_none()
    return {
        "device": None if device is None else str(device),
        "names": [None] * len(value.batch_size) if names is None else list(names),
        "batch_size": list(value.batch_size),
        "is_locked": value.is_locked,
    }


def _describe_leaf(key: str, tensor: Tensor, leaves: dict[str, Any], beside: dict[str, Any], layout: _Layout) -> None:
    if not tensor.is_nested:
        plain, record = take_record(tensor)
        leaves[key] = layout.place(plain)
        if record is not None:
            beside.setdefault("tensor_types", {})[key] = record
        return
    parts = _plain_parts(tensor)
    if tensor.layout is torch.jagged:
        leaves[f"<NJT_VALUES>{key}"] = layout.place(parts[0])
        leaves[f"<NJT_OFFSETS>{key}"] = [*layout.place(parts[1]), tensor._ragged_idx]  # type: ignore[attr-defined]
        if len(parts) == 3:
            leaves[f"<NJT_LENGTHS>{key}"] = layout.place(parts[2])
        return
    leaves[f"<NT>{key}"] = layout.place(parts[0])
    leaves[f"<NT_SIZES>{key}"] = layout.place(parts[1])


def _describe_value(item: Any) -> list[Any]:
    """A value as JSON, or as a pickle in hexadecimal digits, which the fourth place says."""
    device = None if item.device is None else str(item.device)
    if jsonable.is_plain(item.data) and type(item).__name__ == "NonTensorData":
        return [item.data, list(item.batch_size), device]
    return [pickles.dumps(item.data).hex(), list(item.batch_size), device, type(item).__name__]


def _describe_stack(stack: Any) -> dict[str, Any]:
    if type(stack).__name__ != "NonTensorStack":
        return {
            "cls": "NonTensorData",
            "non_tensors": {"data": _describe_value(stack)},
            "leaves": {},
            "cls_metadata": {},
        }
    meta = {"stack_dim": stack.stack_dim, "stack_dim_name": None, "is_locked": False}
    structure: dict[str, Any] = {"cls": "NonTensorStack", "non_tensors": {}, "leaves": {}, "cls_metadata": meta}
    for index, item in enumerate(stack.tensordicts):
        if type(item).__name__ == "NonTensorStack":
            structure[str(index)] = _describe_stack(item)
        else:
            structure["non_tensors"][str(index)] = _describe_value(item)
    return structure


# --- and back


def adopt(structure: Structure, storage: Tensor, into: Any = None, cls: Any = None, lock: bool = False) -> Any:
    """The collection that a structure describes, over a storage.

    Args:
        structure: what `describe` gave.
        storage: uint8.
        into: an existing collection of this structure, whose tensors are exchanged.
        cls: of the collection, where that is derived from TensorDict, of which the structure knows nothing.
        lock: lock it, whether or not what was described was locked.
    """
    made = _Maker(storage).collection(structure)
    if into is not None:
        made = rebind(into, made)
    elif cls is not None and cls is not classes.TensorDict and issubclass(cls, classes.TensorDict):
        made = cls._result(dict(made._items()), made.batch_size, made.device, made._names_or_none())
    return _note(made.lock_() if lock else made, storage, structure)


def _note(made: Any, storage: Tensor, structure: Structure) -> Any:
    object.__setattr__(
        made, "_consolidated", {"storage": storage, "metadata": structure}
    )  # of a frozen tensorclass, too
    return made


def moved(value: Any, device: torch.device, non_blocking: bool | None) -> Any:
    """A consolidated collection on another device; the storage is copied as one."""
    known = value._consolidated
    storage = known["storage"].to(device, non_blocking=bool(non_blocking))
    where = str(storage.device)
    plain, beside = known["metadata"]
    structure = Structure(_on_device(plain, where), _beside_on_device(beside, where))
    return adopt(structure, storage, None, type(value), lock=value.is_locked)


def _on_device(plain: dict[str, Any], device: str) -> dict[str, Any]:
    """A structure whose tensordicts live on a device."""
    changed = {
        key: value if key in _OWN or not isinstance(value, dict) else _on_device(value, device)
        for key, value in plain.items()
    }
    if "device" in plain["cls_metadata"]:
        changed["cls_metadata"] = {**plain["cls_metadata"], "device": device}
    changed["non_tensors"] = {
        key: [data, size, device, *rest] for key, (data, size, _, *rest) in plain["non_tensors"].items()
    }
    return changed


def _beside_on_device(beside: dict[str, Any], device: str) -> dict[str, Any]:
    changed = dict(beside)
    if "nested" in beside:
        changed["nested"] = {key: _on_device(plain, device) for key, plain in beside["nested"].items()}
    if "below" in beside:
        changed["below"] = {key: _beside_on_device(inner, device) for key, inner in beside["below"].items()}
    return changed


class _Maker:
    """Collections over one storage."""

    def __init__(
        self, storage: Tensor, where: str = "the consolidated storage", allow_pickle: bool | None = None
    ) -> None:
        self.storage, self.where, self.allow_pickle = storage, where, allow_pickle

    def collection(self, structure: Structure) -> Any:
        """The collection that a structure describes."""
        try:
            makers: dict[str, Any] = {
                "TensorDict": self._tensordict,
                "TensorClass": self._tensorclass,
                "LazyStackedTensorDict": self._lazy_stack,
                "NonTensorStack": self._stack,
                "NonTensorData": lambda one: self._value(one.plain["non_tensors"]["data"]),
            }
            return makers[structure.plain["cls"]](structure)
        except (KeyError, TypeError) as error:
            if isinstance(error, LayoutError):
                raise
            raise LayoutError(f"{self.where} is damaged ({error!r}); consolidate again.") from error

    def _tensordict(self, structure: Structure) -> Any:
        plain, beside = structure
        meta = plain["cls_metadata"]
        data = {key: self._value(entry) for key, entry in plain["non_tensors"].items()}
        records = beside.get("tensor_types", {})
        data |= self._leaves(plain["leaves"], records)
        for key, entry in beside.get("leaves", {}).items():
            data[key] = give_record(self._plain(entry), records.get(key))
        data |= {key: self.collection(structure.child(key)) for key in structure.nested_keys()}
        if "order" in beside:
            data = {key: data[key] for key in beside["order"]}
        device = None if meta["device"] is None else self.storage.device
        names = meta["names"] if any(name is not None for name in meta["names"]) else None
        made = classes.make_td(data, torch.Size(meta["batch_size"]), device, names)
        return made.lock_() if meta.get("is_locked") else made

    def _leaves(self, entries: dict[str, Any], records: dict[str, Any]) -> dict[str, Tensor]:
        made: dict[str, Tensor] = {}
        for name, entry in entries.items():
            if name.startswith("<NJT_VALUES>"):
                made[name[12:]] = self._jagged(name[12:], entries)
            elif name.startswith("<NT>"):
                key = name[4:]
                made[key] = nested.from_entries(self._plain(entry), self._plain(entries[f"<NT_SIZES>{key}"]))
            elif not name.startswith(_RAGGED):
                made[name] = give_record(self._plain(entry), records.get(name))
        return made

    def _jagged(self, key: str, entries: dict[str, Any]) -> Tensor:
        offsets = entries[f"<NJT_OFFSETS>{key}"]
        lengths = entries.get(f"<NJT_LENGTHS>{key}")
        return torch.nested.nested_tensor_from_jagged(
            self._plain(entries[f"<NJT_VALUES>{key}"]),
            self._plain(offsets),
            None if lengths is None else self._plain(lengths),
            jagged_dim=offsets[5] if len(offsets) > 5 else 1,
        )

    def _plain(self, entry: list[Any]) -> Tensor:
        dtype, shape, start = dtype_named(entry[0], self.where), torch.Size(entry[1]), entry[2]
        nbytes = shape.numel() * dtype.itemsize
        if start + nbytes > len(self.storage):
            raise LayoutError(
                f"{self.where} is cut short: a tensor ends at byte {start + nbytes:,}; consolidate again."
            )
        part = self.storage[start : start + nbytes]
        if part.storage_offset() % dtype.itemsize:
            part = part.clone()
        return part.view(dtype).view(shape)

    def _value(self, entry: list[Any]) -> Any:
        data, size, device = entry[:3]
        cls = classes.NonTensorData
        if len(entry) > 3:
            data = pickles.loads(bytes.fromhex(data), where=self.where, allow_pickle=self.allow_pickle)
            cls = classes.MetaData if entry[3] == "MetaData" else classes.NonTensorData
        return cls(data, batch_size=torch.Size(size), device=device)

    def _tensorclass(self, structure: Structure) -> Any:
        cls: Any = kind_of(structure.plain["tensorclass"], self.where, trusted=self.allow_pickle)
        return cls.from_tensordict(self.collection(structure.child("_tensordict")), safe=False)

    def _parts(self, structure: Structure) -> list[Any]:
        values = {int(key): self._value(entry) for key, entry in structure.plain["non_tensors"].items()}
        values |= {int(key): self.collection(structure.child(key)) for key in structure.plain if key.isdigit()}
        return [values[index] for index in sorted(values)]

    def _lazy_stack(self, structure: Structure) -> Any:
        meta = structure.plain["cls_metadata"]
        made = classes.LazyStackedTensorDict(*self._parts(structure), stack_dim=meta["stack_dim"])
        return made.lock_() if meta.get("is_locked") else made

    def _stack(self, structure: Structure) -> Any:
        return classes.NonTensorStack(*self._parts(structure), stack_dim=structure.plain["cls_metadata"]["stack_dim"])


def from_consolidated(filename: str, *, allow_pickle: bool | None = None) -> Any:
    """Map a file that `consolidate` wrote; see `TensorDictBase.from_consolidated`."""
    return _from_file(os.path.abspath(filename), None, allow_pickle)  # noqa: PTH100 - links stay as they are


def _read_beside(file: Any, end: int) -> bytes:
    """The second JSON, which ends where the structure begins; empty where there is none."""
    head = end - _TAIL.size - len(_MARK)
    if head < 0:
        return b""
    file.seek(head)
    length = _TAIL.unpack(file.read(_TAIL.size))[0]
    if file.read(len(_MARK)) != _MARK or not 0 < length <= head:
        return b""
    file.seek(head - length)
    text: bytes = file.read(length)
    return text


def _from_file(path: str, into: Any, allow_pickle: bool | None = None, *, lock: bool = False) -> Any:
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - a string is enough
    except FileNotFoundError:
        raise MissingLayoutError(f"{path} is missing; write it with consolidate({path!r}).") from None
    with open(path, "rb") as file:  # noqa: PTH123 - a string is enough
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        length = _TAIL.unpack(tail)[0] if len(tail) == _TAIL.size else -1
        if not 0 < length <= size - _TAIL.size:
            raise LayoutError(
                f"{path} does not end as a consolidated TensorDict does: it was cut short or is another file."
            )
        start = size - _TAIL.size - length
        file.seek(start)
        text = file.read(length)
        extra = _read_beside(file, start)
    try:
        structure = Structure(json.loads(text), json.loads(extra) if extra else {})
    except ValueError as error:
        raise LayoutError(f"{path} is damaged ({error}); restore it, or consolidate again.") from error
    end = size - _TAIL.size - length
    storage: Any = (
        torch.UntypedStorage.from_file(path, os.access(path, os.W_OK), end) if end else torch.UntypedStorage(0)
    )
    memory = torch.empty(0, dtype=torch.uint8).set_(storage)
    made = _Maker(memory, path, allow_pickle).collection(structure)
    if into is not None:
        made = rebind(into, made)
    if lock:
        made._set_device(torch.device("cpu"))  # files are mapped there, wherever the tensors were
        made.lock_()
    return _note(made, memory, structure)
