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

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.linked_list import LinkedList
from flambeau.data.tensordict._layout.non_tensor import same
from flambeau.data.tensordict._methods.pointwise import PointwiseMethods
from flambeau.data.tensordict._methods.reduction import ReductionMethods
from flambeau.data.tensordict._non_tensor.data import NonTensorData, NonTensorDataBase, values_and_positions
from flambeau.data.tensordict._non_tensor.positions import (
    KEY,
    combined,
    compacted,
    is_one_value,
    place_after,
    positions_td,
    shared,
    shared_behind,
    shared_dims,
    with_own,
)
from flambeau.data.tensordict._non_tensor.wrapper import NonTensorWrapper, write_to
from flambeau.data.tensordict.base import TensorDictBase

_LONGEST_TEXT = 50  # of the values in the text of a stack


class NonTensorStack(NonTensorWrapper):
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
    _combine_rank: ClassVar[int] = 30
    _owner: Any = None  # lazy stack and key of the entry that these values were put together for
    _values: list[Any]
    _dim: int
    _tensordict: Any

    def __init__(self, *args: Any, stack_dim: int = 0, **kwargs: Any) -> None:
        wrappers = [item if getattr(item, "_is_non_tensor", False) else NonTensorData(item) for item in args]
        if not wrappers:
            values: list[Any] = []
            inner = positions_td(torch.zeros(0, dtype=torch.int64))
        else:
            values, inner = combined(torch.stack, wrappers, stack_dim)
        own = self.__dict__
        own["_values"], own["_tensordict"], own["_dim"] = values, inner, stack_dim % max(1, len(inner.batch_size))

    @classmethod
    def _of(cls, values: list[Any], inner: Any, dim: int = 0) -> Any:
        """A stack of values and positions; where one value stands for all positions, the value alone."""
        positions = inner._get_str(KEY)
        mapped = torch._C._functorch.is_batchedtensor(positions)  # by torch.vmap, below which nothing tells the values
        if not mapped and (not inner.batch_size or is_one_value(positions)):
            number = int(positions[(0,) * positions.ndim])
            return NonTensorData._make(values[number], inner.batch_size, inner.device, inner._names_or_none())
        made = cls.__new__(cls)
        own = made.__dict__
        own["_dim"] = max(0, min(dim, len(inner.batch_size) - 1))
        if not mapped and positions.numel() * 2 < len(values):
            values, positions = compacted(values, positions)
            inner = positions_td(positions, inner)
        own["_values"], own["_tensordict"] = values, inner
        return made

    @classmethod
    def _combine(cls, function: Callable[..., Any], wrappers: list[Any], dim: int) -> Any:
        """Stack or concatenate wrappers of whatever kind; the result is a stack."""
        values, inner = combined(function, wrappers, dim)
        return cls._of(values, inner, dim % len(inner.batch_size) if function is torch.stack else 0)

    @classmethod
    def _repeated(cls, wrapper: NonTensorDataBase, size: torch.Size) -> Any:
        """A stack of equal wrappers: a batch size that ends with theirs."""
        width = len(size) - len(wrapper._size)
        positions = torch.zeros(size[:width], dtype=torch.int64)
        positions = positions.as_strided(size, [*positions.stride(), *[0] * len(wrapper._size)])
        names = wrapper._dim_names
        inner = positions_td(positions)
        inner._device, inner._names = wrapper._where, None if names is None else [*[None] * width, *names]
        return cls._of([wrapper._value], inner)

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
        inner = positions_td(torch.arange(len(values)).reshape(shape))
        inner._device = device
        return cls._of(values, inner)

    @classmethod
    def from_nontensordata(cls, non_tensor: NonTensorDataBase) -> Any:
        """The value of a wrapper at each of its positions."""
        values, positions = values_and_positions(non_tensor)
        return cls._of(list(values), positions_td(positions, non_tensor._tensordict))

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
        return self._tensordict._get_str(KEY)

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

    def _wrap(self, inner: Any, dim: int | None = None) -> Any:
        return self if inner is self._tensordict else self._of(self._values, inner, self._dim if dim is None else dim)

    def _holds_fields(self, inner: Any) -> bool:
        return inner._get_str(KEY) is not None

    def _take(self, other: Any) -> Self:
        """Become another wrapper, of the same batch size."""
        values, positions = values_and_positions(other)
        return self._become(list(values), positions_td(positions, self._tensordict))

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

    def clone(self, recurse: bool = True, **kwargs: Any) -> Any:
        """Another stack of the same values."""
        # The numbers are never written to, and those of a clone would all have strides of their own.
        return self._of(list(self._values), self._tensordict.copy(), self._dim)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same values, as if on another device; dtypes concern them not."""
        inner = self._tensordict
        empty = inner.empty().to(*args, **kwargs)
        made = positions_td(inner._get_str(KEY), inner)
        made._device = empty.device
        return self._of(self._values, made, self._dim)

    # --- shape operations that move `stack_dim`, or add a dimension along which there are several wrappers

    def view(self, *shape: Any, size: Any = None, batch_size: torch.Size | None = None) -> Any:
        """Another batch size; another dtype concerns the values not."""
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            return self
        return self._wrap(self._tensordict.view(*shape, size=size))

    def permute(self, *args: Any, **kwargs: Any) -> Any:
        """The batch dimensions in another order."""
        inner = self._tensordict.permute(*args, **kwargs)
        order = args or kwargs["dims"]
        order = order if isinstance(order[0], int) else order[0]
        return self._wrap(inner, [dim % len(order) for dim in order].index(self._dim))

    def transpose(self, dim0: int, dim1: int) -> Any:
        """Two batch dimensions exchanged."""
        inner = self._tensordict.transpose(dim0, dim1)
        one, two = dim0 % len(self.batch_size), dim1 % len(self.batch_size)
        return self._wrap(inner, {one: two, two: one}.get(self._dim, self._dim))

    def unsqueeze(self, *args: Any, **kwargs: Any) -> Any:
        """With a batch dimension of size 1 at `dim`."""
        inner = self._tensordict.unsqueeze(*args, **kwargs)
        new = (args[0] if args else kwargs["dim"]) % len(inner.batch_size)
        kept = {dim + (dim >= new) for dim in shared_dims(self)}
        inner = positions_td(with_own(inner._get_str(KEY), [new], kept), inner)
        return self._wrap(inner, self._dim + (new <= self._dim))

    def squeeze(self, *args: Any, **kwargs: Any) -> Any:
        """Without batch dimensions of size 1."""
        inner = self._tensordict.squeeze(*args, **kwargs)
        dim = args[0] if args else kwargs.get("dim")
        size = self.batch_size
        asked = range(len(size)) if dim is None else (dim,) if isinstance(dim, int) else dim
        gone = {one % len(size) for one in asked if size[one] == 1}
        return self._wrap(inner, self._dim - sum(one < self._dim for one in gone))

    def expand(self, *args: Any) -> Any:
        """Another batch size, with leading dimensions along which the stack is repeated."""
        inner = self._tensordict.expand(*args)
        width = len(self.batch_size)
        extra = len(inner.batch_size) - width
        kept = {dim + extra for dim in shared_dims(self)}
        new = [dim for dim in range(extra + width) if dim not in kept]
        inner = positions_td(with_own(inner._get_str(KEY), new, kept), inner)
        return self._wrap(inner, self._dim + extra)

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
        changed = inner._get_str(KEY).clone()
        changed[index] = positions + len(self._values)
        pool, changed = compacted([*self._values, *values], changed)
        return self._become(pool, positions_td(changed, inner))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._with_item(index, value)

    def _take_over(self, source: Any) -> None:
        """Take the values of another wrapper, or one value for all positions."""
        self._with_item((), source)

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
        self.__dict__["_values"], self.__dict__["_tensordict"] = combined(torch.stack, parts, self._dim)

    # --- indexing, combining, comparing

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise KeyError(f"a NonTensorStack has no keys, here {index!r}; it is indexed by position.")
        inner = self._tensordict[index]
        if kept := shared_behind(index, self):
            last = len(inner.batch_size)
            inner = positions_td(shared(inner._get_str(KEY), range(last - kept, last)), inner)
        return self._wrap(inner, place_after(index, self._dim, len(self.batch_size)))

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
        if any(-1 in tensor.batch_size for tensor in tensors):
            return classes.RaggedNonTensorStack._made(tensors, dim)
        result = NonTensorStack._combine(torch.stack, tensors, dim)
        return out._take(result) if isinstance(out, NonTensorStack) else result

    @classmethod
    def _cat_of(cls, tensors: list[Any], dim: int, out: Any) -> Any:
        result = NonTensorStack._combine(torch.cat, tensors, dim)
        return out._take(result) if isinstance(out, NonTensorStack) else result

    def __eq__(self, other: object) -> Any:
        if not getattr(other, "_is_non_tensor", False):
            listed = self._from_nested(other, None, len(self.batch_size)) if isinstance(other, list) else None
            fits = listed is not None and listed.batch_size == self.batch_size
            other = listed if fits else NonTensorData(other, batch_size=self.batch_size)
        values, positions = values_and_positions(other)
        mine = self._positions.reshape(-1).tolist()
        theirs = positions.expand(self.batch_size).reshape(-1).tolist()
        equal = [same(self._values[a], values[b]) for a, b in zip(mine, theirs, strict=True)]
        return torch.tensor(equal, dtype=torch.bool).reshape(tuple(self.batch_size))

    __hash__ = NonTensorWrapper.__hash__

    def __reduce__(self) -> Any:
        values, positions = compacted(self._values, self._positions)
        return _rebuild, (values, positions_td(positions, self._tensordict), self._dim, self._saved)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._of(copy.deepcopy(self._values, memo), self._tensordict.copy(), self._dim)

    def __repr__(self) -> str:
        text = str(self.tolist())
        shown = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
        return f"NonTensorStack(\n    {shown},\n    batch_size={self.batch_size},\n    device={self.device})"


def _left_alone(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: NonTensorStack, *args: Any, **kwargs: Any) -> NonTensorStack:
        return self

    return call


def _leave_arithmetic_out() -> None:
    """What works on elements leaves values alone; it would otherwise reach the numbers of the positions."""
    others = ["apply", "apply_", "named_apply", "zero_", "fill_", "masked_fill", "masked_fill_", "all", "any", "type"]
    dtypes = [name for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)]
    others += [name for name in dtypes if hasattr(TensorDictBase, name)]
    families = {**vars(PointwiseMethods), **vars(ReductionMethods), **{n: getattr(TensorDictBase, n) for n in others}}
    for name, value in families.items():
        if callable(value) and name not in vars(NonTensorStack) and name not in ("__doc__", "__module__"):
            setattr(NonTensorStack, name, _left_alone(name, value))


_leave_arithmetic_out()


def _pick(values: list[Any], numbers: Any) -> Any:
    return [_pick(values, item) for item in numbers] if isinstance(numbers, list) else values[numbers]


def _rebuild(values: list[Any], inner: Any, dim: int, saved: Any = None) -> Any:
    made = NonTensorStack._of(values, inner, dim)
    if saved is not None:
        made.__dict__["_saved"] = saved
    return made
