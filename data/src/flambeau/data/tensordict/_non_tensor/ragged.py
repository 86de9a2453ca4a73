"""`NonTensorStack`s of wrappers of different batch sizes: what a lazy stack of ragged conversations has as an entry."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.linked_list import LinkedList
from flambeau.data.tensordict._non_tensor.data import NonTensorData
from flambeau.data.tensordict._non_tensor.stack import NonTensorStack


class RaggedNonTensorStack(NonTensorStack):
    """Values whose batch sizes differ: a list of wrappers, where other stacks have one table of positions.

    Where the sizes differ the batch size says -1. Nested lists give the values back; indexing along the dimensions up
    to the ragged one gives wrappers, and stacks of them.
    """

    _is_template = True
    _parts: list[Any]

    @classmethod
    def _made(cls, parts: Sequence[Any], dim: int) -> Any:
        """Stack wrappers; where they are of one size, the result is an ordinary stack."""
        parts = list(parts)
        ragged = any(isinstance(part, RaggedNonTensorStack) for part in parts)
        if not ragged and all(part.batch_size == parts[0].batch_size for part in parts):
            return torch.stack(parts, dim)
        made = cls.__new__(cls)
        inner = classes.LazyStackedTensorDict.lazy_stack([part._tensordict for part in parts], dim)
        made.__dict__.update(_parts=parts, _dim=dim % len(inner.batch_size), _tensordict=inner, _values=[])
        return made

    def tolist(self, *, convert_tensors: Any = False, tolist_first: bool = False, as_linked_list: bool = False) -> Any:
        """The values, in nested lists of different lengths; see `NonTensorStack.tolist`."""
        how = {"convert_tensors": convert_tensors, "tolist_first": tolist_first}
        rows = self.unbind(0)
        nested = [row.tolist(**how) for row in rows]
        return LinkedList(nested, td=self) if as_linked_list else nested

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The wrappers along a dimension.

        Raises:
            RuntimeError: along this dimension the parts have different lengths.
        """
        dim %= len(self.batch_size)
        if dim == self._dim:
            return tuple(self._parts)
        below = dim - (dim > self._dim)
        cut = [part.unbind(below) for part in self._parts]
        if len({len(parts) for parts in cut}) > 1:
            raise RuntimeError(f"unbind: the parts have different lengths along dimension {dim}; unbind others first.")
        above = self._dim - (dim < self._dim)
        return tuple(self._made(parts, above) for parts in zip(*cut, strict=True))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise KeyError(f"a NonTensorStack has no keys, here {index!r}; it is indexed by position.")
        first, *rest = index if isinstance(index, tuple) else (index,)
        if first is Ellipsis:
            width = len(self.batch_size) - sum(item is not None for item in rest)
            return self[(*[slice(None)] * width, *rest)]
        if first is None:
            return self.unsqueeze(0)[(slice(None), *rest)]
        rows = self.unbind(0)
        if isinstance(first, int):
            return rows[first][tuple(rest)] if rest else rows[first]
        if isinstance(first, slice):
            chosen: Any = rows[first]
        else:
            numbers = torch.as_tensor(first)
            numbers = numbers.nonzero().squeeze(-1) if numbers.dtype == torch.bool else numbers
            chosen = [rows[number] for number in numbers.tolist()]
        if not chosen:
            return NonTensorStack()
        return self._made([row[tuple(rest)] for row in chosen] if rest else chosen, 0)

    def _with_item(self, index: Any, value: Any) -> Self:
        if not isinstance(index, int) or self._dim:
            raise IndexError(f"values of different batch sizes are set one row at a time, not at {index!r}.")
        value = value if getattr(value, "_is_non_tensor", False) else NonTensorStack.from_list(list(value))
        self._parts[index] = value
        self.__dict__["_tensordict"] = self._made(self._parts, 0)._tensordict
        if self._owner is not None:
            stack, key = self._owner
            stack.tensordicts[index]._set_str(key, value)
        return self

    def insert(self, index: int, value: Any) -> None:
        """Insert a wrapper along `stack_dim`."""
        parts = list(self._parts)
        parts.insert(index, value if getattr(value, "_is_non_tensor", False) else NonTensorData(value))
        self.__dict__.update(_parts=parts, _tensordict=self._made(parts, self._dim)._tensordict)

    def _each(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._made([getattr(part, name)(*args, **kwargs) for part in self._parts], self._dim)

    def clone(self, recurse: bool = True, **kwargs: Any) -> Any:
        """Another stack of the same values."""
        return self._each("clone", recurse, **kwargs)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same values, as if on another device; dtypes concern them not."""
        return self._each("to", *args, **kwargs)

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Any:
        """With a batch dimension of size 1."""
        dim = (args[0] if args else kwargs["dim"]) % (len(self.batch_size) + 1)
        if dim <= self._dim:
            made = [row.unsqueeze(dim) for row in self._parts] if dim else None
            return self._made(made, self._dim + 1) if made else self._wrapped_once()
        return self._made([part.unsqueeze(dim - 1) for part in self._parts], self._dim)

    def _wrapped_once(self) -> Any:
        made = type(self).__new__(type(self))
        inner = classes.LazyStackedTensorDict.lazy_stack([self._tensordict], 0)
        made.__dict__.update(_parts=[self], _dim=0, _tensordict=inner, _values=[])
        return made

    @property
    def data(self) -> Any:
        """There is none: the values differ at least in number.

        Raises:
            AttributeError: always.
        """
        raise AttributeError("the values of a NonTensorStack differ; use tolist().")

    def __eq__(self, other: object) -> Any:
        """Whether all values are the same: one bool, as results of different sizes make no tensor."""
        theirs = other.tolist() if isinstance(other, NonTensorStack) else other
        return self.tolist() == theirs

    __hash__ = NonTensorStack.__hash__

    def __reduce__(self) -> Any:
        return RaggedNonTensorStack._made, (self._parts, self._dim)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._made(copy.deepcopy(self._parts, memo), self._dim)
