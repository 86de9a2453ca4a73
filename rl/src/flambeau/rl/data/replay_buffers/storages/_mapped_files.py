"""Tensors in memory-mapped files: a tensordict's as it writes them, those of a pytree numbered, with its structure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten, treespec_dumps, treespec_loads

from flambeau.data.tensordict import MemoryMappedTensor, TensorDict, is_tensor_collection

__all__ = ["allocate", "copied", "is_mapped", "open_all"]

_STRUCTURE = "structure.json"


def allocate(example: Any, full_shape: Callable[[Any], torch.Size], folder: str) -> Any:
    """Files below a folder with room for all places of what one item is like.

    Args:
        example: one item.
        full_shape: the shape with all places, of an item's leaf.
        folder: where; files that are there are written over.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not isinstance(example, Tensor) and is_tensor_collection(example):
        return example.expand(full_shape(example)).memmap_like(prefix=folder, existsok=True)
    leaves, structure = tree_flatten(example)
    made = [
        MemoryMappedTensor.empty(
            full_shape(leaf), dtype=leaf.dtype, filename=Path(folder) / f"{at}.memmap", existsok=True
        )
        for at, leaf in enumerate(leaves)
    ]
    described = {
        "structure": treespec_dumps(structure),
        "leaves": [[list(leaf.shape), str(leaf.dtype).removeprefix("torch.")] for leaf in made],
    }
    (Path(folder) / _STRUCTURE).write_text(json.dumps(described), encoding="utf-8")
    return tree_unflatten(made, structure)


def copied(content: Any, folder: str) -> Any:
    """Tensors copied to files below a folder."""
    if not isinstance(content, Tensor) and is_tensor_collection(content):
        return content.memmap(prefix=folder, copy_existing=True)
    made = allocate(content, lambda leaf: torch.Size(leaf.shape), folder)
    for mine, other in zip(tree_flatten(made)[0], tree_flatten(content)[0], strict=True):
        mine.copy_(other)
    return made


def open_all(folder: str) -> Any:
    """The tensors in files that `allocate` or `copied` made, for reading and writing."""
    described = Path(folder) / _STRUCTURE
    if not described.exists():
        return TensorDict.load_memmap(folder, mode="r+")
    found = json.loads(described.read_text(encoding="utf-8"))
    leaves = [
        MemoryMappedTensor.from_filename(
            filename=Path(folder) / f"{at}.memmap", dtype=getattr(torch, dtype), shape=torch.Size(shape)
        )
        for at, (shape, dtype) in enumerate(found["leaves"])
    ]
    return tree_unflatten(leaves, treespec_loads(found["structure"]))


def is_mapped(content: Any) -> bool:
    """Whether all tensors are in files."""
    if not isinstance(content, Tensor) and is_tensor_collection(content):
        return bool(content.is_memmap())
    return all(isinstance(leaf, MemoryMappedTensor) for leaf in tree_flatten(content)[0])
