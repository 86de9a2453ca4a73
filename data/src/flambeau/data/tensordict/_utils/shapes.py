"""Shapes as tensors are expanded to them and made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.data.tensordict._methods.shape import infer_size


def expand_as_right(tensor: Any, dest: Any) -> Any:
    """Expand a tensor to the shape of another whose first dimensions it has.

    Raises:
        RuntimeError: it has more dimensions, or others.
    """
    return expand_right(tensor, dest.shape)


def expand_right(tensor: Any, shape: Sequence[int]) -> Any:
    """Expand a tensor, which has the first dimensions of `shape`, to `shape`.

    Raises:
        RuntimeError: it has more dimensions, or others.
    """
    if tensor.ndim > len(shape):
        raise RuntimeError(f"a tensor of shape {list(tensor.shape)} cannot expand to {list(shape)}.")
    for _ in range(len(shape) - tensor.ndim):
        tensor = tensor.unsqueeze(-1)
    return tensor.expand(shape)


def infer_size_impl(shape: list[int], numel: int) -> list[int]:
    """A shape with its -1 worked out, as a list.

    Raises:
        RuntimeError: it does not hold `numel` elements.
    """
    return list(infer_size(shape, numel))


def prod(sequence: Iterable[int]) -> int:
    """The product of numbers, 1 for none."""
    return math.prod(sequence)
