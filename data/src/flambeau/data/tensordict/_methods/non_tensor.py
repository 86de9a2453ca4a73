"""Entries that are no tensors: set_non_tensor, get_non_tensor and their relatives."""

from __future__ import annotations

from typing import Any, Self

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.keys import key_path, missing_key
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class NonTensorMethods(CollectionMethods):
    """Entries that are no tensors."""

    def set_non_tensor(self, key: NestedKey, value: Any) -> Self:
        """Set any value as it is, one for all positions, whatever it could be converted to.

        Raises:
            RuntimeError: the tensordict is locked.
        """
        path = key_path(key)
        holder = self._get_path(path[:-1]) if len(path) > 1 else self
        size = self.batch_size if holder is None else holder.batch_size
        if not (isinstance(value, TensorCollection) and value._is_non_tensor):
            value = classes.NonTensorData(value, batch_size=size, device=self.device)
        self._set_path(path, value)
        return self

    def get_non_tensor(self, key: NestedKey, default: Any = NO_DEFAULT) -> Any:
        """The value of a non-tensor entry, unwrapped; other entries as they are.

        Raises:
            KeyError: no such entry, and no default.
        """
        value = self._get_path(key_path(key))
        if value is None:
            if default is NO_DEFAULT:
                raise missing_key(key, self._key_names())
            return default
        return value._unwrap() if isinstance(value, TensorCollection) else value

    def is_non_tensor(self, key: NestedKey) -> bool:
        """Whether an entry is non-tensor data.

        Raises:
            KeyError: no such entry.
        """
        value = self._peek_path(key_path(key))
        if value is None:
            raise missing_key(key, self._key_names())
        return isinstance(value, TensorCollection) and value._is_non_tensor

    def non_tensor_items(self, include_nested: bool = False) -> tuple[tuple[NestedKey, Any], ...]:
        """Pairs of key and wrapper of the non-tensor entries."""
        found: list[tuple[NestedKey, Any]] = []
        for key, value in self._items():
            if not isinstance(value, TensorCollection):
                continue
            if value._is_non_tensor:
                found.append((key, value))
            elif include_nested:
                for below, item in value.non_tensor_items(include_nested=True):
                    found.append(((key, *below) if isinstance(below, tuple) else (key, below), item))
        return tuple(found)

    def filter_non_tensor_data(self) -> Self:
        """A shallow copy without the non-tensor entries, at all depths."""
        kept: dict[str, Any] = {}
        for key, value in self._items():
            if not isinstance(value, TensorCollection):
                kept[key] = value
            elif not value._is_non_tensor:
                kept[key] = value.filter_non_tensor_data()
        return self._with_entries(kept, inplace=False)
