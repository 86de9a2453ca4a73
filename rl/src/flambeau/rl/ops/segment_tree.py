"""Segment trees: sums or minima over ranges of an array whose entries change, each in logarithmic time.

A tree over `leaves` entries (a power of two) is a tensor of 2 * leaves numbers: node 1 is the root, the children of
node i are nodes 2i and 2i + 1, entry i of the array is node leaves + i. The native kernels are
`native/segment_tree.cpp`; the references work level by level on whole tensors, and give the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rl.ops._library import LIBRARY

__all__ = ["segment_tree_find", "segment_tree_query", "segment_tree_write"]


def segment_tree_write(tree: Tensor, index: Tensor, values: Tensor, minimum: bool) -> None:
    """Give entries new values, in place; of several for one entry, the last.

    Args:
        tree: (2 * leaves,), float32 or float64, contiguous.
        index: any shape, int64, from 0 to leaves - 1.
        values: as many as the index has, dtype of the tree.
        minimum: whether nodes hold their children's minimum, else their sum.

    Raises:
        RuntimeError: another shape or dtype, an index out of range.

    Example:
        >>> tree = torch.zeros(8)
        >>> segment_tree_write(tree, torch.tensor([0, 3]), torch.tensor([1.0, 2.0]), False)
        >>> tree[1]
        tensor(3.)
    """
    torch.ops.flambeau_rl.segment_tree_write(tree, index, values, minimum)


def segment_tree_query(tree: Tensor, left: Tensor, right: Tensor, identity: float, minimum: bool) -> Tensor:
    """Sums or minima of the entries from `left` up to, but without, `right`.

    Args:
        tree: (2 * leaves,), float32 or float64, contiguous.
        left: any shape, int64, at least 0.
        right: the same number of elements, int64, at least `left` and at most leaves.
        identity: what a range without entries gives: 0 for sums, infinity for minima.
        minimum: whether nodes hold their children's minimum, else their sum.

    Returns:
        Shape of `left`, dtype of the tree.

    Raises:
        RuntimeError: another shape or dtype, a range out of bounds.

    Example:
        >>> segment_tree_query(torch.tensor([0.0, 3.0, 1.0, 2.0]), torch.tensor([1]), torch.tensor([2]), 0.0, False)
        tensor([2.])
    """
    return torch.ops.flambeau_rl.segment_tree_query(tree, left, right, identity, minimum)  # type: ignore[no-any-return]


def segment_tree_find(tree: Tensor, masses: Tensor, size: int) -> Tensor:
    """The first entries at which the running sum reaches the masses, in a tree of sums.

    Args:
        tree: (2 * leaves,), float32 or float64, contiguous; no entry is negative.
        masses: any shape, dtype of the tree.
        size: what a mass above the total gives.

    Returns:
        Shape of `masses`, int64. Where rounding leaves some mass over, the last entry that is not 0.

    Raises:
        RuntimeError: another shape or dtype.

    Example:
        >>> segment_tree_find(torch.tensor([0.0, 3.0, 1.0, 2.0]), torch.tensor([0.5, 1.5, 4.0]), 2)
        tensor([0, 1, 2])
    """
    return torch.ops.flambeau_rl.segment_tree_find(tree, masses, size)  # type: ignore[no-any-return]


def _check_tree(op: str, tree: Tensor) -> None:
    """The same sentences as native/segment_tree.cpp, here and below."""
    count = tree.shape[0] if tree.dim() == 1 else 0
    if count < 2 or count & (count - 1) or not tree.is_contiguous():
        shape = tuple(tree.shape)
        raise RuntimeError(f"{op}: tree has shape {shape}, expected (2 * leaves,) without gaps, leaves a power of two.")
    if tree.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"{op}: tree has dtype {tree.dtype}, expected float32 or float64.")


def _check_index(op: str, what: str, index: Tensor) -> None:
    if index.dtype != torch.int64:
        raise RuntimeError(f"{op}: {what} has dtype {index.dtype}, expected int64.")


def _check_counts(op: str, names: str, a: Tensor, b: Tensor) -> None:
    if a.numel() != b.numel():
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise RuntimeError(f"{op}: {names} have shapes {shapes}, expected the same number of elements.")


def _check_values(op: str, what: str, values: Tensor, tree: Tensor) -> None:
    if values.dtype != tree.dtype:
        raise RuntimeError(f"{op}: {what} have dtype {values.dtype}, expected {tree.dtype} as the tree.")


def _check_write(tree: Tensor, index: Tensor, values: Tensor) -> None:
    op = "segment_tree_write"
    _check_tree(op, tree)
    _check_index(op, "index", index)
    _check_counts(op, "index and values", index, values)
    _check_values(op, "values", values, tree)


def _check_query(tree: Tensor, left: Tensor, right: Tensor) -> None:
    op = "segment_tree_query"
    _check_tree(op, tree)
    _check_index(op, "left", left)
    _check_index(op, "right", right)
    _check_counts(op, "left and right", left, right)


def _fake_write(tree: Tensor, index: Tensor, values: Tensor, minimum: bool) -> None:
    _check_write(tree, index, values)


def _fake_query(tree: Tensor, left: Tensor, right: Tensor, identity: float, minimum: bool) -> Tensor:
    _check_query(tree, left, right)
    return tree.new_empty(left.shape)


def _fake_find(tree: Tensor, masses: Tensor, size: int) -> Tensor:
    op = "segment_tree_find"
    _check_tree(op, tree)
    _check_values(op, "masses", masses, tree)
    return tree.new_empty(masses.shape, dtype=torch.int64)


def _write_reference(tree: Tensor, index: Tensor, values: Tensor, minimum: bool) -> None:
    _check_write(tree, index, values)
    index, values = index.reshape(-1), values.reshape(-1)
    leaves = tree.shape[0] // 2
    if not index.numel():
        return
    wrong = index[(index < 0) | (index >= leaves)]
    if wrong.numel():
        raise RuntimeError(f"segment_tree_write: index has {int(wrong[0])}, expected 0 to {leaves - 1}.")
    # Of several values for one entry the last: sorting keeps their order, and each run's end is taken.
    index, order = index.sort(stable=True)
    last = torch.ones_like(index, dtype=torch.bool)
    last[:-1] = index[1:] != index[:-1]
    nodes = leaves + index[last]
    tree[nodes] = values[order[last]]
    while leaves > 1:
        nodes = (nodes >> 1).unique_consecutive()
        a, b = tree[2 * nodes], tree[2 * nodes + 1]
        tree[nodes] = torch.minimum(a, b) if minimum else a + b
        leaves >>= 1


def _query_reference(tree: Tensor, left: Tensor, right: Tensor, identity: float, minimum: bool) -> Tensor:
    _check_query(tree, left, right)
    leaves = tree.shape[0] // 2
    shape, left, right = left.shape, left.reshape(-1), right.reshape(-1)
    wrong = (left < 0) | (left > right) | (right > leaves)
    if wrong.any():
        a, b = int(left[wrong][0]), int(right[wrong][0])
        raise RuntimeError(f"segment_tree_query: a range from {a} to {b}, expected 0 <= left <= right <= {leaves}.")
    left, right = left + leaves, right + leaves
    low = torch.full(left.shape, identity, dtype=tree.dtype, device=tree.device)
    high = low.clone()
    join = torch.minimum if minimum else torch.add
    while (left < right).any():
        open_ = left < right
        take = open_ & (left & 1).bool()
        low = torch.where(take, join(low, tree[torch.where(take, left, 0)]), low)
        left = left + take
        take = open_ & (right & 1).bool()
        right = right - take.long()
        high = torch.where(take, join(tree[torch.where(take, right, 0)], high), high)
        left, right = left >> 1, right >> 1
    return join(low, high).reshape(shape)


def _find_reference(tree: Tensor, masses: Tensor, size: int) -> Tensor:
    op = "segment_tree_find"
    _check_tree(op, tree)
    _check_values(op, "masses", masses, tree)
    leaves = tree.shape[0] // 2
    beyond = masses > tree[1]
    nodes = torch.ones(masses.shape, dtype=torch.int64, device=tree.device)
    mass = masses.clone()
    depth = leaves.bit_length() - 1
    for _ in range(depth):
        nodes = nodes * 2
        left, right = tree[nodes], tree[nodes + 1]
        # What rounding leaves over at the right end belongs to the last entry that has any mass.
        turn = (mass > left) & (right > 0)
        mass = torch.where(turn, mass - left, mass)
        nodes = nodes + turn
    return torch.where(beyond, size, nodes - leaves)


register_op(
    "segment_tree_write(Tensor(a!) tree, Tensor index, Tensor values, bool minimum) -> ()",
    library=LIBRARY,
    fake=_fake_write,
    python=_write_reference,
)
register_op(
    "segment_tree_query(Tensor tree, Tensor left, Tensor right, float identity, bool minimum) -> Tensor",
    library=LIBRARY,
    fake=_fake_query,
    python=_query_reference,
)
register_op(
    "segment_tree_find(Tensor tree, Tensor masses, int size) -> Tensor",
    library=LIBRARY,
    fake=_fake_find,
    python=_find_reference,
)
