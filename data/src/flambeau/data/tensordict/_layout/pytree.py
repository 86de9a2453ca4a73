"""Tensordicts as pytree nodes: their tensors are leaves, keys and batch size the structure.

Functions such as `torch.vmap` change the rank of all leaves between taking a tree apart and putting it together. The
structure notes the rank of the first tensor: where it has one dimension less or more, so has the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.data.tensordict._lazy import LazyStackedTensorDict
from flambeau.data.tensordict._lazy_stack.combining import alike
from flambeau.data.tensordict._non_tensor.shapes import resized
from flambeau.data.tensordict._td import TensorDict, make_td
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._utils_options import strtobool


class _Structure(NamedTuple):
    """What a TensorDict is besides its tensors."""

    keys: tuple[str, ...]
    batch_size: torch.Size
    device: torch.device | None
    names: tuple[str | None, ...] | None
    fixed: tuple[tuple[str, Any], ...]  # non-tensor entries
    order: tuple[str, ...]
    rank: int | None  # of the first tensor, which tells whether dimensions came or went
    stack_dim: int | None  # of a lazy stack


def _flatten(td: TensorDict) -> tuple[list[Any], _Structure]:
    return _split(td, None)


def _split(td: Any, stack_dim: int | None) -> tuple[list[Any], _Structure]:
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
    return values, _Structure(
        tuple(keys), td.batch_size, td.device, None if names is None else tuple(names), tuple(fixed), order, rank,
        stack_dim,
    )  # fmt: skip


def _unflatten(values: Any, structure: _Structure) -> TensorDict:
    data = dict(zip(structure.keys, values, strict=True))
    size, change = _batch_of(data, structure)
    if structure.fixed:
        fixed = dict(structure.fixed)
        data = {key: data[key] if key in data else _refit(fixed[key], size) for key in structure.order}
    names = structure.names if change == 0 else None
    return make_td(data, size, structure.device, None if names is None else list(names))


def _batch_of(data: dict[str, Any], structure: _Structure) -> tuple[torch.Size, int]:
    """The batch size of what came back, and how many dimensions it has more."""
    width = len(structure.batch_size)
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


def _flatten_with_keys(td: TensorDict) -> tuple[list[tuple[Any, Any]], _Structure]:
    values, structure = _flatten(td)
    return [(pytree.MappingKey(key), value) for key, value in zip(structure.keys, values, strict=True)], structure


def _flatten_lazy(td: LazyStackedTensorDict) -> tuple[list[Any], _Structure]:
    """A stack of alike tensordicts gives its stacked entries, so that `vmap` cuts them where it means to."""
    tds = td.tensordicts
    if tds and all(alike(tds[0], other) for other in tds[1:]):
        return _split(td, td.stack_dim)
    structure = _Structure((), td.batch_size, None, None, (), (), None, td.stack_dim)
    return list(tds), structure


def _unflatten_lazy(values: Any, structure: _Structure) -> Any:
    if not structure.keys and not structure.fixed:
        return LazyStackedTensorDict(*values, stack_dim=structure.stack_dim)
    dense = _unflatten(values, structure)
    if not all(isinstance(value, (Tensor, TensorCollection)) for value in values):
        return dense  # a tree of something else, which has no dimensions to be cut along
    if len(dense.batch_size) != len(structure.batch_size):
        return dense
    return LazyStackedTensorDict(*dense.unbind(structure.stack_dim), stack_dim=structure.stack_dim)


def register_tensorclass(cls: type) -> None:
    """Make a tensorclass a pytree node around its tensordict."""
    if not cls._is_non_tensor:
        register_node(cls, lambda one: ([one._tensordict], None), lambda values, _: _wrapped(cls, values[0]))


def register_node(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class around one tensordict a pytree node, unless `EXCLUDE_TD_FROM_PYTREE` is set."""
    if _excluded():
        return

    def with_keys(one: Any) -> Any:
        (inner,), context = flatten(one)
        return [(pytree.GetAttrKey("_tensordict"), inner)], context

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def _wrapped(cls: type, inner: Any) -> Any:
    made = cls.__new__(cls)
    object.__setattr__(made, "_tensordict", inner)
    return made


def _excluded() -> bool:
    return strtobool(os.environ.get("EXCLUDE_TD_FROM_PYTREE", "0"))


def register() -> None:
    """Make TensorDict and LazyStackedTensorDict pytree nodes, unless `EXCLUDE_TD_FROM_PYTREE` is set."""
    if _excluded():
        return
    pytree.register_pytree_node(
        TensorDict,
        _flatten,
        _unflatten,
        serialized_type_name="flambeau.data.tensordict.TensorDict",
        flatten_with_keys_fn=_flatten_with_keys,
    )
    pytree.register_pytree_node(
        LazyStackedTensorDict,
        _flatten_lazy,
        _unflatten_lazy,
        serialized_type_name="flambeau.data.tensordict.LazyStackedTensorDict",
    )


# Here, and not where the classes are: whichever of the two modules is imported first, both are complete by now.
register()
