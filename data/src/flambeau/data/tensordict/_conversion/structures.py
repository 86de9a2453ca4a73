"""Python structures as tensordicts, and back: dicts, tuples, lists, dataclasses, pytrees."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert_sequence, wrap_non_tensor
from flambeau.data.tensordict._conversion.struct_arrays import from_columns, from_struct_array
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.linked_list import LinkedList
from flambeau.data.tensordict._tensorcollection import TensorCollection

PYTREE_KEY = "_pytree_type"


class Size(NamedTuple):
    """The batch size that a conversion is asked for."""

    auto_batch_size: bool | None = False
    batch_dims: int | None = None
    batch_size: Any = None
    device: Any = None
    names: Any = None

    def given_to(self, td: Any) -> Any:
        """Set it on a new tensordict.

        Raises:
            ValueError: a size and a number of its dimensions are both asked for.
        """
        if self.batch_dims is not None and self.batch_size is not None:
            raise ValueError("batch_size gives the batch size, and batch_dims finds it; pass one of them.")
        if self.batch_size is not None:  # upstream: whatever `auto_batch_size` says
            td.batch_size = self.batch_size
        elif self.auto_batch_size or self.batch_dims is not None:
            td.auto_batch_size_(batch_dims=self.batch_dims)
        if self.names is not None:
            td.names = self.names
        return td


def is_namedtuple(value: Any) -> bool:
    """Whether a value is an instance of a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def from_dict(source: Mapping[Any, Any], size: Size) -> Any:
    """A TensorDict of a dict; nested dicts become TensorDicts.

    Upstream: a lazy stack is given back as it is, and with `auto_batch_size` any collection.
    """
    given_back = isinstance(source, TensorCollection) and (source._is_lazy_stack or size.auto_batch_size)
    if given_back and size.batch_size is None:
        return source
    td = classes.TensorDict({}, device=size.device)
    for key, value in source.items():
        td.set(key, from_dict(value, Size(device=size.device)) if isinstance(value, Mapping) else value)
    return size.given_to(td)


def from_dict_instance(td: Any, source: Mapping[Any, Any], size: Size) -> Any:
    """As `from_dict`, with nested dicts as collections of the kind that `td` has under their keys."""
    made = classes.TensorDict({}, device=size.device)
    for key, value in source.items():
        below = td.get(key, None)
        if isinstance(value, Mapping) and isinstance(below, TensorCollection) and not below._is_non_tensor:
            value = below.from_dict_instance(value, device=size.device)  # type: ignore[attr-defined]
        elif isinstance(value, Mapping):
            value = from_dict(value, Size(device=size.device))
        made.set(key, value)
    return size.given_to(made)


def from_any(obj: Any, size: Size) -> Any:
    """The collection for an object, a tensor for numbers in a list, or the object where there is neither for it."""
    if isinstance(obj, (TensorCollection, Tensor)):
        return obj
    if isinstance(obj, list) and not _is_stack_of_dicts(obj):
        tensors = any(isinstance(item, Tensor) for item in obj)
        empty = torch.Size(())
        return (wrap_non_tensor if tensors else convert_sequence)(obj, empty, size.device)
    made = _collection(obj, size.device)
    return obj if made is None else size.given_to(made)


def _collection(obj: Any, device: Any) -> Any:
    """The collection for a structure, None for anything else."""
    if isinstance(obj, Mapping):
        items = list(obj.items())
    elif is_namedtuple(obj):
        items = list(zip(obj._fields, obj, strict=True))
    elif dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        items = [(field.name, getattr(obj, field.name)) for field in dataclasses.fields(obj)]
    elif isinstance(obj, tuple):
        items = [(str(index), item) for index, item in enumerate(obj)]
    elif isinstance(obj, np.ndarray) and obj.dtype.names is not None:
        return from_struct_array(obj, device)
    elif isinstance(obj, list) and _is_stack_of_dicts(obj):
        return from_list(obj, Size(device=device))
    elif type(obj).__module__.partition(".")[0] == "pandas" and hasattr(obj, "columns"):
        return from_columns(((str(name), column.to_numpy()) for name, column in obj.items()), [len(obj)], device)
    elif type(obj).__module__.startswith("h5py"):
        return classes.PersistentTensorDict(group=obj)
    else:
        return None
    td = classes.TensorDict({}, device=device)
    for key, value in items:
        below = None if isinstance(value, (TensorCollection, Tensor)) else _collection(value, device)
        td.set(key, value if below is None else below)
    return td


def _is_stack_of_dicts(obj: list[Any]) -> bool:
    return bool(obj) and all(isinstance(item, (Mapping, TensorCollection)) for item in obj)


def from_tuple(obj: tuple[Any, ...], size: Size) -> Any:
    """A TensorDict with the keys "0", "1", ... for a tuple."""
    return from_any(tuple(obj), size)


