"""The apply family: a function on every leaf, of one tensordict or of several in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.keys import missing_key
from flambeau.data.tensordict._layout.non_tensor import refit
from flambeau.data.tensordict._methods.names import name_list
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class ApplyCall(NamedTuple):
    """One call of the family, as it goes down the tree."""

    fn: Callable[..., Any]
    batch_size: torch.Size | None = None
    device: Any = NO_DEFAULT
    names: Any = NO_DEFAULT
    inplace: bool = False
    default: Any = NO_DEFAULT
    filter_empty: bool | None = None
    call_on_nested: bool = False
    named: bool = False
    nested_keys: bool = False
    checked: bool = False
    propagate_lock: bool = False
    is_leaf: Callable[[type], bool] | None = None


class ApplyMethods(CollectionMethods):
    """`apply` and its relatives."""

    def apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        batch_size: Sequence[int] | None = None,
        device: Any = NO_DEFAULT,
        names: Sequence[str] | None = NO_DEFAULT,
        inplace: bool = False,
        default: Any = NO_DEFAULT,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        out: Any = None,
        **constructor_kwargs: Any,
    ) -> Self | None:
        """Call a function on every tensor; what it returns makes the result.

        Args:
            fn: (tensor, *tensors of `others`) -> tensor, or None to leave the entry out.
            others: collections with the same keys.
            batch_size: of the result; by default the same.
            device: of the result; by default the same.
            names: of the result's dimensions.
            inplace: write the results into this tensordict and return it.
            default: stands for entries that the others lack; without it such a key raises KeyError.
            filter_empty: True drops nested tensordicts that end up empty, False keeps them, None keeps those
                that were empty before. Where nothing is left at all the result is None.
            propagate_lock: lock the result if this tensordict is locked.
            call_on_nested: call `fn` on the entries of the first level, nested collections included.
            out: a tensordict that takes the results, in place of the entries it has, and is returned.
            constructor_kwargs: `checked=True` skips the check of shapes; `is_leaf` decides by class what `fn` gets.

        Returns:
            A tensordict, or None where `fn` returned only None.
        """
        call = ApplyCall(
            fn, _size(batch_size), device, names, inplace, default, filter_empty, call_on_nested, False, False,
            constructor_kwargs.pop("checked", False), propagate_lock, constructor_kwargs.pop("is_leaf", None),
        )  # fmt: skip
        return _finish(self, call, others, out)

    def named_apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        nested_keys: bool = False,
        batch_size: Sequence[int] | None = None,
        device: Any = NO_DEFAULT,
        names: Sequence[str] | None = NO_DEFAULT,
        inplace: bool = False,
        default: Any = NO_DEFAULT,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        out: Any = None,
        **constructor_kwargs: Any,
    ) -> Self | None:
        """As `apply`, with the key as the function's first argument: the last part of it, or all with `nested_keys`."""
        call = ApplyCall(
            fn, _size(batch_size), device, names, inplace, default, filter_empty, call_on_nested, True, nested_keys,
            constructor_kwargs.pop("checked", False), propagate_lock, constructor_kwargs.pop("is_leaf", None),
        )  # fmt: skip
        return _finish(self, call, others, out)

    def apply_(self, fn: Callable[..., Any], *others: Any, **kwargs: Any) -> Self:
        """`apply` in place; returns this tensordict."""
        self.apply(fn, *others, inplace=True, **kwargs)
        return self

    def _fast_apply(self, fn: Callable[..., Any], *others: Any, **kwargs: Any) -> Self | None:
        """`apply` that trusts the results' shapes."""
        kwargs.setdefault("checked", True)
        named = kwargs.pop("named", False)
        return (self.named_apply if named else self.apply)(fn, *others, **kwargs)

    def _apply_nest(self, call: ApplyCall, others: Sequence[Any], prefix: tuple[str, ...] = ()) -> Any:
        """Run a call on this level and below; None where nothing came of it."""
        if not others and not call.inplace and call.is_leaf is None and not (call.named or call.call_on_nested):
            return self._apply_plainly(call)
        results: dict[str, Any] = {}
        size = self.batch_size if call.batch_size is None else call.batch_size
        was_empty = True
        for key, item in list(self._items()) if call.inplace else self._items():
            was_empty = False
            counterparts = [_counterpart(other, key, call.default) for other in others]
            value = _apply_one(call, key, item, counterparts, prefix)
            if value is None:
                continue
            if call.inplace:
                if value is not item:
                    self._set_str(key, value, inplace=True, validated=call.checked)
            else:
                results[key] = value
        if call.inplace:
            return self
        if not results and (call.filter_empty or (call.filter_empty is None and not was_empty)):
            return None
        return self._apply_result(call, results, size)

    def _apply_plainly(self, call: ApplyCall) -> Any:
        """The common case, with as little as possible around the calls of the function."""
        results: dict[str, Any] = {}
        function, was_empty = call.fn, True
        for key, item in self._items():
            was_empty = False
            if type(item) is Tensor or not isinstance(item, TensorCollection):
                value = function(item)
            else:
                value = _kept(call, item) if item._is_non_tensor else item._apply_nest(call, ())
            if value is not None:
                results[key] = value
        if not results and (call.filter_empty or (call.filter_empty is None and not was_empty)):
            return None
        return self._apply_result(call, results, self.batch_size if call.batch_size is None else call.batch_size)

    def _apply_result(self, call: ApplyCall, results: dict[str, Any], size: torch.Size) -> Any:
        device = self.device if call.device is NO_DEFAULT else call.device
        if call.names is not NO_DEFAULT:
            names = None if call.names is None else name_list(call.names, len(size))
        else:
            names = self._names_or_none() if call.batch_size is None else None
        result = self._result(results, size, torch.device(device) if isinstance(device, str) else device, names)
        if not call.checked:
            width = len(size)
            for key, value in results.items():
                if type(value) is not Tensor or (width and value.shape[:width] != size):
                    results[key] = result._validated(key, value)
        if call.propagate_lock and self.is_locked:
            result._propagate_lock()
        return result


def _apply_one(call: ApplyCall, key: str, item: Any, others: list[Any], prefix: tuple[str, ...]) -> Any:
    if isinstance(item, TensorCollection):
        leaf = call.call_on_nested or (call.is_leaf is not None and call.is_leaf(type(item)))
        if not leaf:
            return _kept(call, item) if item._is_non_tensor else item._apply_nest(call, others, (*prefix, key))
    if not call.named:
        return call.fn(item, *others)
    return call.fn((*prefix, key) if call.nested_keys and prefix else key, item, *others)


def _kept(call: ApplyCall, item: Any) -> Any:
    """A non-tensor entry in the result; None where it does not fit a new batch size."""
    kept = item if call.batch_size is None else refit(item, call.batch_size)
    return kept.copy() if kept is item and not call.inplace else kept


def _counterpart(other: Any, key: str, default: Any) -> Any:
    """The entry of another collection in step."""
    value = None if other is default else other._get_str(key)
    if value is not None:
        return value
    if default is NO_DEFAULT:
        raise missing_key(key, other._key_names())
    return default


def _finish(td: Any, call: ApplyCall, others: Sequence[Any], out: Any) -> Any:
    result = td._apply_nest(call, others)
    if out is None:
        return result
    if result is not None:
        out.update(result)
    return out


def _size(batch_size: Any) -> torch.Size | None:
    return None if batch_size is None else torch.Size((batch_size,) if isinstance(batch_size, int) else batch_size)
