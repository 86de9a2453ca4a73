"""Non-tensor data: one Python value for all positions of a batch.

A wrapper of the value has a batch size, and takes part in every shape operation: it does the operation on an empty
tensordict of its batch size and takes over what comes out. Values that differ between positions are a `NonTensorStack`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.non_tensor import same
from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._non_tensor.wrapper import NonTensorWrapper, write_to
from flambeau.data.tensordict._td import make_td
from flambeau.data.tensordict._utils_options import capture_non_tensor_stack, list_to_stack
from flambeau.data.tensordict.base import TensorDictBase


class NonTensorDataBase(NonTensorWrapper):
    """A value with a batch size.

    Args:
        data: the value; a wrapper is unwrapped first.
        batch_size: the positions that it stands for; by default one, without dimensions.
        device: what the tensordict around it has; nothing is moved.
        names: of the batch dimensions.

    Example:
        >>> NonTensorData("left", batch_size=[2]).tolist()
        ['left', 'left']
    """

    _is_template = True
    _field_names: ClassVar[tuple[str, ...]] = ("data",)
    _combine_rank: ClassVar[int] = 20
    _is_locked = False
    _value: Any
    _metadata: dict[str, Any] | None
    _size: torch.Size
    _where: torch.device | None
    _dim_names: list[str | None] | None

    def __init__(
        self,
        data: Any,
        _metadata: dict[str, Any] | None = None,
        _is_non_tensor: bool = True,
        *,
        batch_size: Sequence[int] | torch.Size | int | None = None,
        device: Any = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if isinstance(data, NonTensorDataBase):
            batch_size = data.batch_size if batch_size is None else batch_size
            data = data.data
        own = self.__dict__
        own["_value"], own["_metadata"] = data, _metadata
        own["_size"] = as_size(batch_size)
        own["_where"] = None if device is None else as_device(device)
        own["_dim_names"] = None if names is None else list(names)

    @classmethod
    def _from_value(cls, value: Any, batch_size: torch.Size, device: torch.device | None) -> Any:
        """The entry for a value that makes no tensor: lists spread over the batch, see `set_list_to_stack`."""
        if type(value) is list and value and list_to_stack():
            stack = classes.NonTensorStack._from_nested(value, device)
            if stack.batch_size[: len(batch_size)] == batch_size:
                return stack
            raise RuntimeError(
                f"a list of {len(value)} values does not fit batch size {list(batch_size)}; wrap it to make it one "
                "value for all positions: NonTensorData(value)."
            )
        return NonTensorData._make(value, batch_size, device)

    @classmethod
    def _make(cls, value: Any, size: torch.Size, device: Any = None, names: Any = None) -> Self:
        made = cls.__new__(cls)
        own = made.__dict__
        own["_value"], own["_metadata"], own["_size"], own["_where"], own["_dim_names"] = (
            value,
            None,
            size,
            device,
            names,
        )
        return made

    # --- the value

    @property
    def data(self) -> Any:
        """The value."""
        return self._value

    @data.setter
    def data(self, value: Any) -> None:
        if self._is_locked:
            raise RuntimeError(LOCKED)
        self._set_value(value)

    def _set_value(self, value: Any) -> None:
        """Take over another value, here and where it is saved."""
        if self._saved is not None:
            write_to(self._saved, self._make(value, self._size, self._where, self._dim_names))
        self.__dict__["_value"] = value

    def _unwrap(self) -> Any:
        return self._value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the value."""
        return self._value(*args, **kwargs)

    def tolist(self, *, convert_tensors: Any = False, tolist_first: bool = False, as_linked_list: bool = False) -> Any:
        """The value once for each position, in nested lists; the value itself without batch dimensions."""
        value = self._value
        if (convert_tensors or tolist_first) and hasattr(value, "tolist"):
            value = value.tolist()
        for size in reversed(self._size):
            value = [value] * size
        return value

    def to_dict(  # type: ignore[override]  # upstream's arguments
        self, *, retain_none: bool = True, convert_tensors: Any = False, tolist_first: bool = False
    ) -> Any:
        """The value."""
        return self._value

    def maybe_to_stack(self) -> Any:
        """A `NonTensorStack` with the value at each position; without batch dimensions the wrapper itself."""
        return classes.NonTensorStack.from_nontensordata(self) if self._size else self

    def _with_item(self, index: Any, value: Any) -> Any:
        """What this becomes when positions are given another value: itself where it is the same."""
        wrapped = getattr(value, "_is_non_tensor", False)
        if all(same(one, self._value) for one in (values_and_positions(value)[0] if wrapped else [value])):
            return self
        if not self._size:
            return value if wrapped else self._make(value, self._size, self._where)
        return self.maybe_to_stack()._with_item(index, value)

    # --- a batch without entries

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Any:
        """With a batch dimension of size 1 at `dim`: a stack of this one wrapper."""
        dim = self._tensordict._dim(args[0] if args else kwargs["dim"], 1, RuntimeError)
        return classes.NonTensorStack._combine(torch.stack, [self], dim)

    def expand(self, *args: Any) -> Any:
        """Another batch size; for leading dimensions that are new, a stack of wrappers of the same value."""
        size = self._tensordict.expand(*args).batch_size
        below = self._sized(size[len(size) - len(self._size) :])
        return below if len(below._size) == len(size) else classes.NonTensorStack._repeated(below, size)

    def _sized(self, size: torch.Size) -> Self:
        """The wrapper with another batch size."""
        return self._make(self._value, size, self._where)

    @property
    def _tensordict(self) -> Any:
        names = self._dim_names
        return make_td({}, self._size, self._where, None if names is None else list(names))

    def _wrap(self, inner: Any) -> Self:
        return self._make(self._value, inner.batch_size, inner.device, inner._names_or_none())

    def _holds_fields(self, inner: Any) -> bool:
        return True

    @property
    def batch_size(self) -> torch.Size:
        """The positions that the value stands for."""
        return self._size

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        self.__dict__["_size"] = torch.Size(size)

    @property
    def shape(self) -> torch.Size:
        """The batch size."""
        return self._size

    @property  # type: ignore[misc]  # nothing is moved
    def device(self) -> torch.device | None:
        """What the tensordict around has."""
        return self._where

    @property
    def names(self) -> list[str | None]:
        """Of the batch dimensions."""
        return self._dim_names or [None] * len(self._size)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self.__dict__["_dim_names"] = None if names is None else list(names)

    def _names_or_none(self) -> list[str | None] | None:
        return self._dim_names

    def _set_device(self, device: torch.device | None) -> None:
        self.__dict__["_where"] = device

    @property
    def is_locked(self) -> bool:
        """Whether a locked tensordict holds it."""
        return self._is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        self.__dict__["_is_locked"] = bool(value)

    def lock_(self) -> Self:
        """Mark as locked."""
        self.is_locked = True
        return self

    def unlock_(self) -> Self:
        """Mark as unlocked."""
        self.is_locked = False
        return self

    def _lock_below(self, parent: weakref.ref[Any] | None) -> None:
        self.is_locked = True

    def _check_unlock(self, parent: Any) -> None:
        """Nothing here can be held by another locked parent: values are not written."""

    def _unlock_below(self, parent: Any) -> None:
        self.is_locked = False

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """Another wrapper of the same value."""
        return self._make(self._value, self._size, self._where, self._dim_names)

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:
        """Take over another wrapper's value.

        Raises:
            RuntimeError: it has several values.
        """
        if not isinstance(src, NonTensorDataBase):
            raise RuntimeError("a NonTensorStack has several values; use maybe_to_stack() on both sides.")
        self._set_value(src.data)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same value, as if on another device; dtypes concern it not."""
        inner = self._tensordict.to(*args, **kwargs)
        return self._make(self._value, self._size, inner.device, self._dim_names)

    def empty(self, recurse: bool = False, *, device: Any = None, batch_size: Any = None, names: Any = None) -> Self:
        """The wrapper with its value, which is no entry."""
        return self._make(self._value, self._size if batch_size is None else torch.Size(batch_size), self._where)

    def select(self, *keys: Any, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        """The wrapper: it has no entries to select from."""
        return self

    def get(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        """The value for "data"; otherwise the default."""
        if key in ("data", ("data",)):
            return self._value
        return args[0] if args else kwargs.get("default")

    def _take_over(self, source: Any) -> None:
        """Take another wrapper's value, that of {"data": value}, or the value itself."""
        if getattr(source, "_is_non_tensor", False):
            source = source.data
        elif isinstance(source, dict) and "data" in source:
            source = source["data"]
        self._set_value(source)

    # --- indexing, combining, comparing

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and self._size and -self._size[0] <= index < self._size[0]:
            return self._make(self._value, self._size[1:], self._where, self._dim_names and self._dim_names[1:])
        if isinstance(index, str) and index == "data":
            return self._value
        inner = self._tensordict[index]
        return self._wrap(inner) if isinstance(inner, TensorDictBase) else inner

    def __setitem__(self, index: Any, value: Any) -> None:
        changed = self._with_item(index, value)
        if changed is not self:
            raise ValueError(
                "a NonTensorData has one value for all positions; set parts of `maybe_to_stack()`, or of the "
                "tensordict that holds it: td[index] = other."
            )

    def __eq__(self, other: object) -> Any:
        value = other.data if isinstance(other, NonTensorDataBase) else other
        if getattr(other, "_is_non_tensor", False) and not isinstance(other, NonTensorDataBase):
            return other == self
        return torch.full(tuple(self._size), same(self._value, value), dtype=torch.bool)

    __hash__ = NonTensorWrapper.__hash__

    @classmethod
    def _stack_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        first = tensors[0]
        if _all_same(tensors) and (isinstance(first, MetaData) or capture_non_tensor_stack()):
            return _with_size_of(first, torch.stack([item._tensordict for item in tensors], dim))
        result = classes.NonTensorStack._combine(torch.stack, tensors, dim)
        return out._take(result) if isinstance(out, classes.NonTensorStack) else result

    @classmethod
    def _cat_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        if _all_same(tensors):
            return _with_size_of(tensors[0], torch.cat([item._tensordict for item in tensors], dim))
        result = classes.NonTensorStack._combine(torch.cat, tensors, dim)
        return out._take(result) if isinstance(out, classes.NonTensorStack) else result

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._value, self._size, self._where, self._dim_names, self._saved)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        return self._make(copy.deepcopy(self._value, memo), self._size, self._where, self._dim_names)

    def __len__(self) -> int:
        return self._size[0] if self._size else 0

    def __bool__(self) -> bool:
        if self._size:
            raise RuntimeError("a NonTensorData with batch dimensions has no truth value; use its `data`.")
        return bool(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(data={self._value}, batch_size={self._size}, device={self._where})"


class NonTensorData(NonTensorDataBase):
    """A value that is the same at all positions of a batch, as an entry of a tensordict.

    `td["key"]` gives the value, `td.get("key")` the wrapper. A stack of them has a value for each: `NonTensorStack`.
    """

    _is_template = True


class MetaData(NonTensorDataBase):
    """A value about the whole batch: equal ones stay one value when they are stacked.

    `MetaData[str]` says in an annotation what the value is.
    """

    _is_template = True

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Self:
        """With a batch dimension of size 1 at `dim`."""
        return self._wrap(self._tensordict.unsqueeze(*args, **kwargs))

    def expand(self, *args: Any) -> Self:
        """Another batch size."""
        return self._wrap(self._tensordict.expand(*args))

    @classmethod
    def _subscripted(cls, item: Any) -> type:
        known = _META_DATA_OF.get((cls, item))
        if known is None:
            name = f"{cls.__name__}[{getattr(item, '__name__', item)}]"
            make: Any = type(cls)
            known = make(name, (cls,), {"__module__": cls.__module__})
            _META_DATA_OF[cls, item] = known
        return known


_META_DATA_OF: dict[tuple[type, Any], type] = {}


def _all_same(tensors: list[Any]) -> bool:
    first = tensors[0]
    return all(type(item) is type(first) and isinstance(item, NonTensorDataBase) for item in tensors) and all(
        same(item._value, first._value) for item in tensors[1:]
    )


def _with_size_of(wrapper: Any, inner: Any) -> Any:
    return type(wrapper)._make(wrapper._value, inner.batch_size, inner.device)


def _rebuild(
    cls: type[NonTensorDataBase], value: Any, size: torch.Size, where: Any, names: Any, saved: Any = None
) -> NonTensorDataBase:
    made = cls._make(value, size, where, names)
    if saved is not None:
        made.__dict__["_saved"] = saved
    return made


def values_and_positions(wrapper: Any) -> tuple[list[Any], Tensor]:
    """The distinct values of a wrapper, and the number of the one at each position."""
    if isinstance(wrapper, NonTensorDataBase):
        return [wrapper._value], torch.zeros(tuple(wrapper._size), dtype=torch.int64)
    return wrapper._values, wrapper._positions
