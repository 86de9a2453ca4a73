"""Shapes of specs: what an operation does to the shape, and to tensors that have it as their first dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor

Change = Callable[[Tensor], Tensor]
"""What an operation does to a tensor whose first dimensions are the spec's; further dimensions stay."""


def as_size(shape: Any) -> Size:
    """A size from a number, a sequence, or the arguments `*shape` of a call."""
    if isinstance(shape, Size):
        return shape
    if isinstance(shape, int):
        return Size([shape])
    shape = tuple(shape)
    if len(shape) == 1 and not isinstance(shape[0], int) and isinstance(shape[0], Sequence):
        return Size(shape[0])
    return Size(shape)


def known(shape: Size) -> Size:
    """A shape with 1 for sizes of -1, which are not fixed."""
    return Size(1 if size == -1 else size for size in shape) if -1 in shape else shape


def dimension(dim: int, ndim: int) -> int:
    """A dimension counted from the front.

    Raises:
        ValueError: there is no such dimension.
    """
    if not -ndim <= dim < ndim:
        raise ValueError(f"Dimension out of range: expected one in [{-ndim}, {ndim - 1}], but got {dim}.")
    return dim % ndim


def expanded(shape: Size, target: Size) -> tuple[Size, Change]:
    """To `target`, which must end with `shape`, or have larger sizes where `shape` has 1.

    Raises:
        ValueError: it does not.
    """
    last = target[len(target) - len(shape) :] if len(target) >= len(shape) else None
    if last is None or any(old not in (1, new) for old, new in zip(shape, last, strict=True)):
        raise ValueError(
            f"A spec of shape {tuple(shape)} cannot be expanded to {tuple(target)}: the last {len(shape)} sizes must "
            "be its own, or take the place of sizes 1."
        )
    sizes = known(target)
    return target, lambda tensor: tensor.expand((*sizes, *tensor.shape[len(shape) :]))


def unsqueezed(shape: Size, dim: int) -> tuple[Size, Change]:
    """With a dimension of size 1 before `dim`."""
    dim = dimension(dim, len(shape) + 1)
    return Size([*shape[:dim], 1, *shape[dim:]]), lambda tensor: tensor.unsqueeze(dim)


def squeezed(shape: Size, dim: int) -> tuple[Size, Change]:
    """Without the dimension `dim`, if its size is 1.

    Raises:
        IndexError: there is no such dimension.
    """
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"Dimension out of range: the shape {tuple(shape)} has no dimension {dim}.")
    dim %= len(shape)
    if shape[dim] != 1:
        return shape, lambda tensor: tensor
    return Size([*shape[:dim], *shape[dim + 1 :]]), lambda tensor: tensor.squeeze(dim)


def reshaped(shape: Size, target: Size) -> tuple[Size, Change]:
    """To `target`, in which one size may be -1.

    Raises:
        RuntimeError: the sizes do not multiply to as many elements.
    """
    count = math.prod(shape)
    if -1 in target:
        known = -math.prod(target)
        if target.count(-1) > 1 or known == 0 or count % known:
            raise RuntimeError(f"shape {tuple(target)} is invalid for a spec of shape {tuple(shape)}.")
        target = Size(count // known if size == -1 else size for size in target)
    if math.prod(target) != count:
        raise RuntimeError(
            f"shape {tuple(target)} is invalid for a spec of shape {tuple(shape)}: other number of elements."
        )
    return target, lambda tensor: tensor.reshape((*target, *tensor.shape[len(shape) :]))


def flattened(shape: Size, start_dim: int, end_dim: int) -> Size:
    """With the dimensions from `start_dim` to `end_dim` as one.

    Raises:
        IndexError: there is no such dimension.
    """
    return (
        torch.empty(()).expand(known(shape)).flatten(start_dim, end_dim).shape
        if shape
        else _flat_scalar(start_dim, end_dim)
    )


def _flat_scalar(start_dim: int, end_dim: int) -> Size:
    return torch.empty(()).flatten(start_dim, end_dim).shape


def unflattened(shape: Size, dim: int, sizes: Sequence[int]) -> Size:
    """With the dimension `dim` as several.

    Raises:
        RuntimeError: the sizes do not multiply to its size.
    """
    size: Size = torch.empty(()).expand(known(shape)).unflatten(dim, tuple(sizes)).shape
    return size


def indexed(shape: Size, index: Any) -> tuple[Size, Change]:
    """As a tensor of that shape is indexed.

    Raises:
        IndexError: the index is out of range, or has more dimensions than `shape`.
    """
    index = without_ellipsis(index, len(shape))
    probe = torch.zeros((), dtype=torch.bool).expand(known(shape))
    size: Size = probe[index].shape
    return size, lambda tensor: tensor[index]


def without_ellipsis(index: Any, ndim: int) -> tuple[Any, ...]:
    """An index as a tuple with slices in the place of `...`, so that it says the same on more dimensions."""
    parts = list(index) if isinstance(index, tuple) else [index]
    for part in parts:
        if isinstance(part, (str, float, complex)):
            raise TypeError(f"A spec of {ndim} dimensions cannot be indexed by {part!r}.")
    at = next((at for at, part in enumerate(parts) if part is Ellipsis), None)
    if at is None:
        return tuple(parts)
    taken = dimensions_of([part for part in parts if part is not Ellipsis])
    if taken > ndim:
        raise IndexError(f"too many indices: {index} is for {taken} dimensions, the shape has {ndim}.")
    return (*parts[:at], *[slice(None)] * (ndim - taken), *parts[at + 1 :])


def dimensions_of(parts: Sequence[Any]) -> int:
    """How many dimensions an index takes, without those that `...` stands for."""
    return sum(_dimensions(part) for part in parts)


def _dimensions(part: Any) -> int:
    """How many dimensions a part of an index takes."""
    if part is None:
        return 0
    if isinstance(part, Tensor) and part.dtype is torch.bool:
        return part.ndim
    return 1


def unbound(shape: Size, dim: int) -> list[tuple[Size, Change]]:
    """One shape and change for each position along a dimension.

    Raises:
        IndexError: there is no such dimension.
    """
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"Dimension out of range: a spec of shape {tuple(shape)} has no dimension {dim} to unbind.")
    dim %= len(shape)
    rest = Size([*shape[:dim], *shape[dim + 1 :]])

    def position(at: int) -> Change:
        return lambda tensor: tensor.select(dim, at)

    return [(rest, position(at)) for at in range(shape[dim])]
