"""`PersistentTensorDict`: a tensordict in an HDF5 file or Zarr store, whose entries are read when they are used."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.index import indexed_size, normal_index
from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._layout.pytree import register_tensordict
from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._methods.access import index_and_default
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
            raise ValueError("give either the `filename` of a file or an open `group`.")
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
        known = group.attributes()
        size = torch.Size(json.loads(known[_SIZE])) if _SIZE in known else parent._batch_size
        made._batch_size = size if size[: len(parent._batch_size)] == parent._batch_size else parent._batch_size
        made._device, made._names = parent._device, parent._names
        made._is_locked = parent._is_locked
        return made

    # --- making

    @classmethod
    def from_h5(  # type: ignore[override]  # here the file stays open
        cls, filename: Any, *, mode: str = "r", batch_size: Any = None
    ) -> Self:
        """Open an HDF5 file, or an open group of one.

        Args:
            filename: the file or group.
            mode: of the file.
            batch_size: by default what the file says; where it says nothing, the longest that all entries have.
        """
        opened: dict[str, Any] = {"group": filename}
        if isinstance(filename, (str, os.PathLike)):
            opened = {"filename": filename, "mode": mode}
        made = cls(**opened, batch_size=batch_size)
        if batch_size is None and not made._says_size:
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

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        item = self._group.get(encode_key(key))
        if item is None:
            return default
        if self._group.is_group(item):
            return self._around(self._group.around(item), self)
        value = self._read_item(item, WHOLE)
        return value if self._device is None else value.to(self._device)

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        item = self._group.get(encode_key(key))
        if item is None or self._group.is_group(item):
            super()._set_at_str(key, value, index)
            return
        self._check_writable()
        self._write_part(key, encode_key(key), item, value, index)

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
        if item is not None:
            self._group.remove(name)
        self._group.make_array(name, array, attributes, self._options)

    def _write_part(self, key: str, name: str, item: Any, value: Any, index: Any) -> None:
        attributes = self._group.attributes(item)
        if _VALUE in attributes or item.dtype.kind in "OSUV":
            self._write_value(name, item, self._read(key, WHOLE)._with_item(index, value))
            return
        current = self._read(key, WHOLE) if not _simple(index) else None
        if current is None:
            size = indexed_size(torch.Size(item.shape), index)
            value = convert(value, torch.Size(()), None).expand(size)
            item[_from_front(index, item.shape)] = _to_array(value.to(_dtype_of(item, attributes)))[0]
            return
        current[index] = convert(value, torch.Size(()), None).to(current.dtype)
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
        if item is not None:
            self._group.remove(name)
        self._group.make_array(name, text, {**attributes, _VALUE: f"{form}-stack" if stack else form}, {})

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

    def _remember_size(self) -> None:
        if self._writable:
            self._group.set_attributes({_SIZE: size_text(self._batch_size)})

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


def _dtype_of(item: Any, attributes: dict[str, Any]) -> torch.dtype:
    known = attributes.get(_DTYPE)
    if known is not None:
        return getattr(torch, known.removeprefix("torch."))
    return torch.from_numpy(np.empty(0, dtype=item.dtype)).dtype


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
