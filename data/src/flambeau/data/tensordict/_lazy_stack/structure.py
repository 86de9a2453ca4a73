"""Choosing and rearranging the keys of a lazy stack: in each tensordict, so that no entry is stacked."""

from __future__ import annotations

from typing import Any, Self

import torch

from flambeau.data.tensordict._lazy_stack.members import StackMethods
from flambeau.data.tensordict._methods.locking import LOCKED


class LazyStructure(StackMethods):
    """Which keys there are. Results hold the entries themselves, whose shapes may differ."""

    def select(self, *keys: Any, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        """Keep these entries alone; see `TensorDictBase.select`."""
        return self._chosen_keys([td.select(*keys, inplace=inplace, strict=strict) for td in self.tensordicts], inplace)

    def exclude(self, *keys: Any, inplace: bool = False) -> Self:
        """Leave these entries out; see `TensorDictBase.exclude`."""
        return self._chosen_keys([td.exclude(*keys, inplace=inplace) for td in self.tensordicts], inplace)

    def _new(self, make: Any, size: Any, device: Any, empty_lazy: bool, options: Any) -> Any:
        """With `empty_lazy`, a stack of as many tensordicts without entries as `size` asks for."""
        new = torch.Size(size[0]) if len(size) == 1 and not isinstance(size[0], int) else torch.Size(size)
        where = self.stack_dim
        if not empty_lazy or len(new) <= where or not self.tensordicts:
            return super()._new(make, size, device, empty_lazy, options)
        below = torch.Size((*new[:where], *new[where + 1 :]))
        first = self.tensordicts[0].empty(recurse=True, device=device)
        return self._like([_resized(first, below) for _ in range(new[where])])

    def filter_empty_(self) -> Self:
        """Remove nested tensordicts that hold nothing."""
        for td in self.tensordicts:
            td.filter_empty_()
        return self

    def filter_non_tensor_data(self) -> Self:
        """A shallow copy without the non-tensor entries, at all depths."""
        return self._like([td.filter_non_tensor_data() for td in self.tensordicts])

    def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: Any = None) -> Self:
        """One level of keys; see `TensorDictBase.flatten_keys`."""
        tds = [td.flatten_keys(separator, inplace=inplace, is_leaf=is_leaf) for td in self.tensordicts]
        result = self._chosen_keys(tds, inplace)
        return self if inplace else result._remember("flatten_keys", self, separator)

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Self:
        """Nest keys; see `TensorDictBase.unflatten_keys`."""
        tds = [td.unflatten_keys(separator, inplace=inplace) for td in self.tensordicts]
        result = self._chosen_keys(tds, inplace)
        return self if inplace else result._remember("unflatten_keys", self, separator)

    def _chosen_keys(self, tds: list[Any], inplace: bool) -> Any:
        return self if inplace else self._like(tds)

    def _with_entries(self, kept: dict[str, Any], inplace: bool) -> Any:
        raise RuntimeError("entries of a lazy stack are chosen in its tensordicts.")  # the methods above do so

    def _move_path(self, path: tuple[str, ...], target: Any, new_path: tuple[str, ...]) -> bool:
        if self._peek_path(path) is None:
            return False
        if self.is_locked:
            raise RuntimeError(LOCKED)
        for td, part in zip(self.tensordicts, target.tensordicts, strict=True):
            td._move_path(path, part, new_path)
        return True


def _resized(td: Any, size: torch.Size) -> Any:
    """The same nest of tensordicts without entries, with another batch size in place of the outermost one."""
    width = len(td.batch_size)
    below = {key: _resized(value, torch.Size((*size, *value.batch_size[width:]))) for key, value in td._items()}
    return td._result(below, size, td.device)
