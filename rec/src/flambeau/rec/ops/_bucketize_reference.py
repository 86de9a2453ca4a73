"""Bucketizing in plain torch: the oracle of the native kernel's tests, and what serves where there is none."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.ops._bucketize_types import Bucketed, Sharding

__all__ = ["bucketize"]


def bucketize(
    lengths: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    sharding: Sharding,
    positions: bool,
    order: bool,
    mapping: bool,
) -> Bucketed | None:
    """Give indices to shards; None where lengths are negative or do not add up."""
    bags, total = len(lengths), len(indices)
    if bool((lengths < 0).any()) or int(lengths.sum()) != total:
        return None
    device = lengths.device
    bag = torch.arange(bags, device=device).repeat_interleave(lengths.long(), output_size=total)
    if sharding.first_bags is None:
        feature = bag // max(bags // max(len(sharding.block_sizes), 1), 1)
    else:
        feature = torch.searchsorted(sharding.first_bags, bag, right=True) - 1
    shard, local = _owners(indices, feature, sharding)
    key = shard * bags + bag
    sorted_items = key.argsort(stable=True)
    items = torch.arange(total, device=device)
    starts = lengths.long().cumsum(0) - lengths
    went = torch.empty_like(items).scatter_(0, sorted_items, items)
    return Bucketed(
        torch.bincount(key, minlength=sharding.shards * bags).to(lengths.dtype),
        local[sorted_items].to(indices.dtype),
        None if weights is None else weights[sorted_items],
        (items - starts[bag])[sorted_items].to(indices.dtype) if positions else None,
        went.to(indices.dtype) if order else None,
        shard.to(indices.dtype) if mapping else None,
    )


def _owners(indices: Tensor, feature: Tensor, sharding: Sharding) -> tuple[Tensor, Tensor]:
    """The shard of each index, and what it is there."""
    bits = 8 * indices.element_size()
    values, shards = indices.long(), sharding.shards
    blocks = torch.full_like(values, shards) if sharding.total_blocks is None else sharding.total_blocks[feature]
    each = (blocks // shards).clamp(min=1)
    if sharding.bounds is not None:
        bounds = sharding.bounds[feature]
        place = (bounds <= values[:, None]).sum(1) - 1
        inside = (values >= 0) & (place >= 0) & (place < shards)
        quotient, rest = _unsigned_divmod(values, torch.full_like(values, shards), bits)
        begin = bounds.gather(1, place.clamp(0, shards)[:, None])[:, 0]
        shard, local = torch.where(inside, place, rest), torch.where(inside, values - begin, quotient)
    else:
        rows = sharding.block_sizes[feature] * each
        inside = (values >= 0) & (values < sharding.block_sizes[feature] * blocks)
        safe = rows.clamp(min=1)
        quotient, rest = _unsigned_divmod(values, blocks, bits)
        shard = torch.where(inside, values // safe, rest // each).clamp(max=shards - 1)
        local = torch.where(inside, values % safe, quotient)
    if sharding.kept is not None:
        local = torch.where(sharding.kept[feature].bool(), values, local)
    return shard, local


def _unsigned_divmod(values: Tensor, divisor: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of numbers whose bits are read without a sign."""
    # 2 ** bits = quotient * divisor + rest, from a power that int64 can hold.
    power = 1 << (bits - 2)
    rest = torch.full_like(divisor, power) % divisor * 4 % divisor
    whole = (torch.full_like(divisor, power) // divisor) * 4 + (
        torch.full_like(divisor, power) % divisor * 4
    ) // divisor
    negative = values < 0
    shifted = torch.where(negative, values + rest, values)
    quotient = shifted.div(divisor, rounding_mode="floor")
    return quotient + torch.where(negative, whole, 0), shifted.remainder(divisor)
