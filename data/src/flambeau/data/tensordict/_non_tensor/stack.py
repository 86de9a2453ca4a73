"""`NonTensorStack`: a Python value for each position of a batch.

It is a list of values and an int64 tensor of the batch's shape that says which of them stands where. So every shape
operation, every index and every combination is the one of a tensor.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.non_tensor import same
from flambeau.data.tensordict._methods.pointwise import PointwiseMethods
from flambeau.data.tensordict._methods.reduction import ReductionMethods
from flambeau.data.tensordict._non_tensor.data import (
    NonTensorData,
    NonTensorDataBase,
    add_order,
    compared,
    successor,
    values_and_positions,
    write_to,
)
from flambeau.data.tensordict._td import make_td
from flambeau.data.tensordict._tensorclass.base import TensorClass
from flambeau.data.tensordict.base import TensorDictBase

_KEY = "positions"


class NonTensorStack(TensorClass):
    """Values that differ between the positions of a batch.

    Args:
        args: the values, or wrappers of one batch size, which are stacked.
        stack_dim: the new dimension.

    Example:
        >>> stack = NonTensorStack("a", "b", "c")
        >>> stack[1:].tolist(), stack[0].data
        (['b', 'c'], 'a')
    """

    _is_template = True
    _is_non_tensor: ClassVar[bool] = True
    _combine_rank: ClassVar[int] = 30
    _saved: Any = None  # a memmap.saved.Saved, where the values are saved in a folder that follows their changes
    _owner: Any = None  # lazy stack and key of the entry that these values were put together for
    _values: list[Any]
    _dim: int
    _tensordict: Any

    def __init__(self, *args: Any, stack_dim: int = 0, **kwargs: Any) -> None:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        wrappers = [item if getattr(item, "_is_non_tensor", False) else NonTensorData(item) for item in args]
        if not wrappers:
            values: list[Any] = []
            inner = _positions_td(torch.zeros(0, dtype=torch.int64))
        else:
            values, inner = _combined(torch.stack, wrappers, stack_dim)
        own = self.__dict__
        own["_values"], own["_tensordict"], own["_dim"] = values, inner, stack_dim % max(1, len(inner.batch_size))

    @classmethod
    def _of(cls, values: list[Any], inner: Any, dim: int = 0) -> Any:
        """A stack of values and positions; without positions the value alone."""
        positions = inner._get_str(_KEY)
        if not inner.batch_size:
            return NonTensorData._make(values[int(positions)], inner.batch_size, inner.device)
        made = cls.__new__(cls)
        own = made.__dict__
        own["_dim"] = min(dim, len(inner.batch_size) - 1)
        if positions.numel() * 2 < len(values):
            values, positions = _compacted(values, positions)
            inner = _positions_td(positions, inner)
        own["_values"], own["_tensordict"] = values, inner
        return made

    @classmethod
    def _combine(cls, function: Callable[..., Any], wrappers: list[Any], dim: int) -> Any:
        """Stack or concatenate wrappers of whatever kind; the result is a stack."""
        values, inner = _combined(function, wrappers, dim)
        return cls._of(values, inner, dim % len(inner.batch_size) if function is torch.stack else 0)

    @classmethod
    def from_list(cls, non_tensors: list[Any]) -> Any:
        """A stack of nested lists; a list is a dimension as long as all at its depth are lists of one length.

        Example:
            >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).batch_size
            torch.Size([2, 2])
        """
        return cls._from_nested(non_tensors, None)

    @classmethod
    def _from_nested(cls, lists: Any, device: torch.device | None, ndim: int | None = None) -> Any:
        shape: list[int] = []
        level = [lists]
        while level and all(isinstance(item, list) for item in level) and (ndim is None or len(shape) < ndim):
            lengths = {len(item) for item in level}
            if len(lengths) > 1 or (lengths == {0} and shape):
                break
            shape.append(lengths.pop())
            level = [inner for item in level for inner in item]
        values = [item.data if isinstance(item, NonTensorDataBase) else item for item in level]
        if not shape:
            return NonTensorData._make(values[0], torch.Size([]), device)
        inner = _positions_td(torch.arange(len(values)).reshape(shape))
        inner._device = device
        return cls._of(values, inner)

    @classmethod
    def from_nontensordata(cls, non_tensor: NonTensorDataBase) -> Any:
        """The value of a wrapper at each of its positions."""
        values, positions = values_and_positions(non_tensor)
        return cls._of(list(values), _positions_td(positions, non_tensor._tensordict))

    @classmethod
    def lazy_stack(
        cls,
        items: Sequence[Any],
        dim: int = 0,
        *,
        device: Any = None,
        out: Any = None,
        stack_dim_name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """A stack of wrappers of one batch size, written to `out` where it is given."""
        made = NonTensorStack._combine(torch.stack, list(items), dim)
        if stack_dim_name is not None:
            made.names = [stack_dim_name if at == made.stack_dim else name for at, name in enumerate(made.names)]
        made = made if device is None else made.to(device)
        return made if out is None else out._take(made)

    # --- the values

    @property
    def _positions(self) -> Tensor:
        return self._tensordict._get_str(_KEY)

    def tolist(self, *, convert_tensors: Any = False, tolist_first: bool = False, as_linked_list: bool = False) -> Any:
        """The values, in nested lists of the batch's shape.

        Args:
            convert_tensors: values that have a `tolist` are converted too.
            tolist_first: the same.
            as_linked_list: give a list whose changes are written to this stack.
        """
        values = self._values
        if convert_tensors or tolist_first:
            values = [item.tolist() if hasattr(item, "tolist") else item for item in values]
        nested = _pick(values, self._positions.tolist())
        return LinkedList(nested, td=self) if as_linked_list else nested

    def _unwrap(self) -> Any:
        return self.tolist(as_linked_list=True)

    def to_dict(  # type: ignore[override]  # upstream's arguments
        self,
        *,
        retain_none: bool = True,
        convert_tensors: Any = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """As `tolist`."""
        return self.tolist(convert_tensors=convert_tensors, as_linked_list=as_linked_list)

    def to_tensordict(self, *, retain_none: bool | None = None) -> Self:
        """A copy."""
        return self.clone()

    @property
    def data(self) -> Any:
        """The value, where all positions have the same.

        Raises:
            AttributeError: they differ.
        """
        used = [self._values[index] for index in self._positions.unique().tolist()]
        if not used or not all(same(item, used[0]) for item in used):
            raise AttributeError("the values of a NonTensorStack differ; use tolist().")
        return used[0]

    @property
    def tensordicts(self) -> list[Any]:
        """The parts along `stack_dim`."""
        return list(self.unbind(self._dim))

    @property
    def stack_dim(self) -> int:
        """The dimension that the parts lie along."""
        return self._dim

    def maybe_to_stack(self) -> Self:
        """The stack itself."""
        return self

    def is_empty(self) -> bool:
        """Never: there are values."""
        return False

    def is_shared(self) -> bool:
        """Always False: values are not in shared memory."""
        return False

    def is_memmap(self) -> bool:
        """Always False: the values lie in this process."""
        return False

    def share_memory_(self) -> Self:
        """Nothing to share."""
        return self

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """The stack itself: its values are no tensors."""
        return self

    def densify(self, layout: torch.layout = torch.strided) -> Self:
        """The stack itself: its values are no tensors."""
        return self

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Self:
        """With batched positions: which value it is cannot be known, even where no dimension is left."""
        made = type(self).__new__(type(self))
        inner = self._tensordict._add_batch_dim(in_dim=in_dim, vmap_level=vmap_level)
        made.__dict__.update(_values=self._values, _tensordict=inner, _dim=0)
        return made

    # --- positions as a tensordict

    def _wrap(self, inner: Any) -> Any:
        return self._of(self._values, inner, self._dim)

    def _holds_fields(self, inner: Any) -> bool:
        return inner._get_str(_KEY) is not None

    def _take(self, other: Any) -> Self:
        """Become another wrapper, of the same batch size."""
        values, positions = values_and_positions(other)
        return self._become(list(values), _positions_td(positions, self._tensordict))

    def _become(self, values: list[Any], inner: Any) -> Self:
        """Take over other values, here, where they are saved and in what they were put together from."""
        if self._saved is not None or self._owner is not None:
            changed = self._of(values, inner, self._dim)
            if self._saved is not None:
                write_to(self._saved, changed)
            if self._owner is not None:
                stack, key = self._owner
                stack._set_str(key, changed, inplace=True)
        own = self.__dict__
        own["_values"], own["_tensordict"] = values, inner
        return self

    def _replaced_by(self, other: Any) -> Any:
        """The wrapper to put in place of this one: `other`, saved where this one is."""
        return successor(self, other)

    def _apply_nest(self, call: Any, others: Any, prefix: tuple[str, ...] = ()) -> Self:
        return self

    def _collect(self, leaves: list[Any]) -> None:
        """There are no tensors."""

    def _rebuild(self, leaves: Any, device: Any = None) -> Self:
        return self

    def clone(self, recurse: bool = True, **kwargs: Any) -> Any:
        """Another stack of the same values."""
        return self._of(list(self._values), self._tensordict.clone(), self._dim)

    def copy(self) -> Any:
        """Another stack of the same values."""
        return self.clone()

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same values, as if on another device; dtypes concern them not."""
        inner = self._tensordict
        empty = inner.empty().to(*args, **kwargs)
        made = _positions_td(inner._get_str(_KEY), inner)
        made._device = empty.device
        return self._of(self._values, made, self._dim)

    # --- writing

    def _with_item(self, index: Any, value: Any) -> Self:
        """Write values at an index, which all parts of the batch then see; returns this stack."""
        if not getattr(value, "_is_non_tensor", False):
            if isinstance(value, list):
                value = type(self)._from_nested(value, None, self._positions[index].ndim)
            else:
                value = NonTensorData(value)
        values, positions = values_and_positions(value)
        inner = self._tensordict
        changed = inner._get_str(_KEY).clone()
        changed[index] = positions + len(self._values)
        pool, changed = _compacted([*self._values, *values], changed)
        return self._become(pool, _positions_td(changed, inner))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._with_item(index, value)

    def update(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Any = None,
        is_leaf: Any = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Take over the values of another wrapper, or one value for all positions."""
        return self if input_dict_or_td is None else self._with_item((), input_dict_or_td)

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Any = None,
        **kwargs: Any,
    ) -> Self:
        """As `update`."""
        return self.update(input_dict_or_td)

    def update_at_(self, input_dict_or_td: Any, index: Any, clone: bool = False, *, non_blocking: bool = False) -> Self:
        """Take over values at an index."""
        return self._with_item(index, input_dict_or_td)

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:
        """Take over the values of another wrapper."""
        return self._with_item((), src)

    def append(self, value: Any) -> None:
        """Add a value, or a wrapper, at the end of `stack_dim`."""
        self.insert(self.batch_size[self._dim], value)

    def extend(self, values: Any) -> None:
        """Add several values, or the parts of a wrapper, at the end of `stack_dim`."""
        parts = values.unbind(self._dim) if getattr(values, "_is_non_tensor", False) else values
        for item in parts:
            self.append(item)

    def insert(self, index: int, value: Any) -> None:
        """Insert a value, or a wrapper, along `stack_dim`."""
        parts = self.tensordicts
        parts.insert(index, value if getattr(value, "_is_non_tensor", False) else NonTensorData(value))
        self.__dict__["_values"], self.__dict__["_tensordict"] = _combined(torch.stack, parts, self._dim)

    # --- indexing, combining, comparing

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise KeyError(f"a NonTensorStack has no keys, here {index!r}; it is indexed by position.")
        return self._wrap(self._tensordict[index])

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def keys(self, *args: Any, **kwargs: Any) -> Any:
        """There are none."""
        return {}.keys()

    def items(self, *args: Any, **kwargs: Any) -> Any:
        """There are none."""
        return iter(())

    def values(self, *args: Any, **kwargs: Any) -> Any:
        """There are none; see `tolist`."""
        return iter(())

    def _items(self) -> Any:
        return {}.items()

    def _key_names(self) -> Any:
        return {}.keys()

    def get(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        """The default: there are no keys."""
        return args[0] if args else kwargs.get("default")

    @classmethod
    def _stack_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        result = NonTensorStack._combine(torch.stack, tensors, dim)
        return out._take(result) if isinstance(out, NonTensorStack) else result

    @classmethod
    def _cat_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        result = NonTensorStack._combine(torch.cat, tensors, dim)
        return out._take(result) if isinstance(out, NonTensorStack) else result

    def __eq__(self, other: object) -> Any:
        if not getattr(other, "_is_non_tensor", False):
            other = NonTensorData(other, batch_size=self.batch_size)
        values, positions = values_and_positions(other)
        mine = self._positions.reshape(-1).tolist()
        theirs = positions.expand(self.batch_size).reshape(-1).tolist()
        equal = [same(self._values[a], values[b]) for a, b in zip(mine, theirs, strict=True)]
        return torch.tensor(equal, dtype=torch.bool).reshape(tuple(self.batch_size))

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    def _compare(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        return compared(self, other, compare)

    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        values, positions = _compacted(self._values, self._positions)
        return _rebuild, (values, _positions_td(positions, self._tensordict), self._dim, self._saved)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._of(copy.deepcopy(self._values, memo), self._tensordict.clone(), self._dim)

    def __repr__(self) -> str:
        return f"NonTensorStack(\n    {self.tolist()},\n    batch_size={self.batch_size},\n    device={self.device})"


def _left_alone(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: NonTensorStack, *args: Any, **kwargs: Any) -> NonTensorStack:
        return self

    return call


def _leave_arithmetic_out() -> None:
    """Arithmetic and reductions leave values alone; they would otherwise reach the numbers of the positions."""
    others = ("apply", "apply_", "named_apply", "zero_", "fill_", "masked_fill", "masked_fill_")
    families = {**vars(PointwiseMethods), **vars(ReductionMethods), **{n: getattr(TensorDictBase, n) for n in others}}
    for name, value in families.items():
        if callable(value) and name not in vars(NonTensorStack) and name not in ("__doc__", "__module__"):
            setattr(NonTensorStack, name, _left_alone(name, value))


_leave_arithmetic_out()
add_order(NonTensorStack)


class LinkedList(list[Any]):
    """The values of a `NonTensorStack` as a list; assigning to an item writes to the stack.

    Args:
        args: of `list`.
        td: the stack.
    """

    def __init__(self, *args: Any, td: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._td = td
        self._at: tuple[int, ...] = ()
        for index, item in enumerate(self):
            if type(item) is list and td.ndim > 1:
                super().__setitem__(index, _below(item, td, (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self._td._with_item((*self._at, index), value)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "the list shows the values of a NonTensorStack, whose length is that of the batch; assign items, or work "
            "on list(values)."
        )

    append = extend = insert = pop = remove = clear = __delitem__ = __iadd__ = __imul__ = sort = reverse = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


def _below(items: list[Any], td: Any, at: tuple[int, ...]) -> LinkedList:
    made = LinkedList.__new__(LinkedList)
    list.__init__(made, items)
    made._td, made._at = td, at
    if td.ndim > len(at) + 1:
        for index, item in enumerate(items):
            list.__setitem__(made, index, _below(item, td, (*at, index)))
    return made


def _combined(function: Callable[..., Any], wrappers: list[Any], dim: int) -> tuple[list[Any], TensorDictBase]:
    first = wrappers[0]
    if function is torch.stack and all(
        isinstance(item, NonTensorDataBase) and item._size == first._size and item._dim_names is None
        for item in wrappers
    ):
        return _stacked(wrappers, first, dim)
    pool: list[Any] = []
    parts = []
    for wrapper in wrappers:
        if not getattr(wrapper, "_is_non_tensor", False):
            raise RuntimeError(
                f"a {type(wrapper).__name__} cannot be combined with non-tensor data; the entry must be one or the "
                "other in all tensordicts."
            )
        values, positions = values_and_positions(wrapper)
        parts.append(_positions_td(positions + len(pool), wrapper._tensordict))
        pool.extend(values)
    return pool, function(parts, dim)


def _stacked(wrappers: list[Any], first: Any, dim: int) -> tuple[list[Any], TensorDictBase]:
    """The stack of wrappers of one value each: it is numbered along the new dimension."""
    ndim = len(first._size)
    if not -ndim - 1 <= dim <= ndim:
        raise IndexError(f"stack: dimension {dim} is out of range for wrappers of batch size {list(first._size)}.")
    dim %= ndim + 1
    numbers = torch.arange(len(wrappers)).reshape([-1 if at == dim else 1 for at in range(ndim + 1)])
    size = (*first._size[:dim], len(wrappers), *first._size[dim:])
    positions = _positions_td(numbers.expand(size))
    positions._device = first._where
    return [item._value for item in wrappers], positions


def _positions_td(positions: Tensor, like: Any = None) -> Any:
    if like is None:
        return make_td({_KEY: positions}, positions.shape)
    return make_td({_KEY: positions}, positions.shape, like.device, like._names_or_none())


def _compacted(values: list[Any], positions: Tensor) -> tuple[list[Any], Tensor]:
    """Only the values that stand somewhere."""
    used, numbers = positions.unique(return_inverse=True)
    return [values[index] for index in used.tolist()], numbers.reshape(positions.shape)


def _pick(values: list[Any], numbers: Any) -> Any:
    return [_pick(values, item) for item in numbers] if isinstance(numbers, list) else values[numbers]


def _rebuild(values: list[Any], inner: Any, dim: int, saved: Any = None) -> Any:
    made = NonTensorStack._of(values, inner, dim)
    if saved is not None:
        made.__dict__["_saved"] = saved
    return made
