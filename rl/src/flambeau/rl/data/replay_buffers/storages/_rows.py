"""Copying rows into and out of collections of tensors: tensordicts, pytrees and single tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from flambeau.data.tensordict import MemoryMappedTensor, TensorDict, is_tensor_collection

__all__ = ["gather", "row_count", "scatter_run", "select_rows", "take_rows"]

_PLAIN = (Tensor, MemoryMappedTensor)


def row_count(data: Any) -> int:
    """How many rows there are: the first size of a collection, of a tensor, or of a pytree's first leaf."""
    if isinstance(data, Tensor) or is_tensor_collection(data):
        return int(data.shape[0]) if len(data.shape) else 0
    if isinstance(data, list):
        return len(data)
    leaves = tree_flatten(data)[0]
    return row_count(leaves[0]) if leaves and hasattr(leaves[0], "shape") else len(leaves) and len(data)


def select_rows(data: Any, rows: slice) -> Any:
    """Some rows of what `row_count` counts."""
    if isinstance(data, (Tensor, list)) or is_tensor_collection(data):
        return data[rows]
    return tree_map(lambda leaf: leaf[rows], data)


def scatter_run(store: Any, first: int, data: Any, count: int) -> None:
    """Copy `count` rows to those from `first` on. Nothing is written unless all of it fits.

    Raises:
        RuntimeError: another shape or dtype than the stored one.
    """
    if isinstance(store, Tensor):
        pairs = [("", store, data)] if isinstance(data, Tensor) else None
    elif is_tensor_collection(store):
        pairs = _pairs(store, data, "", [])
    else:
        stored, shape = tree_flatten(store)
        given, other = tree_flatten(data)
        if shape != other:
            raise RuntimeError(f"The data has the structure {other}, but what is stored has {shape}.")
        pairs = [("", each, it) for each, it in zip(stored, given, strict=True)]
    if pairs is None or not all(type(each) in _PLAIN for _, each, _ in pairs):
        store[first : first + count] = data
        return
    for name, each, it in pairs:
        if each.shape[1:] != it.shape[1:] or each.dtype != it.dtype:
            where = f"The entry {name!r}" if name else "The data"
            raise RuntimeError(
                f"{where} has rows of shape {tuple(it.shape[1:])} and dtype {it.dtype}, but those stored have "
                f"{tuple(each.shape[1:])} and {each.dtype}; convert it."
            )
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        for _, each, it in pairs:
            try:
                # Without dispatch, which costs more than the copy of some rows.
                each.numpy()[first : first + count] = it.numpy()
            except (TypeError, RuntimeError):  # another device, a dtype that NumPy has not, a tensor with gradient
                each[first : first + count].copy_(it.detach())


def _pairs(store: Any, data: Any, prefix: str, pairs: list[Any]) -> list[Any] | None:
    """(name, stored, given) of every leaf, where both are plain tensordicts of the same keys."""
    if type(store) is not TensorDict or type(data) is not TensorDict:
        return None
    given = dict(data.items())
    if len(given) != len(store.keys()):
        return None
    for key, each in store.items():
        it = given.get(key)
        if it is None:
            return None
        if isinstance(each, Tensor):
            if type(it) not in (*_PLAIN, torch.nn.Parameter):
                return None
            pairs.append((prefix + key, each, it))
        elif _pairs(each, it, f"{prefix}{key}.", pairs) is None:
            return None
    return pairs


def take_rows(store: Any, index: Tensor, dims: int) -> Any:
    """Rows at flat int64 places that are known to exist, over the first `dims` dimensions taken as one."""
    with torch._C.DisableTorchFunctionSubclass():
        if isinstance(store, Tensor):
            return _picked(store, index, dims)
        if is_tensor_collection(store):
            return gather(store, index, dims)
        leaves, shape = tree_flatten(store)
        return tree_unflatten([take_rows(leaf, index, dims) for leaf in leaves], shape)


def gather(store: Any, index: Tensor, dims: int) -> Any:
    """The same of a tensordict."""
    if type(store) is not TensorDict:
        return _indexed(store, index, dims)
    found = {}
    for key, value in store.items():
        if isinstance(value, Tensor):
            found[key] = _picked(value, index, dims)
        elif type(value) is TensorDict:
            found[key] = gather(value, index, dims)
        else:
            found[key] = _indexed(value, index, dims)
    size = torch.Size((len(index), *store.batch_size[dims:]))
    names = [None, *store.names[dims:]] if any(store.names) else None
    return TensorDict._new_unsafe(found, batch_size=size, device=store.device, names=names)


def _picked(tensor: Tensor, index: Tensor, dims: int) -> Tensor:
    if tensor.device != index.device:
        index = index.to(tensor.device)
    if dims > 1:
        if not tensor.is_contiguous():
            return tensor[index_of(index, tensor.shape[:dims])]
        tensor = tensor.view(-1, *tensor.shape[dims:])
    return tensor.index_select(0, index)


def _indexed(store: Any, index: Tensor, dims: int) -> Any:
    return store[index] if dims == 1 else store[index_of(index, store.shape[:dims])]


def index_of(places: Tensor, shape: torch.Size) -> tuple[Tensor, ...]:
    """Flat places as one index a dimension."""
    return torch.unravel_index(places, shape)
