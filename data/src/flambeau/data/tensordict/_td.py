"""`TensorDict`: a dict of tensors and tensor collections that share their leading, batch, dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.errors import EntryWriteError
from flambeau.data.tensordict._layout.index import begins_at_front, indexed_size, is_full, normal_index
from flambeau.data.tensordict._layout.keys import _unravel_key_to_tuple, key_path, missing_key
from flambeau.data.tensordict._layout.non_tensor import spread
from flambeau.data.tensordict._layout.pytree import from_entries, register_tensordict
from flambeau.data.tensordict._layout.sizes import as_device, as_size, leading_shape, refuse_device
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._methods.names import indexed_names, name_list
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._td_functions import *  # noqa: F403  upstream's path of these functions
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._unbatched import UnbatchedTensor
from flambeau.data.tensordict.base import TensorDictBase


class TensorDict(TensorDictBase):
    """An ordered mapping of string keys to tensors, nested collections and non-tensor data.

    The shape of every entry begins with `batch_size`; indexing and shape operations act on these dimensions of all
    entries at once. Nested entries are reached by tuples of strings.

    Args:
        source: what it holds: a mapping (nested dicts become TensorDicts, tuple keys make them) or a tensordict.
        batch_size: the leading dimensions that all entries share. By default none.
        device: where all entries live, to which they are moved; None where each may live anywhere.
        names: of the batch dimensions, None for a dimension without one.
        non_blocking: of copies to `device`.
        lock: lock the tensordict at once.
        kwargs: entries, in place of `source`.

    Raises:
        ValueError: both `source` and entries as keywords.
        RuntimeError: an entry's shape does not begin with the batch size.

    Example:
        >>> td = TensorDict(a=torch.zeros(3, 2), b={"c": torch.ones(3)}, batch_size=[3])
        >>> td[0]["b", "c"]
        tensor(1.)
    """

    _tensordict: dict[str, Any]
    _batch_size: torch.Size
    _device: torch.device | None = None
    _names: list[str | None] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_tensordict(cls, unflatten=cls._from_entries)

    def __init__(
        self,
        source: Any = None,
        batch_size: Sequence[int] | torch.Size | int | None = None,
        device: Any = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if source is None:
            source = kwargs
        elif kwargs:
            raise ValueError("give the entries as a dictionary or as keywords, not both.")
        elif not isinstance(source, (Mapping, TensorCollection)):
            raise ValueError(f"a TensorDict is made of a mapping, but this is a {type(source).__name__}.")
        size = as_size(batch_size)
        entries: dict[str, Any] = {}
        self._tensordict = entries
        self._batch_size = size
        if device is not None:
            self._device = device = as_device(device)
        if names is not None:
            self._names = name_list(names, len(size))
        elif isinstance(source, TensorCollection) and (given := source._names_or_none()) is not None:
            self._names = names = given[: len(size)]
        plain = device is None
        width = len(size)
        for key, value in source.items():
            if type(key) is not str:
                self._set_path(key_path(key), value, non_blocking=bool(non_blocking))
            elif plain and type(value) is Tensor and (not width or leading_shape(value, width) == size):
                entries[key] = value
            elif type(value) is dict and names is None:
                entries[key] = TensorDict(value, size, device)
            else:
                entries[key] = self._validated(key, value, bool(non_blocking))
        if lock:
            self._lock_below(None)

    @classmethod
    def _new_unsafe(
        cls,
        source: Mapping[str, Any] | None = None,
        batch_size: torch.Size | None = None,
        device: torch.device | None = None,
        names: list[str | None] | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> TensorDict:
        """Make one of entries that are known to fit; nothing is checked, converted or copied."""
        td = cls._result(dict(source or kwargs), as_size(batch_size), device, names)
        if lock:
            td._lock_below(None)
        return td

    @classmethod
    def _result(
        cls,
        entries: dict[str, Any],
        batch_size: torch.Size,
        device: torch.device | None = None,
        names: list[str | None] | None = None,
    ) -> Any:
        """What an operation gives: one of the same class, whose constructor is not called."""
        td = cls.__new__(cls)
        td._tensordict = entries
        td._batch_size = batch_size
        if device is not None:
            td._device = device
        if names is not None:
            td._names = names
        return td

    @classmethod
    def _from_entries(cls, values: Any, structure: Any) -> Any:
        """One of the same class from its pytree, whose constructor is not called."""
        td = from_entries(values, structure)
        return cls._result(td._tensordict, td._batch_size, td._device, td._names)

    @classmethod
    def _of_class(cls, td: Any) -> Any:
        if cls is TensorDict or type(td) is not TensorDict:
            return td
        return cls._result(td._tensordict, td._batch_size, td._device, td._names)

    def _plain(self) -> TensorDict:
        if type(self) is TensorDict:
            return self
        entries = {
            key: value._plain() if isinstance(value, TensorDict) else value for key, value in self._tensordict.items()
        }
        return make_td(entries, self._batch_size, self._device, self._names)

    def __copy__(self) -> Any:
        return self.copy()

    # --- primitives

    def _items(self) -> Any:
        return self._tensordict.items()

    def _key_names(self) -> Any:
        return self._tensordict.keys()

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        return self._tensordict.get(key, default)

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
        if inplace:
            target = self._tensordict.get(key)
            if target is not None:
                self._write(key, target, value, non_blocking)
                return
        if self._is_locked and not ignore_lock:
            raise RuntimeError(f"{key!r}: {LOCKED}")
        if not validated:
            value = self._validated(key, value, non_blocking)
        self._tensordict[key] = value
        if self._is_locked:
            self._cache = None
            self._adopt(value)

    def _write(self, key: str, target: Any, value: Any, non_blocking: bool) -> None:
        """Copy a value into the entry that is there."""
        if value is target:
            return
        if isinstance(target, Tensor):
            if not isinstance(value, Tensor):
                value = convert(value, self._batch_size, self._device)
            try:
                target.copy_(value, non_blocking=non_blocking)
            except RuntimeError as error:
                if type(error) is not RuntimeError:  # memory ran out
                    raise
                raise EntryWriteError(
                    f"{key!r} of shape {_shown(target)} cannot take a value of shape {_shown(value)} in place: {error}"
                ) from error
        elif target._is_non_tensor:
            value = target._replaced_by(self._validated(key, value))
            self._set_str(key, value, validated=True, ignore_lock=True)
        else:
            target.update(value, inplace=True, non_blocking=non_blocking)

    def _validated(self, key: str, value: Any, non_blocking: bool = False) -> Any:
        """The entry for a value: converted, on the device, its shape checked."""
        size, device = self._batch_size, self._device
        if type(value) is Tensor and device is None:
            if not size or leading_shape(value, len(size)) == size:
                return value
        elif not isinstance(value, Tensor):
            value = convert(value, size, device)
            if isinstance(value, TensorCollection):
                return self._validated_collection(key, value)
        if device is not None and value.device != device:
            value = value.to(device, non_blocking=non_blocking)
        if isinstance(value, UnbatchedTensor):
            return value._within(size)
        if size and leading_shape(value, len(size)) != size:
            raise RuntimeError(
                f"{key!r} has shape {_shown(value)}, which does not begin with the batch size {list(size)}."
            )
        return value

    def _validated_collection(self, key: str, value: Any) -> Any:
        size, device = self._batch_size, self._device
        if device is not None and value.device != device:
            value = value.to(device)
        if value.batch_size[: len(size)] != size:
            if value._is_non_tensor and not value.batch_size:
                return spread(value, size)
            value = value.copy()
            try:
                value.batch_size = size
            except RuntimeError as error:
                raise RuntimeError(
                    f"{key!r} has batch size {list(value.batch_size)}, which does not begin with {list(size)}: {error}"
                ) from error
        if self._names is not None:
            names = [*self._names, *value.names[len(size) :]]
            if value.names != names:
                value = value.copy()
                value.names = names
        return value

    def _adopt(self, value: Any) -> None:
        """Lock what was set although this tensordict is locked."""
        if isinstance(value, TensorCollection):
            import weakref

            value._lock_below(weakref.ref(self))

    def _del_str(self, key: str) -> None:
        del self._tensordict[key]

    # --- the fast paths of access

    def get(self, key: NestedKey, default: Any = NO_DEFAULT, **kwargs: Any) -> Any:
        """The entry of a key as it is stored; see `TensorDictBase.get`."""
        if not kwargs:
            if type(key) is str:
                value = self._tensordict.get(key)
                return self._or_default(key, default) if value is None else value
            if type(key) is tuple and key:
                value = self
                for part in key:
                    if type(part) is not str or not isinstance(value, TensorDict):
                        break
                    value = value._tensordict.get(part)
                else:
                    return self._or_default(key, default) if value is None else value
        return super().get(key, default, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is str:
            value = self._tensordict.get(index)
            if value is None:
                raise missing_key(index, self._tensordict)
            return value if isinstance(value, Tensor) else value._unwrap()
        if type(index) is int:
            return self._index(index)
        path = _unravel_key_to_tuple(index)
        if not path:
            return self._index(index)
        value = self._get_path(path)
        if value is None:
            raise missing_key(index, self._tensordict)
        return value if isinstance(value, Tensor) else value._unwrap()

    def set(
        self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any
    ) -> Self:
        """Put an entry; see `TensorDictBase.set`."""
        if type(key) is str:
            self._set_str(key, item, inplace=inplace, non_blocking=non_blocking)
            return self
        path = key_path(key)
        holder: Any = self
        for part in path[:-1]:
            holder = holder._tensordict.get(part)
            if type(holder) is not TensorDict:  # absent, or of another kind
                self._set_path(path, item, inplace=inplace, non_blocking=non_blocking)
                return self
        holder._set_str(path[-1], item, inplace=inplace, non_blocking=non_blocking)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is str:
            self._set_str(index, value)
            return
        super().__setitem__(index, value)

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[tuple[NestedKey, Any]]:
        """Pairs of key and entry; the arguments are those of `keys`."""
        if not (include_nested or leaves_only or sort):
            return self._tensordict.items()
        return super().items(include_nested, leaves_only, is_leaf, sort=sort)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[Any]:
        """The entries; the arguments are those of `keys`."""
        if not (include_nested or leaves_only or sort):
            return self._tensordict.values()
        return super().values(include_nested, leaves_only, is_leaf, sort=sort)

    def _index(self, index: Any) -> TensorDict:
        size = self._batch_size
        kind = type(index)
        if kind is not int and is_full(index):
            return self
        if not size and not (index is None or index is Ellipsis or kind is tuple or kind is bool):
            raise RuntimeError(f"a tensordict without batch dimensions cannot be indexed, here with {index!r}.")
        if kind is int:
            if not -size[0] <= index < size[0]:
                raise IndexError(f"index {index} is out of range for batch dimension 0 of size {size[0]}.")
            new_size = size[1:]
        else:
            index = normal_index(index, len(size))
            new_size = indexed_size(size, index)
        names = None if self._names is None else indexed_names(self._names, index)
        data = {
            key: value._within(new_size) if isinstance(value, UnbatchedTensor) else value[index]
            for key, value in self._tensordict.items()
        }
        result = self._result(data, new_size, self._device, names)
        if self._is_memmap and self._is_locked and begins_at_front(index):
            result._is_memmap = True
            result._lock_below(None)
        return result

    @classmethod
    def from_module(
        cls,
        module: torch.nn.Module,
        as_module: bool = False,
        lock: bool = False,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Any:
        """The parameters and buffers of a module; see `TensorDictBase.from_module`.

        Upstream: unlocked by default, unlike the function `from_module`.
        """
        return super().from_module(module, as_module, lock, use_state_dict, filter_empty)

    # --- properties

    @property
    def batch_size(self) -> torch.Size:
        """The dimensions that all entries share; assigning another checks every entry.

        Raises:
            RuntimeError: an entry's shape does not begin with the new batch size.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, new_size: Sequence[int] | torch.Size | int) -> None:
        size = as_size(new_size)
        for key, value in self._tensordict.items():
            if isinstance(value, UnbatchedTensor) or leading_shape(value, len(size)) == size:
                continue
            if not isinstance(value, TensorCollection):
                raise RuntimeError(
                    f"{key!r} has shape {_shown(value)}, which does not begin with the batch size {list(size)}."
                )
            value.batch_size = size
        if self._names is not None:
            self._names = name_list([*self._names[: len(size)], *[None] * (len(size) - len(self._names))], len(size))
        self._batch_size = size

    @property
    def batch_dims(self) -> int:
        """How many dimensions the batch has."""
        return len(self._batch_size)

    @property
    def device(self) -> torch.device | None:
        """Where all entries live; None where each may live anywhere. It is changed by `to`.

        Raises:
            RuntimeError: on assignment.
        """
        return self._device

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    def _names_or_none(self) -> list[str | None] | None:
        return self._names


def _shown(value: Tensor) -> str:
    return "[ragged]" if value.is_nested else str(list(value.shape))


# A TensorDict around a dict that fits and is given away; nothing is checked or copied.
make_td = TensorDict._result

register_tensordict(TensorDict)
