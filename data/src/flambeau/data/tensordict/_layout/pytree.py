"""Tensordicts as pytree nodes: their tensors are leaves, keys and batch size the structure.

Functions such as `torch.vmap` change the rank of all leaves between taking a tree apart and putting it together. The
structure notes the rank of the first tensor: where it has one dimension less or more, so has the batch.

A class is made a node where it is defined, unless `EXCLUDE_TD_FROM_PYTREE` is set.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.non_tensor import resized
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._utils_options import strtobool


class Structure(NamedTuple):
    """What a TensorDict is besides its tensors."""

    keys: tuple[str, ...]
    batch_size: torch.Size
    device: torch.device | None
    names: tuple[str | None, ...] | None
    fixed: tuple[tuple[str, Any], ...]  # non-tensor entries
    order: tuple[str, ...]
    rank: int | None  # of the first tensor, which tells whether dimensions came or went


def _flatten(td: Any) -> tuple[list[Any], Structure]:
    """The entries with tensors, and the rest."""
    keys, values, fixed, rank = [], [], [], None
    for key, value in td._items():
        if isinstance(value, TensorCollection) and value._is_non_tensor:
            fixed.append((key, value))
            continue
        keys.append(key)
        values.append(value)
        if rank is None and isinstance(value, Tensor):
            rank = value.ndim
    names = td._names_or_none()
    order = tuple(td._key_names()) if fixed else tuple(keys)
    return values, Structure(
        tuple(keys), td.batch_size, td.device, None if names is None else tuple(names), tuple(fixed), order, rank
    )  # fmt: skip


def from_entries(values: Any, structure: Structure) -> Any:
    """The TensorDict of entries and the rest."""
    data = dict(zip(structure.keys, values, strict=True))
    size, change = _batch_of(data, structure)
    if structure.fixed:
        fixed = dict(structure.fixed)
        data = {key: data[key] if key in data else _refit(fixed[key], size) for key in structure.order}
    names = structure.names if change == 0 else None
    return classes.make_td(data, size, structure.device, None if names is None else list(names))


def _batch_of(data: dict[str, Any], structure: Structure) -> tuple[torch.Size, int]:
    """The batch size of what came back, and how many dimensions it has more."""
    width = len(structure.batch_size)
    if not width:  # fits, whatever became of the entries
        return structure.batch_size, 0
    for value in data.values():
        if isinstance(value, Tensor) and structure.rank is not None:
            change = value.ndim - structure.rank
            wanted = max(0, width + change) if abs(change) <= 1 else min(width, value.ndim)
            return value.shape[:wanted], change
        if isinstance(value, TensorCollection) and structure.rank is None:
            return value.batch_size[:width], 0 if value.batch_size[:width] == structure.batch_size else 1
    return structure.batch_size, 0


def _refit(value: Any, size: torch.Size) -> Any:
    return value if value.batch_size == size else resized(value, size)


def _flatten_with_keys(td: Any) -> tuple[list[tuple[Any, Any]], Structure]:
    values, structure = _flatten(td)
    return [(pytree.MappingKey(key), value) for key, value in zip(structure.keys, values, strict=True)], structure


def register_tensorclass(cls: type[TensorCollection]) -> None:
    """Make a tensorclass a pytree node, whose children are the fields."""
    if not cls._is_non_tensor:
        register_transparent(cls, functools.partial(_wrapped, cls))


def register_node(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class around one tensordict a pytree node, unless `EXCLUDE_TD_FROM_PYTREE` is set."""
    if _excluded():
        return

    def with_keys(one: Any) -> Any:
        (inner,), context = flatten(one)
        return [(pytree.GetAttrKey("_tensordict"), inner)], context

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def register_transparent(cls: type, around: Callable[[Any], Any]) -> None:
    """Make a class around one tensordict a pytree node that has the children of that tensordict.

    Args:
        cls: the class.
        around: makes an instance of a tensordict.
    """
    if _excluded():
        return

    def flatten(one: Any) -> tuple[list[Any], Any]:
        inner = one._tensordict
        values, context = pytree.SUPPORTED_NODES[type(inner)].flatten_fn(inner)
        return values, (type(inner), context)

    def with_keys(one: Any) -> tuple[list[tuple[Any, Any]], Any]:
        inner = one._tensordict
        by_key: Any = pytree.SUPPORTED_NODES[type(inner)].flatten_with_keys_fn
        pairs, context = by_key(inner)
        return pairs, (type(inner), context)

    def unflatten(values: Any, context: Any) -> Any:
        kind, below = context
        return around(pytree.SUPPORTED_NODES[kind].unflatten_fn(values, below))

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def _wrapped(cls: type[TensorCollection], inner: Any) -> Any:
    made = cls.__new__(cls)
    object.__setattr__(made, "_tensordict", inner)
    return made


def _excluded() -> bool:
    return strtobool(os.environ.get("EXCLUDE_TD_FROM_PYTREE", "0"))


def _serialized_name(cls: type) -> str:
    """Of our own classes the path that they are imported from."""
    package = "flambeau.data.tensordict"
    return f"{package}.{cls.__name__}" if cls.__module__.startswith(package) else f"{cls.__module__}.{cls.__qualname__}"


def register_tensordict(
    cls: type, flatten: Any = None, unflatten: Any = None, flatten_with_keys: Any = _flatten_with_keys
) -> None:
    """Make a kind of tensordict a pytree node, unless `EXCLUDE_TD_FROM_PYTREE` is set.

    Args:
        cls: the class.
        flatten: takes one apart into values and a `Structure`; by default its entries are the values.
        unflatten: undoes it.
        flatten_with_keys: as `flatten`, each value with its key.
    """
    if _excluded():
        return
    pytree.register_pytree_node(
        cls,
        flatten or _flatten,
        unflatten or from_entries,
        serialized_type_name=_serialized_name(cls),
        flatten_with_keys_fn=flatten_with_keys,
    )
