"""Tensordicts whose entries lie in a file or on a server, and are read when they are asked for.

A class brings the primitives listed in `StoredTensorDict`; everything else of a tensordict works on what they read.
In-place operations (`add_`, `zero_`, ...) are done on a copy in memory, which is then written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.index import indexed_size, normal_index
from flambeau.data.tensordict._layout.keys import (
    _TensorDictKeysView,
    _unravel_key_to_tuple,
    bad_key,
    key_path,
    missing_key,
)
from flambeau.data.tensordict._layout.non_tensor import spread
from flambeau.data.tensordict._layout.sizes import as_size, refuse_device
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._methods.names import indexed_names
from flambeau.data.tensordict._methods.written_back import add_in_place_methods
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._td import make_td
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.base import TensorDictBase

# In place of an index, of which None is one.
WHOLE = object()


class _KeysView(_TensorDictKeysView):
    """The keys, found without reading an entry."""

    def __iter__(self) -> Iterator[NestedKey]:
        td: Any = self.tensordict
        return _names(td, self.include_nested, self.leaves_only, self.is_leaf, self.sort)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        path = _unravel_key_to_tuple(key)
        if not path:
            raise TypeError(bad_key(key))
        if len(path) > 1 and not self.include_nested:
            raise TypeError(f"{key!r} is a nested key; ask for it in keys(include_nested=True).")
        return key_of(path) in set(self)


def key_of(path: tuple[str, ...]) -> NestedKey:
    """A flat path as a key."""
    return path[0] if len(path) == 1 else path


def _names(td: Any, nested: bool, leaves_only: bool, is_leaf: Any, sort: bool) -> Iterator[NestedKey]:
    names = list(td._key_names())
    for name in sorted(names) if sort else names:
        kind = td._kind(name)
        collection = issubclass(kind, TensorCollection)
        leaf = is_leaf(kind) if is_leaf is not None else not collection
        if td._outer_keys_first and (leaf or not leaves_only):
            yield name
        if nested and collection and not leaf and not kind._is_non_tensor:
            for below in _names(td._child(name), True, leaves_only, is_leaf, sort):
                yield (name, *below) if isinstance(below, tuple) else (name, below)
        if not td._outer_keys_first and (leaf or not leaves_only):
            yield name


class StoredTensorDict(TensorDictBase):
    """Base of tensordicts over files and servers.

    Primitives, all of plain string keys of one level:

    - `_key_names()`: the keys, in order;
    - `_kind(key)`: the class that an entry is read as, None where there is none;
    - `_child(key)`: a nested tensordict, without reading its entries;
    - `_read(key, index)`: a tensor or non-tensor entry, `WHOLE` or the part that a normal index selects;
    - `_write(key, value, index)`: put a tensor or non-tensor entry, or a part of one that exists;
    - `_make_group(key)`: a new nested tensordict; `_remove(key)`: an entry or group.
    """

    _shares_memory = False  # what is read is a copy
    _outer_keys_first = False  # whether `keys(True)` names a nested collection before what is in it
    _batch_size: torch.Size
    _device: torch.device | None = None
    _names: list[str | None] | None = None

    if TYPE_CHECKING:

        def _kind(self, key: str) -> Any: ...  # a class or None
        def _child(self, key: str) -> Any: ...
        def _read(self, key: str, index: Any) -> Any: ...
        def _write(self, key: str, value: Any, index: Any) -> None: ...
        def _make_group(self, key: str) -> Any: ...
        def _remove(self, key: str) -> None: ...

    # --- what the families of methods are written on

    def _items(self) -> Iterator[tuple[str, Any]]:
        return ((key, self._get_str(key)) for key in list(self._key_names()))

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        kind = self._kind(key)
        if kind is None:
            return default
        if issubclass(kind, TensorCollection) and not kind._is_non_tensor:
            return self._child(key)
        value = self._read(key, WHOLE)
        return value if self._device is None else value.to(self._device)

    def _set_str(
        self,
        key: str,
        value: Any,
        *,
        inplace: Any = False,
        validated: bool = False,
        ignore_lock: bool = False,
        non_blocking: bool = False,
    ) -> None:
        kind = self._kind(key)
        if self._is_locked and not ignore_lock and not (inplace and kind is not None):
            raise RuntimeError(f"{key!r}: {LOCKED}")
        value = self._fitting(key, value)
        if isinstance(value, TensorCollection) and not value._is_non_tensor:
            self._set_group(key, value, kind)
            return
        if kind is not None and issubclass(kind, TensorCollection) and not kind._is_non_tensor:
            self._remove(key)
        self._write(key, value, WHOLE)

    def _fitting(self, key: str, value: Any) -> Any:
        value = convert(value, self._batch_size, None)
        width = len(self._batch_size)
        if value.shape[:width] != self._batch_size:
            if getattr(value, "_is_non_tensor", False) and not value.batch_size:
                return spread(value, self._batch_size)
            raise RuntimeError(
                f"{key!r} has shape {list(value.shape)}; it must begin with the batch size {list(self._batch_size)}."
            )
        return value

    def _set_group(self, key: str, value: Any, kind: type | None) -> None:
        if kind is not None:
            self._remove(key)
        child = self._make_group(key)
        for name, item in value._items():
            child._set_str(name, item)

    def _make_child(self, key: str, *, ignore_lock: bool = False) -> Any:
        if self._is_locked and not ignore_lock:
            raise RuntimeError(f"{key!r}: {LOCKED}")
        if self._kind(key) is not None:
            self._remove(key)
        return self._make_group(key)

    def _del_str(self, key: str) -> None:
        self._remove(key)

    def _index(self, index: Any) -> Any:
        """A `TensorDict` of the parts that an index selects, and of nothing more."""
        index = normal_index(index, len(self._batch_size))
        data: dict[str, Any] = {}
        for key in self._key_names():
            kind = self._kind(key)
            if issubclass(kind, TensorCollection) and not kind._is_non_tensor:
                data[key] = self._child(key)._index(index)
            else:
                value = self._read(key, index)
                data[key] = value if self._device is None else value.to(self._device)
        names = None if self._names is None else indexed_names(self._names, index)
        return make_td(data, indexed_size(self._batch_size, index), self._device, names)

    def masked_select(self, mask: Tensor) -> Any:
        """The elements where a mask over the (first) batch dimensions holds, read into a TensorDict."""
        return StoredTensorDict._index(self, mask)

    def _copied(self) -> Any:
        """All entries in memory: what the result of an operation changes must not be changed here."""
        nested = ((key, value, isinstance(value, TensorCollection)) for key, value in self._items())
        data = {key: value._copied() if collection else value for key, value, collection in nested}
        names = self._names_or_none()
        return make_td(data, self._batch_size, self._device, None if names is None else list(names))

    def __getitems__(self, indices: Any) -> Any:
        """The elements at a list of positions, read into a TensorDict, which workers of a `DataLoader` can send."""
        return StoredTensorDict._index(self, list(indices))

    def _get_at_str(self, key: str, index: Any) -> Any:
        kind = self._kind(key)
        if kind is None:
            return None
        if issubclass(kind, TensorCollection) and not kind._is_non_tensor:
            return classes._SubTensorDict(self._child(key), index)
        value = self._read(key, index)
        return value if self._device is None else value.to(self._device)

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        kind = self._kind(key)
        if kind is None:
            self._zeros_around(key, value, index)
            kind = self._kind(key)
        if issubclass(kind, TensorCollection) and not kind._is_non_tensor:
            self._child(key)[index] = value
        else:
            self._write(key, value, index)

    def _collections(self) -> list[Any]:
        kinds = [(key, self._kind(key)) for key in self._key_names()]
        return [
            self._child(key) for key, kind in kinds if issubclass(kind, TensorCollection) and not kind._is_non_tensor
        ]

    # --- reading without reading all

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> _KeysView:
        """The keys; no entry is read. The arguments are those of `TensorDictBase.keys`."""
        return _KeysView(self, include_nested, leaves_only, is_leaf, sort)

    def __contains__(self, key: NestedKey) -> bool:
        return self._holder(key_path(key)) is not None

    def _holder(self, path: tuple[str, ...]) -> Any:
        """The tensordict that has the entry at a path, None where nothing is there."""
        holder: Any = self
        for name in path[:-1]:
            kind = holder._kind(name)
            if kind is None or not issubclass(kind, TensorCollection) or kind._is_non_tensor:
                return None
            holder = holder._child(name)
        return holder if holder._kind(path[-1]) is not None else None

    def entry_class(self, key: NestedKey) -> type:
        """The class that an entry is read as; the entry is not.

        Raises:
            KeyError: no such entry.
        """
        path = key_path(key)
        holder = self._holder(path)
        if holder is None:
            raise missing_key(key, self._key_names())
        return holder._kind(path[-1])

    def get_at(self, key: NestedKey, idx: Any, default: Any = NO_DEFAULT) -> Any:
        """`td.get(key)[idx]`, for which only these elements are read; see `TensorDictBase.get_at`."""
        path = key_path(key)
        holder = self._holder(path)
        if holder is None:
            if default is NO_DEFAULT:
                raise missing_key(key, self._key_names())
            return default
        kind = holder._kind(path[-1])
        if issubclass(kind, TensorCollection) and not kind._is_non_tensor:
            return holder._child(path[-1])[idx]
        value = holder._read(path[-1], _normal(idx))
        return value if self._device is None else value.to(self._device)

    @classmethod
    def _stack_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        return torch.stack([_loaded(item) for item in tensors], dim, out=out)

    @classmethod
    def _cat_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        return torch.cat([_loaded(item) for item in tensors], dim, out=out)

    # --- properties

    @property
    def batch_size(self) -> torch.Size:
        """The dimensions that all entries share; assigning another checks every entry's shape."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        new = as_size(size)
        self._check_size(new)
        self._batch_size = new
        self._remember_size()

    def _check_size(self, size: torch.Size) -> None:
        for key in self._key_names():
            kind = self._kind(key)
            if issubclass(kind, TensorCollection):
                if not kind._is_non_tensor:
                    self._child(key)._check_size(size)
                continue
            shape = self._shape(key)
            if tuple(shape[: len(size)]) != tuple(size):
                raise RuntimeError(
                    f"{key!r} has shape {list(shape)}, which does not begin with the batch size {list(size)}."
                )

    def _shape(self, key: str) -> torch.Size:
        return self._read(key, WHOLE).shape

    def _remember_size(self) -> None:
        """Store the batch size, where the storage has a place for it."""

    @property
    def device(self) -> torch.device | None:
        """Where entries are put when they are read."""
        return self._device

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    def _names_or_none(self) -> list[str | None] | None:
        return self._names

    def is_contiguous(self) -> bool:
        """Always False: the entries have no memory."""
        return False

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """All entries in memory, as a `TensorDict`."""
        return self.to_tensordict()

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """With a device alone another view of the same entries, which are put there when read; else a `TensorDict`."""
        other = kwargs.get("other")
        if isinstance(other, TensorCollection) and len(kwargs) == 1 and not args:
            if other.device in (None, self._device):
                return self._remember("to", self)
            kwargs = {"device": other.device}
        probe = torch.empty(0)
        only_device = len(args) == 1 and not kwargs and isinstance(args[0], (str, torch.device))
        if only_device or set(kwargs) == {"device"}:
            made = self._view()
            made._is_locked = self._is_locked
            if kwargs.get("device", self) is not None:
                made._device = probe.to(*args, **kwargs).device
            return made._remember("to", self)
        return self.to_tensordict().to(*args, **kwargs)

    def _view(self) -> Any:
        """Another one over the same entries, unlocked, whose device can be changed."""
        passing = ("_lock_parents", "_cache", "_last_op", "_entered", "_is_locked")
        made = object.__new__(type(self))
        made.__dict__.update({name: value for name, value in self.__dict__.items() if name not in passing})
        return made

    # --- what memory cannot do for what lies elsewhere

    def memmap_(  # type: ignore[override]  # it only says what to do instead
        self, prefix: Any = None, copy_existing: bool = False, num_threads: int = 0
    ) -> Any:
        """Not possible: entries stay where they are. `memmap` makes a memory-mapped copy."""
        raise RuntimeError(f"a {type(self).__name__} cannot be memory-mapped in place; use memmap(prefix) for a copy.")

    def share_memory_(self) -> Any:
        """Not possible: entries stay where they are."""
        raise RuntimeError(f"a {type(self).__name__} cannot be put into shared memory; use to_tensordict() first.")

    def pin_memory(self, *args: Any, **kwargs: Any) -> Any:
        """A copy in page-locked memory, as a `TensorDict`."""
        return self.to_tensordict().pin_memory(*args, **kwargs)

    def detach_(self) -> Self:
        """This tensordict: nothing that is read requires gradients."""
        return self

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        """Fill an entry, or all below a nested one, with a number.

        Raises:
            KeyError: no such entry.
        """
        entry = self.get(key, None)
        if entry is None:
            raise missing_key(key, self._key_names())
        if isinstance(entry, Tensor):
            return self.set_(key, torch.full_like(entry, value))
        for name in entry._key_names():
            entry.fill_(name, value)
        return self

    def _written_back(self, local: Any) -> Self:
        for key, value in local._items():
            if isinstance(value, Tensor):
                self._write(key, value, WHOLE)
            elif not value._is_non_tensor:
                self._child(key)._written_back(value)
        return self


def _normal(index: Any) -> Any:
    """An index of an entry, whose dimensions are not known here, with its lists and arrays as tensors."""
    return normal_index(index, 64) if index is not Ellipsis else WHOLE


def _loaded(value: Any) -> Any:
    return value.to_tensordict() if isinstance(value, StoredTensorDict) else value


add_in_place_methods(StoredTensorDict)
