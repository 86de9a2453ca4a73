"""Which keys there are: selections, and flat or nested keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.keys import key_path, missing_key
from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class StructureMethods(CollectionMethods):
    """Choosing and rearranging keys."""

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = NO_DEFAULT, names: Any = None
    ) -> Self:
        """A tensordict of the same batch size and device without entries.

        Args:
            recurse: keep the nested tensordicts, empty.
            batch_size: another one.
            device: another one, None for any.
            names: of the batch dimensions; by default the same where the batch size is.
        """
        size = self.batch_size if batch_size is None else as_size(batch_size)
        if names is None or names is NO_DEFAULT:
            names = self._names_or_none() if batch_size is None else None
        device = self.device if device is NO_DEFAULT else None if device is None else as_device(device)
        data = {}
        if recurse:
            data = {
                key: value.empty(recurse=True, device=device)
                for key, value in self._items()
                if isinstance(value, TensorCollection) and not value._is_non_tensor
            }
        return self._result(data, size, device, None if names is None else list(names))

    def is_empty(self) -> bool:
        """Whether there is no tensor and no non-tensor value, however deep."""
        return all(
            isinstance(value, TensorCollection) and not value._is_non_tensor and value.is_empty()
            for _, value in self._items()
        )

    def filter_empty_(self) -> Self:
        """Remove nested tensordicts that hold nothing."""
        for key, value in list(self._items()):
            if isinstance(value, TensorCollection) and not value._is_non_tensor:
                if value.is_empty():
                    self._del_str(key)
                else:
                    value.filter_empty_()
        return self

    def select(self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        """Keep these entries alone, in their order here.

        Args:
            keys: of entries, nested or not. Beside keys below it, that of a nested tensordict asks for nothing more.
            inplace: remove the others from this tensordict.
            strict: raise where a key is absent; otherwise what is there of the path to it is kept, empty.
            as_tensordict: give a TensorDict where this is a tensorclass.

        Raises:
            KeyError: `strict`, and a key is absent.
            RuntimeError: `inplace`, and it is locked, whatever the keys.
        """
        if inplace and self.is_locked:
            raise RuntimeError(LOCKED)
        kept: dict[str, Any] = {}
        parts: dict[str, list[tuple[str, ...]]] = {}  # what is wanted of entries that are not wanted whole
        for key in keys:
            path = (key,) if type(key) is str else key_path(key)
            name = path[0]
            value = self._get_str(name)
            if value is None or (len(path) > 1 and self._get_path(path) is None):
                if strict:
                    raise missing_key(key, self._key_names())
                if value is None or isinstance(value, Tensor) or value._is_non_tensor:
                    continue
            if len(path) > 1:
                parts.setdefault(name, []).append(path[1:])
            kept[name] = value
        for name, below in parts.items():
            kept[name] = kept[name].select(*below, inplace=inplace, strict=strict)
        return self._with_entries(kept, inplace)

    def exclude(self, *keys: NestedKey, inplace: bool = False) -> Self:
        """Leave these entries out; keys that are absent do no harm.

        Args:
            keys: of entries, nested or not.
            inplace: remove them from this tensordict.
        """
        if not keys:
            return self if inplace else self._copied()
        dropped: dict[str, list[tuple[str, ...]] | None] = {}
        for key in keys:
            path = key_path(key)
            below = dropped.setdefault(path[0], [])
            if len(path) == 1:
                dropped[path[0]] = None
            elif below is not None:
                below.append(path[1:])
        kept = {}
        for key, value in self._items():
            apart = dropped.get(key, [])
            if apart is None:
                continue
            nested = apart and isinstance(value, TensorCollection) and not value._is_non_tensor
            kept[key] = value.exclude(*apart, inplace=inplace) if nested else value
        return self._with_entries(kept, inplace)

    def _with_entries(self, kept: dict[str, Any], inplace: bool) -> Any:
        if not inplace:
            return self._result(kept, self.batch_size, self.device, self._names_or_none())
        if self.is_locked:
            raise RuntimeError(LOCKED)
        for key in [key for key in self._key_names() if key not in kept]:
            self._del_str(key)
        return self

    def split_keys(
        self,
        *key_sets: Any,
        inplace: bool = False,
        default: Any = NO_DEFAULT,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Any, ...]:
        """Distribute the entries over several tensordicts.

        Args:
            key_sets: lists of keys, or dicts from key here to key there.
            inplace: take the entries out of this tensordict, which is then the last of the result.
            default: set where a key is absent.
            strict: raise where a key is absent and there is no default.
            reproduce_struct: keep nested tensordicts that a set takes nothing from, empty.

        Returns:
            One tensordict per set, and one with what is left.

        Raises:
            KeyError: see `strict`.
        """
        rest = self if inplace else self._copied()
        if rest.is_locked:
            raise RuntimeError(LOCKED)
        parts = []
        for key_set in key_sets:
            part = self.empty(recurse=reproduce_struct)
            moves = key_set.items() if isinstance(key_set, dict) else ((key, key) for key in key_set)
            for key, new_key in moves:
                if rest._move_path(key_path(key), part, key_path(new_key)):
                    continue
                if default is not NO_DEFAULT:
                    part._set_path(key_path(new_key), default)
                elif strict:
                    raise missing_key(key, rest._key_names())
            parts.append(part)
        if not reproduce_struct:
            rest.filter_empty_()
        return (*parts, rest)

    def separates(
        self, *keys: NestedKey, default: Any = NO_DEFAULT, strict: bool = True, filter_empty: bool = True
    ) -> Self:
        """Take entries out of this tensordict; returns a tensordict of them.

        Raises:
            KeyError: a key is absent, `strict` is set and there is no `default`.
            RuntimeError: the tensordict is locked.
        """
        taken = self.empty()
        for key in keys:
            path = key_path(key)
            if self._move_path(path, taken, path):
                continue
            if default is not NO_DEFAULT:
                taken._set_path(path, default)
            elif strict:
                raise missing_key(key, self._key_names())
        if filter_empty and not self.is_locked:
            self.filter_empty_()
        return taken

    def _move_path(self, path: tuple[str, ...], target: Any, new_path: tuple[str, ...]) -> bool:
        """Take an entry out of this tensordict and set it in another; False where there is none."""
        value = self._get_path(path)
        if value is None:
            return False
        target._set_path(new_path, value)
        self.del_(path)
        return True

    def flatten_keys(
        self, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
    ) -> Self:
        """One level of keys: `("a", "b")` becomes `"a.b"`. As a context manager, nests them again.

        Args:
            separator: between the parts.
            inplace: change this tensordict.
            is_leaf: class -> whether entries of it stay whole; by default all that is no nested collection.

        Raises:
            KeyError: two keys become the same.
        """
        flat: dict[str, Any] = {}
        self._flatten_into(flat, "", separator, is_leaf)
        if inplace:
            if self.is_locked:
                raise RuntimeError(LOCKED)
            for key in list(self._key_names()):
                self._del_str(key)
            for key, value in flat.items():
                self._set_str(key, value, validated=True)
            return self
        return self._with_entries(flat, False)._remember("flatten_keys", self, separator)

    def _flatten_into(self, flat: dict[str, Any], prefix: str, separator: str, is_leaf: Any) -> None:
        for key, value in self._items():
            name = prefix + key
            if (
                isinstance(value, TensorCollection)
                and not value._is_non_tensor
                and not (is_leaf is not None and is_leaf(type(value)))
            ):
                value._flatten_into(flat, name + separator, separator, is_leaf)
            elif name in flat:
                raise KeyError(
                    f"two entries would both be named {name!r}; choose another separator than {separator!r}."
                )
            else:
                flat[name] = value

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Self:
        """Nest keys: `"a.b"` becomes `("a", "b")`. As a context manager, flattens them again.

        Args:
            separator: between the parts.
            inplace: change this tensordict.

        Raises:
            KeyError: a key would hold both a tensor and something below it.
        """
        result = self if inplace else self._copied()
        for key in list(self._key_names()):
            if separator in key:
                value = result._get_str(key)
                result.del_(key)
                result._set_path(tuple(key.split(separator)), value, validated=True)
        if inplace:
            return self
        return result._remember("unflatten_keys", self, separator)

    def cat_tensors(self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> Self:
        """Replace entries by their concatenation along `dim`, set under `out_key`.

        Args:
            keys: of the entries, in order.
            out_key: of the result.
            dim: of the entries' shape.
            keep_entries: do not remove the entries.
        """
        return self._combined(torch.cat, keys, out_key, dim, keep_entries)

    def stack_tensors(self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> Self:
        """Replace entries by their stack along a new `dim`, set under `out_key`; arguments as `cat_tensors`."""
        return self._combined(torch.stack, keys, out_key, dim, keep_entries)

    def _combined(self, combine: Any, keys: Any, out_key: NestedKey, dim: int, keep_entries: bool) -> Any:
        if self.is_locked:
            raise RuntimeError(LOCKED)
        values = []
        for key in keys:
            value = self._get_path(key_path(key))
            if value is None:
                raise missing_key(key, self._key_names())
            values.append(value)
        combined = combine(values, dim)
        if not keep_entries:
            for key in keys:
                self.del_(key)
        return self.set(out_key, combined)

    def cat_from_tensordict(
        self, dim: int = 0, *, sorted: bool | list[NestedKey] | None = None, out: Any = None
    ) -> Any:
        """Concatenate all tensors to one along `dim`.

        Args:
            dim: of the entries' shape.
            sorted: by key, or the list of keys to take; by default all in their order.
            out: where to write.
        """
        return torch.cat(self._ordered_leaves(sorted), dim, out=out)

    def stack_from_tensordict(
        self, dim: int = 0, *, sorted: bool | list[NestedKey] | None = None, out: Any = None
    ) -> Any:
        """Stack all tensors to one along a new `dim`; arguments as `cat_from_tensordict`."""
        return torch.stack(self._ordered_leaves(sorted), dim, out=out)

    def _ordered_leaves(self, order: Any) -> list[Any]:
        if isinstance(order, (list, tuple)):
            return [self.get(key) for key in order]
        return list(self.values(True, True, sort=bool(order)))
