"""`torch.vmap` over collections: each is one input or output, and `in_dims` and `out_dims` count its batch dimensions.

As pytrees, collections would be taken apart: a batch dimension would be looked for in every tensor by itself, lazy
stacks would be stacked, names and locks lost. So the three functions with which torch takes inputs apart and puts
outputs together look for collections first. Calls without any go on to torch as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor, maybe_get_level
from torch._functorch import vmap as torch_vmap
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # its stub forgets it
from torch.utils import _pytree as pytree

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict._unbatched import UnbatchedTensor


def add_dim(value: Any, in_dim: int, level: int, size: torch.Size) -> Any:
    """An entry without the dimension that is mapped over, in a collection that then has batch size `size`."""
    if isinstance(value, TensorCollection):
        return value._add_batch_dim(in_dim=in_dim, vmap_level=level)  # type: ignore[attr-defined]
    if isinstance(value, UnbatchedTensor):
        return value._within(size)
    if isinstance(value, UninitializedTensorMixin):
        return value
    return torch_vmap._add_batch_dim(value, in_dim, level)  # type: ignore[attr-defined]  # torch imports it from C


def remove_dim(value: Any, level: int, count: int, out_dim: int, size: torch.Size) -> Any:
    """An entry with the mapped dimension again; one that was not mapped over is repeated."""
    if isinstance(value, TensorCollection):
        return value._remove_batch_dim(vmap_level=level, batch_size=count, out_dim=out_dim)  # type: ignore[attr-defined]
    if isinstance(value, UnbatchedTensor):
        return value._within(size)
    # Torch repeats what was not mapped over, but along the first dimension alone; and it can trace no questions here.
    if out_dim == 0 or torch.compiler.is_compiling() or (is_batchedtensor(value) and maybe_get_level(value) == level):
        return torch_vmap._remove_batch_dim(value, level, count, out_dim)  # type: ignore[attr-defined]  # as above
    return value.unsqueeze(out_dim).expand(*value.shape[:out_dim], count, *value.shape[out_dim:])


def _is_collection(value: Any) -> bool:
    return isinstance(value, TensorCollection)


def _flat(tree: Any) -> tuple[list[Any], Any] | None:
    """Leaves and structure of a tree with collections among its leaves; None where there is none."""
    if isinstance(tree, Tensor):
        return None
    leaves, structure = pytree.tree_flatten(tree, is_leaf=_is_collection)
    return (leaves, structure) if any(map(_is_collection, leaves)) else None


def _with_stand_ins(leaves: list[Any], structure: Any, shape: Callable[[Any, Any], Any], dims: Any) -> Any:
    """The tree with a tensor of shape (collection, dim) for each collection: torch checks all dimensions alike."""
    tensors = [
        torch.empty(()).expand(shape(leaf, dim)) if _is_collection(leaf) else leaf
        for leaf, dim in zip(leaves, dims or [None] * len(leaves), strict=True)
    ]
    return pytree.tree_unflatten(tensors, structure)


def _input_shape(collection: Any, dim: Any) -> list[int]:
    size = collection.batch_size
    if isinstance(dim, int) and dim >= len(size):  # Upstream: a dimension that all tensors have is enough
        size = next((leaf.shape for leaf in collection._leaves()), size)
    return [max(length, 0) for length in size]  # -1 where the parts of a lazy stack differ


def _wrapping(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function in the place of torch's of a name, which it gets as first argument."""

    def install(function: Callable[..., Any]) -> Callable[..., Any]:
        original = getattr(torch_vmap, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        setattr(torch_vmap, name, call)
        return function

    return install


@_wrapping("_process_batched_inputs")
def _process(original: Callable[..., Any], in_dims: Any, args: Any, func: Any) -> Any:
    flat = _flat(args)
    if flat is None:
        return original(in_dims, args, func)
    leaves, structure = flat
    dims = pytree._broadcast_to_and_flatten(in_dims, structure)
    count, dims, _, _ = original(in_dims, _with_stand_ins(leaves, structure, _input_shape, dims), func)
    return count, dims, leaves, structure


@_wrapping("_create_batched_inputs")
def _create(original: Callable[..., Any], dims: list[Any], leaves: list[Any], level: int, structure: Any) -> Any:
    dims, leaves = list(dims), list(leaves)
    for position, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if not _is_collection(leaf):
            continue
        if dim is not None:
            leaves[position], dims[position] = leaf._add_batch_dim(in_dim=dim, vmap_level=level), None
        elif isinstance(leaf, (classes.TensorDict, classes.LazyStackedTensorDict)) or leaf._is_tensorclass:
            # The function may set entries of a batch that is no more when it has returned.
            leaves[position] = leaf.copy().lock_() if leaf.is_locked else leaf.copy()
    return original(dims, leaves, level, structure)


@_wrapping("_unwrap_batched")
def _unwrap(original: Callable[..., Any], outputs: Any, out_dims: Any, level: int, count: int, func: Any) -> Any:
    flat = _flat(outputs)
    if flat is None:
        return original(outputs, out_dims, level, count, func)
    leaves, structure = flat
    if structure.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        (out_dims,) = out_dims
    dims = pytree._broadcast_to_and_flatten(out_dims, structure)
    tensors = _with_stand_ins(leaves, structure, lambda leaf, dim: [1] * len(leaf.batch_size), dims)
    results = pytree.tree_leaves(original(tensors, out_dims, level, count, func))
    for position, (leaf, dim) in enumerate(zip(leaves, dims or (), strict=True)):
        if _is_collection(leaf):
            results[position] = leaf
            if dim is not None:
                rank = len(leaf.batch_size) + 1
                if not -rank <= dim < rank:
                    raise IndexError(f"out_dim {dim} is out of range for a result with {rank - 1} batch dimensions.")
                results[position] = leaf._remove_batch_dim(vmap_level=level, batch_size=count, out_dim=dim % rank)
    return pytree.tree_unflatten(results, structure)
