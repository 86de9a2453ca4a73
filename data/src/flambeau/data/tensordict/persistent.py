"""`PersistentTensorDict`: a tensordict in an HDF5 file or Zarr store, whose entries are read when they are used."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.errors import EntryWriteError
from flambeau.data.tensordict._layout.index import indexed_size, normal_index
from flambeau.data.tensordict._layout.keys import key_path, missing_key
from flambeau.data.tensordict._layout.pytree import register_tensordict
from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._methods.access import index_and_default
from flambeau.data.tensordict._methods.locking import HELD
from flambeau.data.tensordict._non_tensor.data import NonTensorData
from flambeau.data.tensordict._non_tensor.stack import NonTensorStack
from flambeau.data.tensordict._stored.array_files import Group, H5Group, ZarrGroup, open_h5, open_zarr, size_text
from flambeau.data.tensordict._stored.base import WHOLE, StoredTensorDict
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._views.sub import _SubTensorDict
from flambeau.data.tensordict.memmap import jsonable, pickles
from flambeau.data.tensordict.memmap.errors import ReadOnlyError
from flambeau.data.tensordict.memmap.keys import decode_key, encode_key

_SIZE, _NAMES, _DTYPE, _VALUE = "flambeau_batch_size", "flambeau_names", "flambeau_dtype", "flambeau_value"
# dtypes that NumPy lacks are stored as integers of their size.
_RAW = {1: (torch.uint8, np.uint8), 2: (torch.int16, np.int16)}


class PersistentTensorDict(StoredTensorDict):
    """A tensordict over a file: groups are nested tensordicts, datasets are entries.

    Reading an entry reads its dataset. Indexing reads nothing: an entry of the part that it gives is read when it is
    used, and no more of it than that. Setting writes at once. Values that are no tensors are text datasets. What other
    operations return is a `TensorDict` in memory.

    Args:
        batch_size: of all entries; None takes what the file says, which says nothing (no dimensions) unless it was
            written by this class.
        filename: of the file or store. Exclusive with `group`.
        group: an open group of h5py or zarr.
        mode: "r" to read, "r+" or "a" to write, "w" to begin anew.
        backend: "h5" or "zarr".
        device: where entries are put when they are read.
        validate_batch_size: check the shapes of all datasets, which reads none.
        kwargs: for new datasets, as `create_dataset` or `create_array` takes them: compression, chunks, ...

    Raises:
        ImportError: h5py (extra `h5`) or zarr is not installed.
        RuntimeError: a dataset's shape does not begin with `batch_size`.

    Example:
        >>> td = PersistentTensorDict(filename="data.h5", mode="w", batch_size=[3])  # doctest: +SKIP
        >>> td["obs", "image"] = torch.zeros(3, 64, 64)  # doctest: +SKIP
        >>> td[0]["obs", "image"].shape  # doctest: +SKIP
        torch.Size([64, 64])
    """

    LOCKING = None
    _outer_keys_first = True
    _infers = False  # whether nested collections have the batch size that their entries share
    _is_handle = False  # whether it is one of several over the same group, of which the file remembers the first

    def __init__(
        self,
        *,
        batch_size: Any = None,
        filename: Any = None,
        group: Any = None,
        mode: str = "r",
        backend: str = "h5",
        device: Any = None,
        validate_batch_size: bool = True,
        **kwargs: Any,
    ) -> None:
        if (filename is None) == (group is None):
            raise RuntimeError("give either the `filename` of a file or an open `group`.")
        self._options, self._backend, self._mode = kwargs, backend, mode
        self._filename, self._file = filename, None
        if group is not None:
            zarr_like = type(group).__module__.startswith("zarr")
            self._group: Group = ZarrGroup(group) if zarr_like else H5Group(group)
            self._mode = _mode_of(group)
        else:
            self._file, self._group = _open(backend, filename, mode)
        known = self._group.attributes()
        self._says_size = _SIZE in known
        if batch_size is None:
            batch_size = json.loads(known.get(_SIZE, "[]"))
        self._batch_size = as_size(batch_size)
        self._device = None if device is None else as_device(device)
        self._names = json.loads(known[_NAMES]) if _NAMES in known else None
        if validate_batch_size:
            self._check_size(self._batch_size)
        if self._writable and _SIZE not in known:
            self._remember_size()

    @classmethod
    def _around(cls, group: Group, parent: PersistentTensorDict) -> Self:
        made = cls.__new__(cls)
        made._group, made._file, made._filename = group, None, parent._filename
        made._options, made._backend, made._mode = parent._options, parent._backend, parent._mode
        made._infers, made._is_handle = parent._infers, parent._is_handle
        made._batch_size = parent._batch_size
        made._batch_size = parent._size_below(group, made)
        made._device, made._names = parent._device, parent._names
        made._is_locked = parent._is_locked
        if made._is_locked:
            # Who asked for a nested one may have dropped what was between it and the whole.
            made._lock_parents = [weakref.ref(parent), *(parent._lock_parents or ())]
        return made

    def _size_below(self, group: Group, child: PersistentTensorDict) -> torch.Size:
        """The batch size of a nested collection."""
        known = group.attributes()
        if self._infers:
            size = _common_size(child)
        else:
            size = torch.Size(json.loads(known[_SIZE])) if _SIZE in known else None
        return self._batch_size if size is None or size[: len(self._batch_size)] != self._batch_size else size

    def _check_unlock(self, parent: Any) -> None:
        for reference in self._lock_parents or ():
            other = reference()
            if other is not None and other is not parent and other.is_locked:
                raise RuntimeError(HELD)

    # --- making

    @classmethod
    def from_h5(  # type: ignore[override]  # here the file stays open
        cls, filename: Any, *, mode: str = "r", batch_size: Any = None, auto_batch_size: bool = False
    ) -> Self:
        """Open an HDF5 file, or an open group of one.

        Args:
            filename: the file or group.
            mode: of the file.
            batch_size: by default what the file says; where it says nothing, the longest that all entries have, and
                for each nested collection the longest that all of its entries have.
            auto_batch_size: let the entries tell, also where the file says something.
        """
        opened: dict[str, Any] = {"group": filename}
        if isinstance(filename, (str, os.PathLike)):
            opened = {"filename": filename, "mode": mode}
        made = cls(**opened, batch_size=batch_size)
        if batch_size is None and (auto_batch_size or not made._says_size):
            made._infers = True
            made.batch_size = _common_size(made) or torch.Size(())
        return made

    @classmethod
    def from_zarr(  # type: ignore[override]  # as above
        cls, filename: Any, *, mode: str = "r", batch_size: Any = None
    ) -> Self:
        """Open a Zarr store, or an open group of one."""
        if type(filename).__module__.startswith("zarr.core.group"):
            return cls(group=filename, batch_size=batch_size, backend="zarr")
        return cls(filename=filename, mode=mode, batch_size=batch_size, backend="zarr")

    @classmethod
    def from_dict(  # type: ignore[override]  # into a file
        cls,
        input_dict: Any,
        filename: Any,
        *,
        auto_batch_size: bool = False,
        batch_size: Any = None,
        device: Any = None,
        backend: str = "h5",
        **kwargs: Any,
    ) -> Self:
        """Write a dict or tensordict into a new file.

        Args:
            input_dict: the entries.
            filename: of the file, which is begun anew.
            auto_batch_size: find the longest common batch size.
            batch_size: by default that of a tensordict.
            device: where entries are put when they are read.
            backend: "h5" or "zarr".
            kwargs: for new datasets.
        """
        source = input_dict
        if isinstance(input_dict, Mapping) and not hasattr(input_dict, "batch_size"):
            source = TensorDict.from_dict(input_dict, auto_batch_size=auto_batch_size, batch_size=batch_size)
        elif auto_batch_size:
            source = input_dict.copy().auto_batch_size_()
        size = source.batch_size if batch_size is None else batch_size
        made = cls(filename=filename, mode="w", batch_size=size, device=device, backend=backend, **kwargs)
        names = source._names_or_none()
        if names is not None:
            made._names = list(names)
            made._group.set_attributes({_NAMES: json.dumps(names)})
        for key, value in source.items():
            made._set_str(key, value)
        return made

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[Any, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Any = None,
        backend: str = "h5",
        device: Any = None,
        storage: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """A new file with datasets of zeros; see `TensorDict.from_schema`."""
        made = cls(mode="w", batch_size=batch_size, backend=backend, device=device, **kwargs)
        for key, (shape, dtype) in schema.items():
            made.set(key, torch.zeros((), dtype=dtype).expand((*made.batch_size, *shape)))
        return made

    # --- primitives

    def _key_names(self) -> Any:
        return dict.fromkeys([decode_key(name) for name in self._group.names()]).keys()

    def _kind(self, key: str) -> type | None:
        item = self._group.get(encode_key(key))
        if item is None:
            return None
        if self._group.is_group(item):
            return PersistentTensorDict
        form = self._group.attributes(item).get(_VALUE)
        if form is None and item.dtype.kind not in "OSUV":
            return Tensor
        return NonTensorStack if form is not None and form.endswith("stack") else NonTensorData

    def _set_str(self, key: str, value: Any, *, inplace: Any = False, **options: Any) -> None:
        if inplace and self._kind(key) is Tensor:
            value = convert(value, self._batch_size, None)
            if isinstance(value, Tensor):
                self._fill(key, value)
                return
        super()._set_str(key, value, inplace=inplace, **options)

    def _fill(self, key: str, value: Tensor) -> None:
        """Write into a dataset, whose shape and dtype stay."""
        item = self._group.get(encode_key(key))
        try:
            value = value.expand(item.shape)
        except RuntimeError as error:
            raise EntryWriteError(
                f"{key!r} of shape {list(item.shape)} cannot take a value of shape {list(value.shape)} in place."
            ) from error
        self._write(key, value.to(_dtype_of(item.dtype, self._group.attributes(item))), WHOLE)

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        item = self._group.get(encode_key(key))
        if item is None:
            return default
        if self._group.is_group(item):
            return self._around(self._group.around(item), self)
        value = self._read_item(item, WHOLE)
        return value if self._device is None else value.to(self._device)

    def _peek_str(self, key: str) -> Any:
        """What tells of an entry whether it is there, and of what kind; no data are read of a tensor."""
        item = self._group.get(encode_key(key))
        if item is None:
            return None
        if self._group.is_group(item):
            return self._around(self._group.around(item), self)
        attributes, held = self._group.attributes(item), item.dtype
        if _VALUE in attributes or held.kind in "OSUV":
            return self._value(item, attributes)
        return torch.empty((), dtype=_dtype_of(held, attributes), device=self._device).expand(item.shape)

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        self._write_at(key, self._group.get(encode_key(key)), value, index)

    def _write_at(self, key: str, item: Any, value: Any, index: Any) -> None:
        if item is None or self._group.is_group(item):
            super()._set_at_str(key, value, index)
            return
        self._check_writable()
        self._write_part(key, encode_key(key), item, value, index)

    def set_at_(self, key: Any, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Write a part of an entry, of which no more is read; see `TensorDictBase.set_at_`."""
        path = key_path(key)
        holder = self._get_path(path[:-1]) if len(path) > 1 else self
        if not isinstance(holder, PersistentTensorDict):
            return super().set_at_(key, value, index, non_blocking=non_blocking)
        item = holder._group.get(encode_key(path[-1]))  # opened once: that takes a third of the time
        if item is None:
            raise missing_key(key, self._key_names())
        holder._write_at(path[-1], item, value, index)
        return self

    def get_at(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        """A part of an entry, of which no more is read; see `TensorDictBase.get_at`."""
        index, default = index_and_default(args, kwargs)
        path = key_path(key)
        holder = self._get_path(path[:-1]) if len(path) > 1 else self
        item = holder._group.get(encode_key(path[-1])) if isinstance(holder, PersistentTensorDict) else None
        if item is None or self._group.is_group(item):
            return super().get_at(key, index, default)
        value = holder._read_item(item, normal_index(index, len(item.shape)))
        return value if self._device is None else value.to(self._device)

    def _index(self, index: Any) -> Any:
        """The part that an index selects, whose entries are read when they are used, and written to the file."""
        return _SubTensorDict(self, index)

    def _get_at_str(self, key: str, index: Any) -> Any:
        item = self._group.get(encode_key(key))
        if item is None:
            return None
        if self._group.is_group(item):
            return _SubTensorDict(self._around(self._group.around(item), self), index)
        value = self._read_item(item, index)
        return value if self._device is None else value.to(self._device)

    def _child(self, key: str) -> PersistentTensorDict:
        return self._around(self._group.child(encode_key(key)), self)

    def _shape(self, key: str) -> torch.Size:
        return torch.Size(self._group.get(encode_key(key)).shape)

    def _read(self, key: str, index: Any) -> Any:
        return self._read_item(self._group.get(encode_key(key)), index)

    def _read_item(self, item: Any, index: Any) -> Any:
        attributes = self._group.attributes(item)
        if _VALUE in attributes or item.dtype.kind in "OSUV":
            value = self._value(item, attributes)
            return value if index is WHOLE else value[index]
        array = np.asarray(item[()]) if index is WHOLE else read_part(item, index)
        tensor = torch.from_numpy(np.array(array, copy=True) if not array.flags.writeable else array)
        if _DTYPE in attributes:
            tensor = tensor.view(getattr(torch, attributes[_DTYPE].removeprefix("torch.")))
        return tensor

    def _value(self, item: Any, attributes: dict[str, Any]) -> Any:
        """A non-tensor entry."""
        raw = attributes.get("text", item[()])
        text = raw.decode() if isinstance(raw, bytes) else raw
        form = attributes.get(_VALUE)
        if form is None:  # another program's
            return NonTensorData._make(text, self._batch_size, self._device)
        if form.startswith("pickle"):
            text = pickles.loads(bytes.fromhex(text), where=str(self._filename))
        elif form != "text":
            text = json.loads(text)
        if form.endswith("stack"):
            return NonTensorStack._from_nested(text, self._device, int(attributes["flambeau_ndim"]))
        return NonTensorData._make(text, self._batch_size, self._device)

    def _write(self, key: str, value: Any, index: Any) -> None:
        self._check_writable()
        name = encode_key(key)
        item = self._group.get(name)
        if index is not WHOLE:
            self._write_part(key, name, item, value, index)
            return
        if not isinstance(value, Tensor):
            self._write_value(name, item, value)
            return
        array, attributes = _to_array(value)
        same = item is not None and not self._group.is_group(item) and item.shape == array.shape
        if same and item.dtype == array.dtype and self._group.attributes(item).get(_DTYPE) == attributes.get(_DTYPE):
            item[...] = array
            return
        self._make_array(name, item, array, attributes, self._options)

    def _make_array(self, name: str, item: Any, data: Any, attributes: dict[str, Any], options: dict[str, Any]) -> None:
        """A new dataset, where there is one already in its place."""
        behind: list[str] = []
        if item is not None:
            names = list(self._group.names())
            behind = names[names.index(name) + 1 :]
            self._group.remove(name)
        self._group.make_array(name, data, attributes, options)
        self._group.put_last(behind)

    def _write_part(self, key: str, name: str, item: Any, value: Any, index: Any) -> None:
        attributes, held = self._group.attributes(item), item.dtype  # h5py asks the file for the type each time
        if _VALUE in attributes or held.kind in "OSUV":
            self._write_value(name, item, self._read(key, WHOLE)._with_item(index, value))
            return
        current = self._read(key, WHOLE) if not _simple(index) else None
        if current is None:
            shape = torch.Size(item.shape)
            value = _number_for(key, value).expand(indexed_size(shape, index))
            item[_from_front(index, shape)] = _to_array(value.to(_dtype_of(held, attributes)))[0]
            return
        current[index] = _number_for(key, value).to(current.dtype)
        item[...] = _to_array(current)[0]

    def _write_value(self, name: str, item: Any, value: Any) -> None:
        stack = type(value).__name__ == "NonTensorStack"
        data = value.tolist() if stack else value.data
        attributes: dict[str, Any] = {"flambeau_ndim": len(value.batch_size)}
        if type(data) is str and not stack:
            form, text = "text", data
        elif jsonable.is_plain(data):
            form, text = "json", jsonable.dumps(data).decode()
        else:
            form, text = "pickle", pickles.dumps(data).hex()
        attributes[_VALUE] = f"{form}-stack" if stack else form
        self._make_array(name, item, text, attributes, {})

    def _make_group(self, key: str) -> PersistentTensorDict:
        self._check_writable()
        return self._around(self._group.make_group(encode_key(key)), self)

    def _remove(self, key: str) -> None:
        self._check_writable()
        self._group.remove(encode_key(key))

    def _set_group(self, key: str, value: Any, kind: type | None) -> None:
        super()._set_group(key, value, kind)
        if value.batch_size != self._batch_size:
            self._group.child(encode_key(key)).set_attributes({_SIZE: size_text(value.batch_size)})

    @StoredTensorDict.batch_size.setter  # type: ignore[attr-defined, untyped-decorator]  # mypy does not follow setters of a base
    def batch_size(self, size: Any) -> None:
        """As for any tensordict, what is nested keeps the batch size that it has."""
        new = as_size(size)
        self._check_size(new)
        if new != self._batch_size and self._writable and not self._is_handle and not self._infers:
            for child in self._collections():
                if _SIZE not in child._group.attributes():
                    child._remember_size()
        self._batch_size = new
        self._remember_size()

    def _remember_size(self) -> None:
        if self._writable and not self._is_handle:
            self._group.set_attributes({_SIZE: size_text(self._batch_size)})

    # --- copies

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A copy, unlocked.

        Args:
            recurse: copy what is stored into a temporary file, which goes with the copy. Otherwise it is another view
                of the same file: what is set in one is there in the other.
            kwargs: of no meaning here.
        """
        if recurse:
            return self._in_new_file()
        made = self._view()
        made._names = None if self._names is None else list(self._names)
        return made

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """With a device or batch size alone another view of the same entries; else a `TensorDict`.

        The entries are put on the device when they are read.
        """
        if set(kwargs) != {"batch_size"} or args:
            return super().to(*args, **kwargs)
        resized = self._view()
        resized.batch_size = kwargs["batch_size"]
        return resized._remember("to", self)

    def _view(self) -> Any:
        made = super()._view()
        made._is_handle = True
        return made

    def _in_new_file(self) -> Any:
        folder = tempfile.mkdtemp(prefix="tensordict-")
        remove = functools.partial(_remove_folder, folder, os.getpid())
        try:
            path = f"{folder}/clone.{self._backend}"
            made = type(self).from_dict(self, path, backend=self._backend, device=self._device, **self._options)
        except BaseException:
            remove()
            raise
        weakref.finalize(made, remove)
        return made

    def densify(self, layout: torch.layout = torch.strided) -> Self:
        """This tensordict: no file holds lazy stacks."""
        return self

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """A copy in a temporary file with the entries of a mapping, or given by name; `self` where there is none."""
        if not kwargs and not (args and len(args[0].keys())):
            return self
        return self.clone().update(*args, **kwargs)

    # --- the file

    @property
    def _writable(self) -> bool:
        return self._mode != "r"

    def _check_writable(self) -> None:
        if not self._writable:
            raise ReadOnlyError(f'{self._filename} is opened for reading; open it with mode="r+" to write.')

    def close(self) -> None:
        """Close the file; entries can no longer be read."""
        if self._file is not None and hasattr(self._file, "close"):
            self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._file is None:
            raise TypeError("a part of a PersistentTensorDict cannot be pickled; pickle the one that opened the file.")
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_file", "_group")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # "w" would begin anew what the other process wrote.
        mode = "r" if state["_mode"] == "r" else "r+"
        file, group = _open(state["_backend"], state["_filename"], mode)
        super().__setstate__({**state, "_mode": mode, "_file": file, "_group": group})


def _open(backend: str, filename: Any, mode: str) -> tuple[Any, Group]:
    if backend == "h5":
        return open_h5(filename, mode)
    if backend == "zarr":
        return open_zarr(filename, mode)
    raise ValueError(f"backend is {backend!r}; use 'h5' or 'zarr'.")


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not in a process that it forked, where the last reference may go first
        shutil.rmtree(folder, ignore_errors=True)


def _mode_of(group: Any) -> str:
    file = getattr(group, "file", None)
    if file is not None:
        return str(file.mode)
    return "r" if getattr(group, "read_only", False) else "r+"


def _common_size(td: PersistentTensorDict) -> torch.Size | None:
    """The longest run of leading dimensions that all tensors share, found without reading them; None without any."""
    shared: torch.Size | None = None
    for key in td._key_names():
        kind = td._kind(key)
        if kind is PersistentTensorDict:
            size = _common_size(td._child(key))
        else:
            size = td._shape(key) if kind is Tensor else None
        if size is not None:
            pairs = zip(shared or size, size, strict=False) if shared is None or shared else ()
            shared = torch.Size([one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])
    return shared


def _number_for(key: str, value: Any) -> Tensor:
    value = convert(value, torch.Size(()), None)
    if isinstance(value, Tensor):
        return value
    raise TypeError(f"{key!r} holds a tensor, into which a {type(value).__name__} cannot be written.")


def _dtype_of(held: np.dtype, attributes: dict[str, Any]) -> torch.dtype:
    known = attributes.get(_DTYPE)
    if known is not None:
        return getattr(torch, known.removeprefix("torch."))
    return torch.from_numpy(np.empty(0, dtype=held)).dtype


def _to_array(value: Tensor) -> tuple[np.ndarray, dict[str, Any]]:
    """A tensor as an array, and the attribute that tells of a dtype that NumPy lacks."""
    plain = value.detach().cpu().resolve_conj().resolve_neg()
    try:
        return plain.numpy(), {}
    except TypeError:
        raw = plain.contiguous().view(_RAW[plain.element_size()][0])
        return raw.numpy(), {_DTYPE: str(plain.dtype)}


def _simple(index: Any) -> bool:
    """Whether h5py takes an index as it is: integers and forward slices."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        type(part) is int or (isinstance(part, slice) and (part.step is None or part.step > 0)) for part in parts
    )


def read_part(item: Any, index: Any) -> np.ndarray:
    """The part of a dataset that an index selects; only the rows it needs are read.

    Args:
        item: a dataset of h5py or an array of zarr.
        index: a normal index.
    """
    if _simple(index):
        return np.asarray(item[_from_front(index, item.shape)])
    parts = index if isinstance(index, tuple) else (index,)
    first = parts[0]
    if isinstance(first, Tensor) and first.dtype is torch.bool and first.ndim == 1:
        first = first.nonzero().squeeze(-1)
    if isinstance(first, Tensor) and first.dtype is not torch.bool and len(parts) == 1 and first.numel():
        # h5py wants each row once, in order.
        rows, numbers = torch.unique(first % item.shape[0], return_inverse=True)
        return np.asarray(item[rows.numpy()])[numbers.numpy()]
    whole = torch.from_numpy(np.asarray(item[()]))
    return whole[index].numpy()


def _from_front(index: Any, shape: tuple[int, ...]) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(part % shape[at] if type(part) is int and part < 0 else part for at, part in enumerate(parts))


register_tensordict(PersistentTensorDict)
