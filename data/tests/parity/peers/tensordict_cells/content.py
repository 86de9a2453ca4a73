"""Whether two kinds of tensordicts with the same content give the same content, whatever class holds it.

Where a call returns here and fails upstream, upstream cannot tell whether the result is right; a plain tensordict can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from flambeau.core.testing.differential import Cell, Library, matches
from flambeau.core.testing.differential.execution import seed_generators
from flambeau.data.tensordict import is_non_tensor, is_tensor_collection

PLAIN = "nested"
ALIKE = (
    "lazy", "lazy-dim-1", "sub", "sub-by-list", "h5", "memmap", "consolidated", "locked", "named", "device", "params",
    "tensorclass", "typed", "subclass", "requires-grad",
)  # fmt: skip
"""The kinds that hold exactly what the plain kind holds."""

OF_THE_KIND = (
    ("*/hash(td)", "a hash tells objects apart"),
    ("methods/set/sub/td.set('b', torch.ones(3, 2))", "a part is written into its whole, which keeps its type"),
    ("indexing/lazy/td[[]]", "a stack of no parts has no keys"),
    ("indexing/lazy/td[torch.tensor([], dtype=torch.long)]", "a stack of no parts has no keys"),
    ("items/tensorclass/td['*'] = *", "a string is no index of a class, but a key of a dictionary"),
    ("*/tensorclass/*.to_dict(*", "a class has fields that are None"),
    ("pytree/lazy*/*tree_flatten_with_path(td)*", "the paths of a stack lead through its parts"),
    ("printing/lazy*/*print_directory_tree(td.memmap*", "the folder of a stack has a folder for each part"),
)
"""Cells whose result depends on the kind, and why."""


def pairs(cells: Iterable[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Each cell of a kind that holds what the plain kind holds, with the plain kind's."""
    by_name = {cell.id: cell for cell in cells}
    for name, cell in by_name.items():
        found = re.fullmatch(rf"(.+?)/({'|'.join(ALIKE)})/(.*)", name, re.DOTALL)
        if found is None or any(matches(name, pattern) for pattern, _ in OF_THE_KIND):
            continue
        if plain := by_name.get(f"{found[1]}/{PLAIN}/{found[3]}"):
            yield cell, plain


def content(cell: Cell, library: Any) -> Any:
    """What a cell gives, as dictionaries, lists and tensors; the class of its error where it fails."""
    one = Library(library, ours=True)
    try:
        seed_generators(0)
        given = cell.given(one)
        seed_generators(0)
        try:
            return _bare(cell.call(one, given))
        except Exception as error:
            return type(error)
    finally:
        one.close()


def same(left: Any, right: Any) -> bool:
    """Whether two contents are the same: keys in any order, and values, shapes and types of tensors."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if (left.shape, left.dtype, left.device) != (right.shape, right.dtype, right.device):
            return False
        return left.is_meta or torch.allclose(left, right, equal_nan=True)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _bare(value: Any) -> Any:
    if is_non_tensor(value):
        return ["non-tensor", repr(value.tolist())]
    if is_tensor_collection(value):
        items = {key: _bare(entry) for key, entry in value.items() if entry is not None}
        return [tuple(value.batch_size), items]
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return [_bare(part) for part in value.unbind()]
        return value.detach().as_subclass(torch.Tensor)
    if isinstance(value, (list, tuple)):
        return [_bare(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _bare(part) for key, part in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__
