"""`LazyStackedTensorDict`: tensordicts stacked in name only.

It holds a list of tensordicts and the dimension along which they stand. An entry is stacked when it is read; shapes and
keys may differ from one tensordict to the next. Indexing along the stack dimension gives the tensordicts themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.alignment import broadcast_sides, comparable
from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.keys import key_path, listing, missing_key
from flambeau.data.tensordict._layout.non_tensor import spread
from flambeau.data.tensordict._layout.pytree import register_tensordict
from flambeau.data.tensordict._layout.sizes import refuse_device
from flambeau.data.tensordict._lazy_stack import pytree
from flambeau.data.tensordict._lazy_stack.combining import LazyCombining
from flambeau.data.tensordict._lazy_stack.index import LazyIndexing
from flambeau.data.tensordict._lazy_stack.locking import LazyLocking
from flambeau.data.tensordict._lazy_stack.reading import LazyReading
from flambeau.data.tensordict._lazy_stack.reduction import LazyReducing
from flambeau.data.tensordict._lazy_stack.shape import LazyShape
from flambeau.data.tensordict._lazy_stack.structure import LazyStructure
from flambeau.data.tensordict._methods.apply import ApplyCall
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.base import TensorDictBase


class LazyStackedTensorDict(
    LazyReading, LazyIndexing, LazyStructure, LazyShape, LazyReducing, LazyCombining, LazyLocking, TensorDictBase
):
    """A stack of tensordicts that are kept as they are.

    Its keys are those that all tensordicts have; `td[i]` has the rest. Reading an entry stacks it, which raises where
    the shapes differ, unless `get` is asked for a list, a padded or a nested tensor. Writing an entry cuts it up.

    Args:
        tensordicts: of batch sizes with equal numbers of dimensions; where the sizes differ the batch size is -1.
        stack_dim: where the new dimension stands, >= 0.
        hook_out: function of every entry that is read.
        hook_in: function of every entry that is written.
        batch_size: the batch size of an empty stack's tensordicts, or a check of the stack's own.
        device: of an empty stack.
        names: of the batch dimensions.
        stack_dim_name: of the stack dimension.
        strict_shape: raise where the batch sizes differ.

    Raises:
        RuntimeError: the batch sizes differ in their number of dimensions, or at all with `strict_shape`.
        TypeError: something is no tensor collection.
        ValueError: a negative stack dimension.
    """

    tensordicts: list[Any]
    stack_dim: int

    def __init__(
        self,
        *tensordicts: Any,
        stack_dim: int = 0,
        hook_out: Callable[[Any], Any] | None = None,
        hook_in: Callable[[Any], Any] | None = None,
        batch_size: Sequence[int] | None = None,
        device: Any = None,
        names: Sequence[str | None] | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        if stack_dim < 0 and tensordicts:
            stack_dim += len(tensordicts[0].batch_size) + 1
        if stack_dim < 0:
            raise ValueError(f"stack_dim is out of range, by {-stack_dim} below 0.")
        for td in tensordicts:
            if not isinstance(td, TensorCollection):
                raise TypeError(f"a lazy stack holds tensordicts, not a {type(td).__name__}.")
        self.tensordicts = list(tensordicts)
        self.stack_dim = stack_dim
        self.hook_out, self.hook_in = hook_out, hook_in
        self._stack_dim_name = stack_dim_name
        self._element_size = self._common_size(strict_shape)
        if not tensordicts:
            size = list(batch_size or ())
            if len(size) > stack_dim:
                size.pop(stack_dim)
            self._element_size = torch.Size(size)
            self._empty_device = None if device is None else torch.device(device)
        elif batch_size is not None and torch.Size(batch_size) != self.batch_size:
            raise RuntimeError(f"the stack has batch size {list(self.batch_size)}, not {list(batch_size)}.")
        if names is not None:
            self.names = names

    _empty_device: torch.device | None = None
    _element_size: torch.Size
    hook_out: Callable[[Any], Any] | None = None
    hook_in: Callable[[Any], Any] | None = None
    _stack_dim_name: str | None = None

    def _common_size(self, strict: bool = False) -> torch.Size:
        """The batch size of the tensordicts, -1 where they differ."""
        if not self.tensordicts:
            return torch.Size(())
        first = self.tensordicts[0].batch_size
        sizes = [td.batch_size for td in self.tensordicts]
        if all(size == first for size in sizes):
            common = first
        elif strict or any(len(size) != len(first) for size in sizes):
            other = next(size for size in sizes if size != first)
            raise RuntimeError(f"the tensordicts of a lazy stack have batch sizes {list(first)} and {list(other)}.")
        else:
            common = torch.Size([each[0] if len(set(each)) == 1 else -1 for each in zip(*sizes, strict=True)])
        if self.stack_dim > len(first):
            raise RuntimeError(f"stack_dim {self.stack_dim} is out of range for batch size {list(first)}.")
        return common

    def _like(self, tensordicts: list[Any], stack_dim: int | None = None) -> Any:
        """A stack of other tensordicts, with the hooks and the name of the stack dimension of this one."""
        stack = object.__new__(LazyStackedTensorDict)
        stack.tensordicts = tensordicts
        stack.stack_dim = self.stack_dim if stack_dim is None else stack_dim
        stack.hook_out, stack.hook_in = self.hook_out, self.hook_in
        stack._stack_dim_name = self._stack_dim_name
        stack._element_size = stack._common_size() if tensordicts else self._element_size
        return stack

    # --- properties

    @property
    def batch_size(self) -> torch.Size:
        """The tensordicts' batch size with their number at the stack dimension; -1 where their sizes differ."""
        size, where = self._element_size, self.stack_dim
        return torch.Size((*size[:where], len(self.tensordicts), *size[where:]))

    @batch_size.setter
    def batch_size(self, new_size: Any) -> None:
        size = torch.Size((new_size,) if isinstance(new_size, int) else new_size)
        where = self.stack_dim
        if len(size) <= where or size[where] != len(self.tensordicts):
            raise RuntimeError(
                f"batch size {list(size)} does not keep {len(self.tensordicts)} at the stack dimension {where}."
            )
        element = torch.Size((*size[:where], *size[where + 1 :]))
        for td in self.tensordicts:
            td.batch_size = element
        self._element_size = element

    @property
    def device(self) -> torch.device | None:
        """The device of all tensordicts, None where they have none or several."""
        if not self.tensordicts:
            return self._empty_device
        device = self.tensordicts[0].device
        return device if all(td.device == device for td in self.tensordicts) else None

    @device.setter
    def device(self, device: Any) -> None:
        refuse_device(device)

    def _set_device(self, device: torch.device | None) -> None:
        self._empty_device = device
        for td in self.tensordicts:
            td._set_device(device)

    def _names_or_none(self) -> list[str | None] | None:
        below = self.tensordicts[0]._names_or_none() if self.tensordicts else None
        if below is None and self._stack_dim_name is None:
            return None
        names = list(below or [None] * len(self._element_size))
        names.insert(self.stack_dim, self._stack_dim_name)
        return names

    def _set_names(self, names: list[str | None] | None) -> None:
        if names is None:
            self._stack_dim_name = None
            below = None
        else:
            self._stack_dim_name = names[self.stack_dim]
            below = [*names[: self.stack_dim], *names[self.stack_dim + 1 :]]
            below = below if any(name is not None for name in below) else None
        for td in self.tensordicts:
            td._set_names(below)

    def _collections(self) -> list[Any]:
        return self.tensordicts

    def is_shared(self) -> bool:
        """Whether all tensors lie in memory that other processes can map."""
        return self._is_shared or (bool(self.tensordicts) and all(td.is_shared() for td in self.tensordicts))

    def is_memmap(self) -> bool:
        """Whether all tensors are memory-mapped files."""
        return self._is_memmap or (bool(self.tensordicts) and all(td.is_memmap() for td in self.tensordicts))

    def is_contiguous(self) -> bool:
        """False: the tensors of an entry lie apart."""
        return False

    def is_empty(self) -> bool:
        """Whether no tensordict holds anything."""
        return all(td.is_empty() for td in self.tensordicts)

    # --- writing

    def _set_str(
        self,
        key: str,
        value: Any,
        *,
        inplace: Any = False,
        validated: bool = False,
        ignore_lock: bool = False,
        non_blocking: bool = False,
    ) -> None:
        if self.is_locked and not (inplace or ignore_lock):
            raise RuntimeError(f"{key!r}: {LOCKED}")
        if self.hook_in is not None:
            value = self.hook_in(value)
        for td, part in zip(self.tensordicts, self._parts_of(key, value), strict=True):
            td._set_str(key, part, inplace=inplace, ignore_lock=ignore_lock, non_blocking=non_blocking)

    def _set_path(self, path: tuple[str, ...], value: Any, **options: Any) -> None:
        if len(path) > 1 and isinstance(self._peek_str(path[0]), Tensor):
            raise KeyError(f"{path[0]!r} is a tensor in these tensordicts; nothing can be set below it.")
        super()._set_path(path, value, **options)

    def _parts_of(self, key: str, value: Any) -> Sequence[Any]:
        """What each tensordict gets of an entry."""
        if not isinstance(value, (Tensor, TensorCollection)):
            value = convert(value, self.batch_size, self.device)
        where, size = self.stack_dim, self.batch_size
        if isinstance(value, TensorCollection) and value.batch_size[: len(size)] != size and -1 not in size:
            if value._is_non_tensor and not value.batch_size:
                value = spread(value, size)
            else:
                value = value.copy()
                value.batch_size = size
        ragged = isinstance(value, Tensor) and value.is_nested
        if not ragged and (len(value.shape) <= where or value.shape[where] != len(self.tensordicts)):
            raise RuntimeError(
                f"{key!r} has shape {list(value.shape)}, which does not begin with the batch size {list(size)}."
            )
        return value.unbind(where)

    def _del_str(self, key: str) -> None:
        for td in self.tensordicts:
            if td._get_str(key) is not None:
                td._del_str(key)

    def del_(self, key: Any, **kwargs: Any) -> Self:
        """Remove an entry from every tensordict that has it.

        Raises:
            KeyError: none has.
            RuntimeError: the stack is locked.
        """
        if self.is_locked:
            raise RuntimeError(LOCKED)
        path, found = key_path(key), False
        for td in self.tensordicts:
            if td._peek_path(path) is not None:
                td.del_(key)
                found = True
        if not found:
            raise missing_key(key, self._key_names())
        return self

    def fill_(self, key: Any, value: float | bool) -> Self:
        """Fill an entry of every tensordict with a number, in place."""
        for td in self.tensordicts:
            td.fill_(key, value)
        return self

    def rename_key_(self, old_key: Any, new_key: Any, safe: bool = False) -> Self:
        """Move an entry to another key in every tensordict; see `TensorDictBase.rename_key_`."""
        for td in self.tensordicts:
            td.rename_key_(old_key, new_key, safe=safe)
        return self

    def lock(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Gone; always raises RuntimeError, which names `lock_`."""
        raise RuntimeError("lock was removed: what it did works in place; call lock_().")

    def unlock(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Gone; always raises RuntimeError, which names `unlock_`."""
        raise RuntimeError("unlock was removed: what it did works in place; call unlock_().")

    def rename_key(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Gone; always raises RuntimeError, which names `rename_key_`."""
        raise RuntimeError("rename_key was removed: what it did works in place; call rename_key_(old_key, new_key).")

    def update(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        keys_to_update: Sequence[Any] | None = None,
        non_blocking: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Set the entries of a mapping or tensordict; see `TensorDictBase.update`.

        A tensordict is cut up along the stack dimension, and each part merged where it belongs.
        """
        options: dict[str, Any] = {
            "clone": clone, "inplace": inplace, "keys_to_update": keys_to_update, "non_blocking": non_blocking,
            "is_leaf": is_leaf, "update_batch_size": update_batch_size, "ignore_lock": ignore_lock,
        }  # fmt: skip
        if input_dict_or_td is self:
            return self
        if kwargs or not self._divides(input_dict_or_td):
            return super().update(input_dict_or_td, **options, **kwargs)
        if self.is_locked and not (inplace or ignore_lock):
            raise RuntimeError(LOCKED)
        parts = input_dict_or_td.unbind(self.stack_dim)
        if len(parts) != len(self.tensordicts) and update_batch_size:
            self._take_parts(input_dict_or_td, parts)
            return self
        self._check_parts(parts)
        for td, part in zip(self.tensordicts, parts, strict=True):
            td.update(part, **options)
        if update_batch_size:
            self._element_size = self._common_size()
        return self

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Write into the tensors that exist; see `TensorDictBase.update_`.

        A tensordict is cut up along the stack dimension, and each part written where it belongs.
        """
        options: dict[str, Any] = {"clone": clone, "non_blocking": non_blocking, "keys_to_update": keys_to_update}
        if input_dict_or_td is self:
            return self
        if kwargs or not self._divides(input_dict_or_td):
            return super().update_(input_dict_or_td, **options, **kwargs)
        parts = input_dict_or_td.unbind(self.stack_dim)
        self._check_parts(parts)
        for td, part in zip(self.tensordicts, parts, strict=True):
            td.update_(part, **options)
        return self

    def _divides(self, source: Any) -> bool:
        """Whether something has a part for each tensordict."""
        return isinstance(source, TensorCollection) and len(source.batch_size) > self.stack_dim

    def _check_parts(self, parts: Sequence[Any]) -> None:
        if len(parts) != len(self.tensordicts):
            raise ValueError(
                f"{len(parts)} parts cannot update a stack of {len(self.tensordicts)} tensordicts; "
                "update(..., update_batch_size=True) takes over their number."
            )

    def _take_parts(self, source: Any, parts: Sequence[Any]) -> None:
        """Become a stack of the parts of a source that has all keys of this one."""
        absent = set(self.keys(True)) - set(source.keys(True))
        if absent:
            raise RuntimeError(
                f"the source has {len(parts)} tensordicts instead of {len(self.tensordicts)}, but lacks "
                f"{listing(sorted(map(str, absent)))}; their shapes would be unknown."
            )
        self.tensordicts = list(parts)
        self._element_size = self._common_size()

    # --- the list

    def append(self, tensordict: Any) -> None:
        """Put another tensordict at the end."""
        self.insert(len(self.tensordicts), tensordict)

    def insert(self, index: int, tensordict: Any) -> None:
        """Put another tensordict before position `index`.

        Raises:
            TypeError: it is no tensor collection.
            ValueError: its batch size does not fit.
            RuntimeError: the stack is locked.
        """
        if not isinstance(tensordict, TensorCollection):
            raise TypeError(f"a lazy stack holds tensordicts, not a {type(tensordict).__name__}.")
        self._insert_all(index, [tensordict])

    def extend(self, tensordict: Iterable[Any] | Any) -> None:
        """Put the tensordicts of a list, or of a tensordict cut up along the stack dimension, at the end."""
        parts = tensordict.unbind(self.stack_dim) if isinstance(tensordict, TensorCollection) else list(tensordict)
        self._insert_all(len(self.tensordicts), parts)

    def _insert_all(self, index: int, items: Sequence[Any]) -> None:
        if self.is_locked:
            raise RuntimeError(LOCKED)
        before = self.tensordicts
        self.tensordicts = [*before[:index], *items, *before[index:]]
        try:
            self._element_size = self._common_size()
        except RuntimeError as error:
            self.tensordicts = before
            raise ValueError(str(error)) from error

    # --- walks

    def _collect(self, leaves: list[Any]) -> None:
        for td in self.tensordicts:
            td._collect(leaves)

    def _rebuild(self, leaves: Iterator[Any], device: torch.device | None = None) -> Any:
        return self._like([td._rebuild(leaves) for td in self.tensordicts])

    def _with_leaves(self, leaves: Iterator[Any], device: torch.device | None, inplace: bool) -> Any:
        if not inplace:
            return super()._with_leaves(leaves, device, inplace)
        for td in self.tensordicts:
            td._with_leaves(leaves, device, True)
        return self

    def _collect_like(self, other: Any, into: list[Any]) -> None:
        parts = other.unbind(self.stack_dim) if isinstance(other, TensorCollection) else None
        if parts is None or len(parts) != len(self.tensordicts):
            raise KeyError("arithmetic with a lazy stack takes a tensordict of the same batch size.")
        for td, part in zip(self.tensordicts, parts, strict=True):
            td._collect_like(part, into)

    def _collect_spread(self, tensor: Tensor, into: list[Any]) -> None:
        spread = tensor if tensor.shape == self.batch_size else tensor.expand(self.batch_size)
        for td, part in zip(self.tensordicts, spread.unbind(self.stack_dim), strict=True):
            td._collect_spread(part, into)

    def _apply_nest(self, call: ApplyCall, others: Sequence[Any], prefix: tuple[str, ...] = ()) -> Any:
        if call.batch_size is not None:
            return super()._apply_nest(call, others, prefix)
        columns = [
            [other] * len(self.tensordicts) if other is call.default else other.unbind(self.stack_dim)
            for other in others
        ]
        call_below = call._replace(names=NO_DEFAULT)
        results = [
            td._apply_nest(call_below, [column[place] for column in columns], prefix)
            for place, td in enumerate(self.tensordicts)
        ]
        if call.inplace:
            return self
        if any(result is None for result in results):
            return None
        stack = self._like(results)
        if call.names is not NO_DEFAULT:
            stack.names = call.names
        if call.propagate_lock and self.is_locked:
            stack._lock_below(None)
        return stack

    def _compare(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        if not comparable(other):
            return self._compare_strange(compare)
        me, other = broadcast_sides(self, other)
        if me is not self:
            return me._compare(other, compare)
        if isinstance(other, Mapping):
            other = convert(other, self.batch_size, self.device)
        parts: Sequence[Any]
        if isinstance(other, TensorCollection) or (isinstance(other, Tensor) and other.ndim > self.stack_dim):
            parts = other.unbind(self.stack_dim)
            if len(parts) != len(self.tensordicts):
                raise RuntimeError(f"{len(parts)} parts cannot be compared with {len(self.tensordicts)} tensordicts.")
        else:
            parts = [other] * len(self.tensordicts)
        return self._like([td._compare(part, compare) for td, part in zip(self.tensordicts, parts, strict=True)])

    def _compare_strange(self, compare: Callable[[Any, Any], Any]) -> bool:
        if compare in (operator.eq, operator.ne):
            return super()._compare_strange(compare)
        raise ValueError("a lazy stack is ordered only against tensordicts, tensors and numbers.")  # upstream: it is

    def _each_td(self, function: Callable[[Any], Any], stack_dim: int | None = None) -> Any:
        """A stack of a function of each tensordict; locked if this is."""
        result = self._like([function(td) for td in self.tensordicts], stack_dim)
        if self.is_locked:
            result._lock_below(None)
        return result

    def __copy__(self) -> Any:
        return self.copy()

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A copy, unlocked: a lazy stack of copies."""
        return self._like([td.clone(recurse, **kwargs) for td in self.tensordicts])

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = NO_DEFAULT, names: Any = None
    ) -> Self:
        """A stack of tensordicts without entries; a TensorDict where another batch size is asked for."""
        if batch_size is not None:
            return super().empty(recurse, batch_size=batch_size, device=device, names=names)
        result = self._like([td.empty(recurse, device=device) for td in self.tensordicts])
        if names is not None and names is not NO_DEFAULT:
            result.names = names
        return result


register_tensordict(LazyStackedTensorDict, pytree.flatten, pytree.unflatten, pytree.flatten_with_keys)
