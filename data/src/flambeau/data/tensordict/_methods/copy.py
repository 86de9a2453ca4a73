"""Copies, and the walk over all tensors that arithmetic and copies are written with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.foreach import fusible
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class CopyMethods(CollectionMethods):
    """Copying, and rebuilding from a list of tensors."""

    def _collect(self, leaves: list[Any]) -> None:
        """Append every tensor, depth first, in the order of the keys."""
        for _, value in self._items():
            if isinstance(value, TensorCollection):
                if not value._is_non_tensor:
                    value._collect(leaves)
            else:
                leaves.append(value)

    def _rebuild(self, leaves: Iterator[Any], device: torch.device | None = None) -> Any:
        """A collection of this structure around other tensors of the same batch size, taken from an iterator."""
        data = {
            key: next(leaves)
            if not isinstance(value, TensorCollection)
            else value.copy()
            if value._is_non_tensor
            else value._rebuild(leaves)
            for key, value in self._items()
        }
        return self._result(data, self.batch_size, self.device, self._names_or_none())

    def _leaves(self) -> list[Any]:
        """Every tensor; cached while locked."""
        cache = self._cache if self.is_locked else None
        if cache is not None and "leaves" in cache:
            return cache["leaves"]
        leaves: list[Any] = []
        self._collect(leaves)
        return leaves

    def _copied(self) -> Any:
        """A shallow copy of the class that results of operations have."""
        return self.copy()

    def _plain(self) -> Any:
        """A TensorDict of the same entries, where this is of a class derived from it."""
        return self

    def _dense(self) -> Any:
        """The same with every entry put together, where this is a stack in name only."""
        return self

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A copy, unlocked.

        Args:
            recurse: copy the tensors too; otherwise the copy holds the same ones, in structures of its own.
            kwargs: of `torch.clone`.
        """
        if recurse:
            values = [value for _, value in self._items()]
            if not kwargs and len(values) > 8 and fusible(values):
                data = dict(zip(self._key_names(), torch._foreach_clone(values), strict=True))
            else:
                data = {key: value.clone(**kwargs) for key, value in self._items()}
        else:
            data = {
                key: value.clone(recurse=False) if isinstance(value, TensorCollection) else value
                for key, value in self._items()
            }
        return self._result(data, self.batch_size, self.device, self._names_or_none())

    def copy(self) -> Self:
        """A shallow copy: other structures, the same tensors."""
        return self.clone(recurse=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares nothing: unlocked and saved nowhere, as a clone is; leaves of the graph stay such."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {
            name: copy.deepcopy(value, memo)
            for name, value in self.__getstate__().items()  # type: ignore[attr-defined]
            if name not in ("_is_locked", "_saved", "_is_memmap")
        }
        made.__setstate__(state)  # type: ignore[attr-defined]
        return made

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A `TensorDict` with copies of all tensors, whatever kind of collection this and its entries are."""
        data = {}
        for key, value in self._items():
            nested = isinstance(value, TensorCollection) and not value._is_non_tensor
            data[key] = value.to_tensordict(retain_none=retain_none) if nested else value.clone()
        return classes.make_td(data, self.batch_size, self.device, self._names_or_none())
