"""`_VmappedStack`: a lazy stack whose stack dimension `torch.vmap` maps over."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.vmap import add_dim, remove_dim
from flambeau.data.tensordict._methods.pointwise import UNARY
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.base import TensorDictBase


class _VmappedStack(TensorDictBase):
    """The tensordict at any position of a lazy stack; an entry is stacked and batched when it is read.

    Args:
        tensordicts: one for each position; entries are set in them.
        level: of `torch.vmap`.
    """

    def __init__(self, tensordicts: list[Any], level: int) -> None:
        self.tensordicts, self._level = tensordicts, level

    def _items(self) -> Any:
        return [(key, self._get_str(key)) for key in self._key_names()]

    def _key_names(self) -> Any:
        first, *rest = self.tensordicts
        return [key for key in first._key_names() if all(key in td._key_names() for td in rest)]

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        values = [td._get_str(key) for td in self.tensordicts]
        if any(value is None for value in values):
            return default
        if all(isinstance(value, TensorDictBase) for value in values):
            return _VmappedStack(values, self._level)
        return add_dim(torch.stack(values), 0, self._level, self.batch_size)

    def _set_str(self, key: str, value: Any, **options: Any) -> None:
        if not isinstance(value, (Tensor, TensorCollection)):
            value = torch.as_tensor(value)
        for td, part in zip(self.tensordicts, self._positions_of(value), strict=True):
            td._set_str(key, part, **options)

    def _positions_of(self, value: Any) -> Any:
        """What each position has of a tensor or collection, which may be mapped over or not."""
        count = len(self.tensordicts)
        return remove_dim(value, self._level, count, 0, torch.Size((count, *self.batch_size))).unbind(0)

    def _binary(self, name: str, fused: bool, other: Any, default: Any = None, **kwargs: Any) -> Any:
        """Arithmetic at each position, whose entries need not have the shapes of the others'."""
        results = [td._binary(name, fused, part, default, **kwargs) for td, part in self._with_parts_of(other)]
        return _VmappedStack(results, self._level)

    def _binary_(self, name: str, fused: bool, other: Any, **kwargs: Any) -> Any:
        for td, part in self._with_parts_of(other):
            td._binary_(name, fused, part, **kwargs)
        return self

    def _with_parts_of(self, other: Any) -> Any:
        """Each tensordict with what stands opposite to it: a part of a tensor or collection, or the same number."""
        whole = not isinstance(other, (Tensor, TensorCollection))
        parts = [other] * len(self.tensordicts) if whole else self._positions_of(other)
        return zip(self.tensordicts, parts, strict=True)

    def _make_child(self, key: str, *, ignore_lock: bool = False) -> Any:
        children = [td._make_child(key, ignore_lock=ignore_lock) for td in self.tensordicts]
        return _VmappedStack(children, self._level)

    def _del_str(self, key: str) -> None:
        for td in self.tensordicts:
            td._del_str(key)

    def _index(self, index: Any) -> Any:
        return self._each_of(lambda td: td[index])

    def _each_of(self, function: Any) -> _VmappedStack:
        """A function of each tensordict, where it does not matter that their entries are mapped over."""
        return _VmappedStack([function(td) for td in self.tensordicts], self._level)

    @property  # type: ignore[misc]  # that of the tensordicts, which are not asked to change it
    def batch_size(self) -> torch.Size:
        """The batch size of the tensordicts, -1 where they differ."""
        sizes = [td.batch_size for td in self.tensordicts]
        return torch.Size([each[0] if len(set(each)) == 1 else -1 for each in zip(*sizes, strict=True)])

    @property  # type: ignore[misc]  # here, too
    def device(self) -> torch.device | None:
        """None."""
        return None

    def _names_or_none(self) -> Any:
        return self.tensordicts[0]._names_or_none()

    @property  # type: ignore[misc]  # that of the tensordicts, too
    def is_locked(self) -> bool:
        """Whether the tensordicts are locked."""
        return self.tensordicts[0].is_locked

    def clone(self, recurse: bool = True, **kwargs: Any) -> Any:
        """A copy; see `TensorDictBase.clone`."""
        return self._each_of(lambda td: td.clone(recurse, **kwargs))

    @classmethod
    def _stack_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return cls._combination(torch.stack, tds, dim, out)

    @classmethod
    def _cat_of(cls, tds: list[Any], dim: int, out: Any) -> Any:
        return cls._combination(torch.cat, tds, dim, out)

    @classmethod
    def _combination(cls, combine: Any, tds: list[Any], dim: int, out: Any) -> Any:
        """Position by position where all are mapped over alike, otherwise of what each shows."""
        first = tds[0]
        if out is None and all(isinstance(td, cls) and td._level == first._level for td in tds):
            rows = zip(*[td.tensordicts for td in tds], strict=True)
            return cls([combine(list(row), dim) for row in rows], first._level)
        plain = [
            classes.make_td(dict(td._items()), td.batch_size, None, td._names_or_none()) if isinstance(td, cls) else td
            for td in tds
        ]
        return combine(plain, dim, out=out)

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Any:
        return self._each_of(lambda td: td._add_batch_dim(in_dim=in_dim, vmap_level=vmap_level))

    def _remove_batch_dim(self, *, vmap_level: int, batch_size: int, out_dim: int) -> Any:
        if vmap_level != self._level:
            options = {"vmap_level": vmap_level, "batch_size": batch_size, "out_dim": out_dim}
            return self._each_of(lambda td: td._remove_batch_dim(**options))
        return classes.LazyStackedTensorDict(*self.tensordicts, stack_dim=out_dim)


def _define(name: str) -> None:
    original = getattr(TensorDictBase, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._each_of(lambda td: getattr(td, name)(*args, **kwargs))

    method.__name__, method.__qualname__, method.__doc__ = name, f"_VmappedStack.{name}", original.__doc__
    setattr(_VmappedStack, name, method)


# They need no entry as it is in the mapped function.
_EACH = "copy select exclude empty flatten_keys unflatten_keys unsqueeze squeeze reshape view permute transpose"
for _name in (*_EACH.split(), *UNARY, *(f"{one}_" for one in UNARY), "zero_"):
    _define(_name)
