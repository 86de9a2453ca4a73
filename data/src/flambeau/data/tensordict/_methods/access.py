"""Reading and writing entries by key or index.

A class of tensordicts brings six primitives, all of them on plain strings, and gets the rest from here:
`_items()`, `_key_names()`, `_get_str(key)` (None where absent), `_set_str(key, value, ...)`, `_del_str(key)`,
`_index(index)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT, _get_defaults_to_none
from flambeau.data.tensordict._layout.index import indexed_size, is_full, normal_index
from flambeau.data.tensordict._layout.keys import (
    _TensorDictKeysView,
    _unravel_key_to_tuple,
    key_path,
    missing_key,
    walk,
    walk_keys,
)
from flambeau.data.tensordict._layout.non_tensor import resized
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class AccessMethods(CollectionMethods):
    """Entries by key and by index."""

    # --- reading

    def get(self, key: NestedKey, default: Any = NO_DEFAULT, **kwargs: Any) -> Any:
        """The entry of a key as it is stored; non-tensor data come in their wrapper.

        Args:
            key: a string, or a tuple of strings for a nested entry.
            default: what to give where there is none. Without it None, or KeyError after
                `set_get_defaults_to_none(False)`.
            kwargs: handed to lazy stacks on the way, see `LazyStackedTensorDict.get`.
        """
        path = (key,) if type(key) is str else key_path(key)
        value = self._get_path(path, **kwargs)
        return self._or_default(key, default) if value is None else value

    def _or_default(self, key: NestedKey, default: Any) -> Any:
        if default is not NO_DEFAULT:
            return default
        if _get_defaults_to_none.value:
            return None
        raise missing_key(key, self._key_names())

    def _get_path(self, path: tuple[str, ...], **kwargs: Any) -> Any:
        """The entry at a flat path, None where there is none."""
        value = self._get_str(path[0], **kwargs) if len(path) == 1 else self._get_str(path[0])
        if len(path) == 1 or value is None:
            return value
        if not isinstance(value, TensorCollection) or value._is_non_tensor:
            return None
        return value._get_path(path[1:], **kwargs)

    def _peek_str(self, key: str) -> Any:
        """What tells of an entry whether it is there, and of what kind; None where it is not.

        A class that would have to put the entry together first gives something of its kind.
        """
        return self._get_str(key)

    def _get_at_str(self, key: str, index: Any) -> Any:
        """The part of an entry that a normal index selects, None where there is no entry; writes to it reach this."""
        value = self._get_str(key)
        if value is None:
            return None
        tree = isinstance(value, TensorCollection) and not (value._is_non_tensor or value._is_tensorclass)
        return classes._SubTensorDict(value, index) if tree else value[index]

    def _peek_path(self, path: tuple[str, ...]) -> Any:
        """`_peek_str` at a flat path."""
        if len(path) == 1:
            return self._peek_str(path[0])
        value = self._peek_str(path[0])
        if not isinstance(value, TensorCollection) or value._is_non_tensor:
            return None
        return value._peek_path(path[1:])

    def get_at(self, key: NestedKey, *args: Any, **kwargs: Any) -> Any:
        """`td.get(key)[index]`: arguments are `index`, then optionally `default`, by position or name; see `get`."""
        index, default = index_and_default(args, kwargs)
        value = self._get_path(key_path(key))
        return self._or_default(key, default) if value is None else value[index]

    def __getitem__(self, index: Any) -> Any:
        path = _unravel_key_to_tuple(index)
        if not path:
            return self._index(index)
        value = self._get_path(path)
        if value is None:
            raise missing_key(index, self._key_names())
        return value if isinstance(value, Tensor) else value._unwrap()

    def __getitems__(self, indices: Any) -> Any:
        """The elements at a list of positions, which `DataLoader` asks for; a batch that needs no collating."""
        return self[list(indices)]

    def __contains__(self, key: NestedKey) -> bool:
        return self._peek_path(key_path(key)) is not None

    def entry_class(self, key: NestedKey) -> type:
        """The class of an entry, without building the entry where that costs.

        Raises:
            KeyError: no such entry.
        """
        value = self._peek_path(key_path(key))
        if value is None:
            raise missing_key(key, self._key_names())
        return type(value)

    def get_item_shape(self, key: NestedKey) -> torch.Size:
        """The shape of an entry."""
        return self.get(key).shape

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> _TensorDictKeysView:
        """The keys, in order of insertion; nested ones are tuples that come before the key of what holds them.

        Args:
            include_nested: go down into nested collections.
            leaves_only: leave out the keys of collections (and of non-tensor data, see `is_leaf`).
            is_leaf: class -> whether entries of it count as leaves; without it, all that are no collections.
            sort: by key instead of insertion.
        """
        return _TensorDictKeysView(self, include_nested, leaves_only, is_leaf, sort)

    def _walk_keys(self, include_nested: bool, leaves_only: bool, is_leaf: Any, sort: bool) -> Iterator[NestedKey]:
        return walk_keys(self, include_nested, leaves_only, is_leaf, sort)

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[tuple[NestedKey, Any]]:
        """Pairs of key and entry; the arguments are those of `keys`."""
        return walk(self, include_nested, leaves_only, is_leaf, sort)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[Any]:
        """The entries; the arguments are those of `keys`."""
        return (value for _, value in self.items(include_nested, leaves_only, is_leaf, sort=sort))

    @property
    def sorted_keys(self) -> list[str]:
        """The keys of the first level, sorted."""
        return sorted(self._key_names())

    # --- writing

    def set(
        self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any
    ) -> Self:
        """Put an entry; a nested key makes the tensordicts on its way.

        Args:
            key: a string, or a tuple of strings.
            item: anything `_convert.convert` takes; its shape begins with the batch size.
            inplace: write into the tensor that is there, if one is.
            non_blocking: of a copy between devices.
            kwargs: none is known.

        Raises:
            RuntimeError: the shape does not begin with the batch size, or the tensordict is locked.
        """
        path = (key,) if type(key) is str else key_path(key)
        self._set_path(path, item, inplace=inplace, non_blocking=non_blocking)
        return self

    def _set_path(self, path: tuple[str, ...], value: Any, **options: Any) -> None:
        if len(path) == 1:
            self._set_str(path[0], value, **options)
            return
        child = self._get_str(path[0])
        if child is None:
            child = self._make_child(path[0], ignore_lock=options.get("ignore_lock", False))
        elif not isinstance(child, TensorCollection):
            raise KeyError(f"{path[0]!r} is a tensor of shape {list(child.shape)}; nothing can be set below it.")
        child._set_path(path[1:], value, **options)

    def _make_child(self, key: str, *, ignore_lock: bool = False) -> Any:
        """An empty nested tensordict of the same batch size, set under `key`."""
        child = self._result({}, self.batch_size, self.device, self._names_or_none())
        self._set_str(key, child, validated=True, ignore_lock=ignore_lock)
        return self._get_str(key)

    def set_(self, key: NestedKey, item: Any, *, non_blocking: bool = False) -> Self:
        """Write into the tensor of an existing entry.

        Raises:
            KeyError: no such entry.
        """
        path = key_path(key)
        if self._peek_path(path) is None:
            raise missing_key(key, self._key_names())
        self._set_path(path, item, inplace=True, non_blocking=non_blocking)
        return self

    def set_at_(self, key: NestedKey, value: Any, index: Any, *, non_blocking: bool = False) -> Self:
        """Write a part of an existing entry: `td.get(key)[index] = value`.

        Raises:
            KeyError: no such entry.
        """
        path = key_path(key)
        holder = self._get_path(path[:-1]) if len(path) > 1 else self
        if holder is None or holder._peek_str(path[-1]) is None:
            raise missing_key(key, self._key_names())
        holder._set_at_str(path[-1], value, index)
        return self

    def _set_at_str(self, key: str, value: Any, index: Any) -> None:
        """Write `value` at a normal index of an entry; an absent entry is made of zeros first."""
        target = self._get_str(key)
        if target is None:
            target = self._zeros_around(key, value, index)
        if isinstance(target, Tensor):
            if isinstance(value, (list, tuple)):
                value = convert(value, torch.Size(()), target.device)
            target[index] = value
        elif target._is_non_tensor:
            changed = target._with_item(index, value)
            if changed is not target:
                self._set_str(key, target._replaced_by(changed), validated=True, ignore_lock=True)
        else:
            target[index] = value

    def _zeros_around(self, key: str, value: Any, index: Any) -> Any:
        if self.is_locked:
            raise RuntimeError(f"{key!r}: {LOCKED}")
        size = indexed_size(self.batch_size, index)
        value = convert(value, size, self.device)
        if isinstance(value, Tensor):
            new = value.new_zeros((*self.batch_size, *value.shape[len(size) :]))
        elif value._is_non_tensor:
            new = resized(value, self.batch_size)
        else:
            new = value.expand(size).new_zeros(self.batch_size)
        self._set_str(key, new)
        return self._get_str(key)

    def __setitem__(self, index: Any, value: Any) -> None:
        path = _unravel_key_to_tuple(index)
        if path:
            self._set_path(path, value)
        else:
            self._set_index(index, value)

    def _set_index(self, index: Any, value: Any) -> None:
        """Write what an index selects: of the entries of `value` if it is a collection, else of every entry."""
        full = not self.batch_size and is_full(index)  # as for reading, although there is nothing to slice
        index = () if full else normal_index(index, len(self.batch_size))
        if not isinstance(value, (TensorCollection, dict)):
            for key in list(self._key_names()):
                self._set_at_str(key, value, index)
            return
        size = indexed_size(self.batch_size, index)
        value = convert(value, size, self.device)
        if value.batch_size[: len(size)] != size:
            value = self._fitted(value, size)
        for key, item in value._items():
            self._set_at_str(key, item, index)

    def _fitted(self, value: Any, size: torch.Size) -> Any:
        try:
            return value.expand(size)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"the index selects batch size {list(size)}, but the value has {list(value.batch_size)}."
            ) from error

    def setdefault(self, key: NestedKey, default: Any, inplace: bool = False) -> Any:
        """The entry of a key, which is set to `default` first if there is none."""
        if self._peek_path(key_path(key)) is None:
            self.set(key, default, inplace=inplace)
        return self.get(key)

    # --- removing

    def del_(self, key: NestedKey) -> Self:
        """Remove an entry.

        Raises:
            KeyError: no such entry.
            RuntimeError: the tensordict is locked.
        """
        if self.is_locked:
            raise RuntimeError(LOCKED)
        path = key_path(key)
        holder = self._get_path(path[:-1]) if len(path) > 1 else self
        if holder is None or holder._peek_str(path[-1]) is None:
            raise missing_key(key, self._key_names())
        if holder.is_locked:
            raise RuntimeError(LOCKED)
        holder._del_str(path[-1])
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.del_(key)

    def pop(self, key: NestedKey, default: Any = NO_DEFAULT) -> Any:
        """Remove an entry and return it; non-tensor data come in their wrapper.

        Raises:
            KeyError: no such entry, and no default.
        """
        value = self._get_path(key_path(key))
        if value is None:
            if default is NO_DEFAULT:
                raise missing_key(key, self._key_names())
            return default
        self.del_(key)
        return value

    def popitem(self) -> tuple[NestedKey, Any]:
        """Remove the entry that was inserted last; returns its key and value.

        Raises:
            KeyError: there is none.
        """
        names = list(self._key_names())
        if not names:
            raise KeyError("popitem: the tensordict is empty.")
        return names[-1], self.pop(names[-1])

    def clear(self) -> Self:
        """Remove every entry."""
        for key in list(self._key_names()):
            self.del_(key)
        return self

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Move an entry to another key, replacing what was there; it becomes the last.

        Args:
            old_key: of an entry that exists.
            new_key: where to; may be nested.
            safe: raise where `new_key` exists.

        Raises:
            KeyError: no `old_key`, or `new_key` exists and `safe` is set.
            RuntimeError: the tensordict is locked.
        """
        if self.is_locked:
            raise RuntimeError(LOCKED)
        value = self._get_path(key_path(old_key))
        if value is None:
            raise missing_key(old_key, self._key_names())
        if key_path(old_key) == key_path(new_key):
            return self
        if safe and self._peek_path(key_path(new_key)) is not None:
            raise KeyError(f"key {new_key!r} exists already; choose another, or rename with safe=False.")
        self.del_(old_key)
        self._set_path(key_path(new_key), value, validated=True)
        return self

    def create_nested(self, key: NestedKey) -> Self:
        """Put an empty tensordict of the same batch size under `key`, replacing what was there."""
        path = key_path(key)
        holder = self
        for part in path[:-1]:
            below = holder._get_str(part)
            holder = holder._make_child(part) if below is None else below
        holder._make_child(path[-1])
        return self


def index_and_default(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The index and the default of a call of `get_at`."""
    left = list(args)
    index = kwargs.pop("index") if "index" in kwargs else kwargs.pop("idx") if "idx" in kwargs else left.pop(0)
    default = kwargs.pop("default") if "default" in kwargs else left.pop(0) if left else NO_DEFAULT
    return index, default
