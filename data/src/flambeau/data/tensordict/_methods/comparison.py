"""Elementwise comparison, and logic over all entries."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.alignment import broadcast_sides, comparable, mismatch, names_of, spread_over
from flambeau.data.tensordict._layout.non_tensor import refit
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class ComparisonMethods(CollectionMethods):
    """`==`, `<` and the like give a tensordict of bools; `all` and `any` sum them up."""

    def _compare(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        """Entry by entry; `other` is a collection or mapping of the same keys, a tensor over the batch, or a number.

        Batch sizes are broadcast. Whatever else is another thing altogether, which is told by one bool.
        """
        if not comparable(other):
            return self._compare_strange(compare)
        me, other = broadcast_sides(self, other)
        if me is not self:
            return me._compare(other, compare)
        paired = isinstance(other, (TensorCollection, Mapping))
        if paired and set(names_of(other)) != set(self._key_names()):
            raise mismatch(self, other)
        data: dict[str, Any] = {}
        for key, value in self._items():
            if not paired:
                opposite = other
            else:
                opposite = other._get_str(key) if isinstance(other, TensorCollection) else other[key]
            if isinstance(value, TensorCollection):
                ordered = value._is_non_tensor and compare not in (operator.eq, operator.ne)
                data[key] = value if ordered else value._compare(opposite, compare)  # values have no order
            else:
                if isinstance(opposite, Tensor) and not paired and opposite.ndim:
                    opposite = spread_over(opposite, self.batch_size, value)
                data[key] = compare(value, opposite)
        return classes.make_td(data, self.batch_size, self.device, self._names_or_none())

    def _compare_strange(self, compare: Callable[[Any, Any], Any]) -> bool:
        """The answer for something that is no part of a comparison; upstream: `<` and the like say no as well."""
        return compare is operator.ne

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def all(self, dim: int | None = None) -> Any:
        """Whether all elements are true: of everything (a bool), or along a batch dimension (a tensordict)."""
        return self._logic("all", dim)

    def any(self, dim: int | None = None) -> Any:
        """Whether any element is true: of everything (a bool), or along a batch dimension (a tensordict)."""
        return self._logic("any", dim)

    def _without_stacks(self) -> Any:
        """Without values that differ between positions: of a reduction of them nothing can be said."""
        stacks = [
            key
            for key, value in self._items()
            if isinstance(value, TensorCollection) and value._is_non_tensor and refit(value, torch.Size(())) is None
        ]
        return self.exclude(*stacks) if stacks else self

    def _logic(self, name: str, dim: int | None) -> Any:
        if dim is None:
            combine = all if name == "all" else any
            return combine(bool(getattr(leaf, name)()) for leaf in self._leaves())
        size = self.batch_size
        if not -len(size) <= dim < len(size):
            raise RuntimeError(f"{name}: dimension {dim} is out of range for batch size {list(size)}.")
        where = dim % len(size)
        names = self._names_or_none()
        result = self._without_stacks()._each(
            lambda value: getattr(value, name)(dim=where),
            torch.Size((*size[:where], *size[where + 1 :])),
            None if names is None else [*names[:where], *names[where + 1 :]],
        )
        if result.is_locked:
            result.unlock_()
        return result._plain()
