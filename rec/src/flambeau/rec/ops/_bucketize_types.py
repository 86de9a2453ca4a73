"""What the kernels of bucketizing are given, and what they give."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Bucketed", "Sharding"]


class Sharding(NamedTuple):
    """Who owns the rows of T features.

    Args:
        shards: S.
        first_bags: (T + 1,) int64: which bags are a feature's; None: each has as many.
        block_sizes: (T,) int64: rows in a block; 0 where rows go to the shards in turn.
        total_blocks: (T,) int64: blocks of all shards together; None: one each.
        bounds: (T, S + 1) int64: where each shard's rows begin and the last's end; None: blocks of one size.
        kept: (T,) uint8: whether indices stay as they are; None: they do not.
    """

    shards: int
    first_bags: Tensor | None
    block_sizes: Tensor
    total_blocks: Tensor | None
    bounds: Tensor | None
    kept: Tensor | None


class Bucketed(NamedTuple):
    """What became of L indices in N bags.

    Args:
        lengths: (S * N,), shard-major.
        indices: (L,), as their shards know them, in that order.
        weights: (L, ...) in that order, where there were some.
        positions: (L,) the place that each had in its bag, in that order.
        order: (L,) where each index of the input went.
        mapping: (L,) the shard of each index of the input.
    """

    lengths: Tensor
    indices: Tensor
    weights: Tensor | None
    positions: Tensor | None
    order: Tensor | None
    mapping: Tensor | None
