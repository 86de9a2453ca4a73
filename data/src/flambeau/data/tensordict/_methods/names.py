"""Names of batch dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


def name_list(names: Sequence[str | None], ndim: int) -> list[str | None] | None:
    """Names as a list, None where no dimension has one.

    Raises:
        ValueError: not as many as dimensions, or two are equal.
    """
    names = list(names)
    if len(names) != ndim:
        raise ValueError(f"{len(names)} names for {ndim} batch dimensions; give one each, None for no name.")
    given = [name for name in names if name is not None]
    if not given:
        return None
    if len(set(given)) < len(given):
        raise ValueError(f"the names {names} are not distinct.")
    return names


def indexed_names(names: list[str | None], index: Any) -> list[str | None] | None:
    """The names that a normal index leaves."""
    parts = index if type(index) is tuple else (index,)
    left: list[str | None] = []
    position, advanced = 0, False
    for part in parts:
        if part is None or type(part) is bool:
            left.append(None)
        elif type(part) is slice:
            left.append(names[position])
            position += 1
        elif isinstance(part, Tensor):
            wide = part.ndim if not part.dtype.is_floating_point and part.dtype.itemsize == 1 else 1
            if not advanced:
                # Upstream: all dimensions that an index of integers makes of one have its name.
                plain = part.dtype not in (torch.bool, torch.uint8)
                left.extend([names[position]] * (part.ndim if plain else 1) if plain or wide == 1 else [None])
            advanced = True
            position += wide
        else:
            position += 1
    left.extend(names[position:])
    return left if any(name is not None for name in left) else None


class NamesMethods(CollectionMethods):
    """Names of batch dimensions, as `torch.Tensor` has them."""

    @property
    def names(self) -> list[str | None]:
        """One per batch dimension, None where it has none."""
        return list(self._names_or_none() or [None] * len(self.batch_size))

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._set_names(None if names is None else name_list(names, len(self.batch_size)))

    def _names_or_none(self) -> list[str | None] | None:
        return None

    def _set_names(self, names: list[str | None] | None) -> None:
        """Put names here and on the same dimensions of nested collections."""
        self._names = names
        width = len(self.batch_size)
        for _, value in self._items():
            if isinstance(value, TensorCollection):
                value.names = [*(names or [None] * width), *value.names[width:]]

    def _has_names(self) -> bool:
        return self._names_or_none() is not None

    def _erase_names(self) -> None:
        self._set_names(None)

    def refine_names(self, *names: Any) -> Self:
        """Name dimensions that have no name; `...` stands for those left as they are.

        Raises:
            RuntimeError: a dimension has another name already.
        """
        old = self.names
        if Ellipsis in names:
            where = names.index(Ellipsis)
            skipped = len(old) - len(names) + 1
            names = (*names[:where], *old[where : where + skipped], *names[where + 1 :])
        for before, name in zip(old, names, strict=False):
            if before is not None and name not in (None, before):
                raise RuntimeError(f"a dimension named {before!r} cannot be refined to {name!r}; use rename.")
        if len(names) != len(old):
            raise ValueError(f"{len(names)} names for {len(old)} batch dimensions; `...` stands for those left out.")
        self._set_names(
            name_list([before if name is None else name for name, before in zip(names, old, strict=True)], len(old))
        )
        return self

    def rename(self, *names: Any, **rename_map: str) -> Self:
        """A shallow copy with other names: all of them in order, or `old=new` for some."""
        return self.copy().rename_(*names, **rename_map)

    def rename_(self, *names: Any, **rename_map: str) -> Self:
        """Change the names here: all of them in order, `None` to drop them, or `old=new` for some.

        Raises:
            ValueError: both forms at once, or an old name that no dimension has.
        """
        if names and rename_map:
            raise ValueError("give all names in order, or a map of old to new names, not both.")
        if names:
            whole = len(names) == 1 and (names[0] is None or isinstance(names[0], (list, tuple)))
            self.names = names[0] if whole else names
            return self
        new = self.names
        for old, name in rename_map.items():
            if old not in new:
                raise ValueError(f"no dimension is named {old!r}; the names are {new}.")
            new[new.index(old)] = name
        self.names = new
        return self
