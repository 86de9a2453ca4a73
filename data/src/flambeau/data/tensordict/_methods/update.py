"""Writing many entries at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from torch import Tensor

from flambeau.data.tensordict._layout.index import normal_index
from flambeau.data.tensordict._layout.keys import key_path, missing_key
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class UpdateMethods(CollectionMethods):
    """`update` and its relatives."""

    def update(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        is_leaf: Callable[[type], bool] | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Set the entries of a mapping or tensordict; nested collections are merged.

        Args:
            input_dict_or_td: what to take from; keys may be nested.
            clone: set copies.
            inplace: write into tensors that exist.
            non_blocking: of copies between devices.
            keys_to_update: take these alone, with all below them.
            is_leaf: class -> whether a nested collection of it replaces what is there instead of being merged.
            update_batch_size: take the batch size of the input too.
            ignore_lock: set even where locked.
            kwargs: entries by name, in place of the input.

        Raises:
            RuntimeError: locked, or a shape does not fit.
        """
        if kwargs and input_dict_or_td is not None:
            self.update(
                input_dict_or_td,
                clone=clone,
                inplace=inplace,
                non_blocking=non_blocking,
                keys_to_update=keys_to_update,
                is_leaf=is_leaf,
                update_batch_size=update_batch_size,
                ignore_lock=ignore_lock,
            )
            input_dict_or_td = None
        source = kwargs if input_dict_or_td is None else input_dict_or_td
        if source is self:
            return self
        if self.is_locked and not (inplace or ignore_lock):
            raise RuntimeError(LOCKED)
        if update_batch_size and isinstance(source, TensorCollection) and source.batch_size != self.batch_size:
            self._resize_for(source)
        options = {"inplace": inplace, "non_blocking": non_blocking, "ignore_lock": ignore_lock}
        for path, value in _entries(source, keys_to_update):
            target = self._peek_path(path)
            if clone:
                value = _cloned(value)
            if _merges(target, value, is_leaf):
                target.update(value, is_leaf=is_leaf, update_batch_size=update_batch_size, **options)
            else:
                self._set_path(path, value, **options)
        return self

    def _resize_for(self, source: Any) -> None:
        """Take over a batch size; entries that the source is going to replace do not stand in its way."""
        for key, value in list(self._items()):
            replacement = source._get_str(key)
            if replacement is None:
                continue
            if _merges(value, replacement, None):
                value._resize_for(replacement)
            else:
                self._del_str(key)
        self.batch_size = source.batch_size

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Write into the tensors that exist.

        Raises:
            KeyError: an entry is not there.
        """
        if kwargs and input_dict_or_td is not None:
            self.update_(input_dict_or_td, clone=clone, non_blocking=non_blocking, keys_to_update=keys_to_update)
            input_dict_or_td = None
        source = kwargs if input_dict_or_td is None else input_dict_or_td
        if source is self:
            return self
        for path, value in _entries(source, keys_to_update):
            target = self._peek_path(path)
            if target is None:
                raise missing_key(path if len(path) > 1 else path[0], self._key_names())
            if _merges(target, value, None):
                target.update_(value, clone=clone, non_blocking=non_blocking)
            else:
                self._set_path(path, value, inplace=True, non_blocking=non_blocking)
        return self

    def update_at_(
        self,
        input_dict_or_td: Any,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
    ) -> Self:
        """Write a part of each entry of a tensordict: `self.get(key)[idx] = value`.

        Raises:
            TypeError: the input is a plain dict, whose batch size nobody knows.
            KeyError: an entry is not there.
        """
        if not isinstance(input_dict_or_td, TensorCollection):
            raise TypeError(f"update_at_ takes a tensordict, not a {type(input_dict_or_td).__name__}.")
        index = normal_index(idx, len(self.batch_size))
        for path, value in _entries(input_dict_or_td, keys_to_update):
            holder = self._get_path(path[:-1]) if len(path) > 1 else self
            target = None if holder is None else holder._peek_str(path[-1])
            if target is None:
                raise missing_key(path if len(path) > 1 else path[0], self._key_names())
            if _merges(target, value, None):
                target.update_at_(value, index)
            else:
                holder._set_at_str(path[-1], value, index)
        return self

    def replace(self, *args: Any, **kwargs: Any) -> Self:
        """A shallow copy with the entries of a mapping, or given by name, set in it; `self` where there is none."""
        if not kwargs and not (args and len(args[0].keys())):
            return self
        return self.copy().update(*args, **kwargs)

    def copy_(self, tensordict: Any, non_blocking: bool = False) -> Self:
        """Write the values of another tensordict with the same keys into these tensors."""
        return self.update_(tensordict, non_blocking=non_blocking)

    def copy_at_(self, tensordict: Any, idx: Any, non_blocking: bool = False, *, fast: bool | None = True) -> Self:
        """`update_at_`."""
        return self.update_at_(tensordict, idx, non_blocking=non_blocking)

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        """Fill an entry with a number, in place; a nested tensordict with all it holds.

        Raises:
            KeyError: no such entry.
        """
        target = self._get_path(key_path(key))
        if target is None:
            raise missing_key(key, self._key_names())
        if isinstance(target, Tensor):
            target.fill_(value)
        else:
            target.apply_(lambda item: item.fill_(value))
        return self


def _entries(source: Any, keys_to_update: Sequence[NestedKey] | None) -> list[tuple[tuple[str, ...], Any]]:
    """Pairs of flat path and value; with a choice of keys, those and what lies below them."""
    pairs: list[tuple[tuple[str, ...], Any]]
    if isinstance(source, TensorCollection):
        pairs = [((key,), value) for key, value in source._items()]
    elif isinstance(source, Mapping):
        pairs = [(key_path(key), value) for key, value in source.items()]
    else:
        raise TypeError(f"entries come from a mapping or a tensordict, not from a {type(source).__name__}.")
    if keys_to_update is None:
        return pairs
    wanted = [keys_to_update] if isinstance(keys_to_update, str) else keys_to_update
    return _chosen(pairs, [key_path(key) for key in wanted])


def _chosen(pairs: list[Any], wanted: list[tuple[str, ...]]) -> list[Any]:
    chosen = []
    for path, value in pairs:
        if any(path[: len(want)] == want for want in wanted):
            chosen.append((path, value))
        elif any(want[: len(path)] == path for want in wanted) and isinstance(value, (Mapping, TensorCollection)):
            below = _entries(value, None)
            chosen += _chosen([((*path, *rest), item) for rest, item in below], wanted)
    return chosen


def _merges(target: Any, value: Any, is_leaf: Callable[[type], bool] | None) -> bool:
    """Whether a value is merged into the collection that is there, instead of replacing it."""
    if not isinstance(target, TensorCollection) or target._is_non_tensor:
        return False
    if isinstance(value, TensorCollection):
        return not value._is_non_tensor and not (is_leaf is not None and is_leaf(type(value)))
    return isinstance(value, Mapping)


def _cloned(value: Any) -> Any:
    return value.clone() if isinstance(value, (Tensor, TensorCollection)) else value