def from_list(items: Sequence[Any], size: Size, *, lazy: bool | None = None) -> Any:
    """A stack of a tensordict for each item: dense where they agree, or lazy.

    Raises:
        ValueError: an item is neither a dict nor a tensordict.
    """
    for item in items:
        if not isinstance(item, (Mapping, TensorCollection)):
            raise ValueError(f"from_list: an item is a {type(item).__name__}; give dicts or tensordicts.")
    parts: list[Any] = [
        item if isinstance(item, TensorCollection) else from_dict(item, Size(device=size.device)) for item in items
    ]
    if lazy is None:
        made = classes.LazyStackedTensorDict.maybe_dense_stack(parts, 0)
    else:
        made = classes.LazyStackedTensorDict.lazy_stack(parts, 0) if lazy else torch.stack(parts, 0)
    return size._replace(auto_batch_size=bool(size.auto_batch_size)).given_to(made)


def from_dataclass(obj: Any, size: Size, dest_cls: Any = None, as_tensorclass: bool = False) -> Any:
    """A TensorDict of a dataclass's fields, or a tensorclass."""
    if not dataclasses.is_dataclass(obj):
        raise TypeError(f"expected a dataclass or an instance of one, got {type(obj).__name__}.")
    if isinstance(obj, type) or as_tensorclass or dest_cls is not None:
        made = classes.from_dataclass(obj, dest_cls=dest_cls, device=size.device)
        return made if isinstance(obj, type) else size.given_to(made)
    return from_any(obj, size)


# --- out


def leaf_value(value: Any, convert_tensors: Any) -> Any:
    """A tensor as it is, as a nested list, or as an array."""
    if not convert_tensors:
        return value
    array = value.detach().cpu()
    if convert_tensors == "numpy":
        return array.numpy()
    return array.tolist()


def to_dict(td: Any, retain_none: bool, convert_tensors: Any, tolist_first: bool) -> dict[str, Any]:
    """A dict, nested where the tensordict is; non-tensor data as their values."""
    made: dict[str, Any] = {}
    for key, value in td.items():
        if isinstance(value, Tensor):
            made[key] = leaf_value(value, convert_tensors)
        elif value._is_non_tensor:
            plain = (value.tolist if tolist_first else value.to_dict)(convert_tensors=convert_tensors)
            if plain is not None or retain_none:
                made[key] = plain
        elif tolist_first and value.batch_size:
            made[key] = value.tolist(convert_tensors=convert_tensors)
        else:
            made[key] = value.to_dict(
                retain_none=retain_none, convert_tensors=convert_tensors, tolist_first=tolist_first
            )
    return made


def tolist(td: Any, convert_nodes: bool, convert_tensors: Any, tolist_first: bool, as_linked_list: bool) -> Any:
    """A list over the batch, nested for several dimensions; without any, a dict."""
    if not td.batch_size:
        if not convert_nodes:
            return td
        return td.to_dict(convert_tensors=convert_tensors, tolist_first=tolist_first)
    options = {"convert_nodes": convert_nodes, "convert_tensors": convert_tensors, "tolist_first": tolist_first}
    made = [item.tolist(**options) for item in td.unbind(0)]
    return LinkedList(made, td=td) if as_linked_list else made


def to_numpy(td: Any) -> dict[str, Any]:
    """A dict of arrays; numbers of the memory that the tensors have, where they are on the CPU."""
    made: dict[str, Any] = {}
    for key, value in td.items():
        if isinstance(value, Tensor):
            made[key] = value.numpy(force=True)
        else:
            made[key] = value.to_dict() if value._is_non_tensor else to_numpy(value)
    return made


@functools.cache
def _generic(fields: tuple[str, ...]) -> Any:
    return collections.namedtuple("GenericDict", fields)


def to_namedtuple(td: Any, dest_cls: Any = None) -> Any:
    """A named tuple of the entries, nested ones too.

    Raises:
        ValueError: a key is no Python identifier.
    """
    values = {
        key: value if isinstance(value, Tensor) else value._unwrap() if value._is_non_tensor else to_namedtuple(value)
        for key, value in td.items()
    }
    return (dest_cls or _generic(tuple(values)))(**values)


# --- pytrees


def from_pytree(tree: Any, size: Size) -> Any:
    """A TensorDict of nested Python containers, whose kinds it remembers."""
    made = _from_node(tree)
    return size.given_to(made) if isinstance(made, TensorCollection) else made


def _from_node(tree: Any) -> Any:
    if isinstance(tree, (Tensor, TensorCollection)):
        return tree
    if isinstance(tree, Mapping):
        items = list(tree.items())
    elif is_namedtuple(tree):
        items = list(zip(tree._fields, tree, strict=True))
    elif isinstance(tree, (list, tuple)):
        items = [(str(index), item) for index, item in enumerate(tree)]
    else:
        return tree
    td = classes.TensorDict()
    for key, value in items:
        td.set(key, _from_node(value))
    td.set_non_tensor(PYTREE_KEY, type(tree))
    return td


def to_pytree(td: Any) -> Any:
    """Undo `from_pytree`; a tensordict that is not of one is returned as it is."""
    if isinstance(td, Tensor) or td._is_non_tensor:
        return td if isinstance(td, Tensor) else td._unwrap()
    marker = td._get_str(PYTREE_KEY)
    if marker is None:
        return td
    kind = marker.data
    values = {key: to_pytree(value) for key, value in td.items() if key != PYTREE_KEY}
    if issubclass(kind, Mapping):
        return kind(values)
    if hasattr(kind, "_fields"):
        return kind(**values)
    return kind(values.values())
