"""Attention inside windows of a picture or a video: cutting, shifting, relative positions.

Maps are channels-last here, (N, *sizes, C), with two sizes for pictures and three for videos. What looks at
sizes is one node to torch.fx, which cannot follow it.

References:
    Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, arXiv:2103.14030.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, fx

__all__ = [
    "attention",
    "cut",
    "effective_shift",
    "join",
    "merge",
    "partition",
    "relative_position_index",
    "split_heads",
]


@fx.wrap
def partition(x: Tensor, window: Sequence[int]) -> Tensor:
    """Cut (N, *sizes, C), sizes being multiples of `window`, into (N * windows, positions in a window, C)."""
    sizes, dims = x.shape[1:-1], len(window)
    cut = [part for size, side in zip(sizes, window, strict=True) for part in (size // side, side)]
    x = x.reshape(x.shape[0], *cut, x.shape[-1])
    outer, inner = range(1, 2 * dims, 2), range(2, 2 * dims + 1, 2)
    # The count is written out: -1 has no meaning for a batch of none.
    count = x.shape[0] * math.prod(cut[::2])
    return x.permute(0, *outer, *inner, 2 * dims + 1).reshape(count, math.prod(window), x.shape[-1])


@fx.wrap
def merge(windows: Tensor, window: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The inverse of `partition`: the map (N, *sizes, C)."""
    dims = len(window)
    grid = [size // side for size, side in zip(sizes, window, strict=True)]
    count = windows.shape[0] // math.prod(grid)
    x = windows.reshape(count, *grid, *window, windows.shape[-1])
    order = [axis for dim in range(dims) for axis in (1 + dim, 1 + dims + dim)]
    return x.permute(0, *order, 2 * dims + 1).reshape(count, *sizes, windows.shape[-1])


def relative_position_index(window: Sequence[int]) -> Tensor:
    """For each pair of positions of a window, the row of a table that has a row for each difference; int64 (P, P)."""
    positions = torch.stack(torch.meshgrid([torch.arange(side) for side in window], indexing="ij")).flatten(1)
    index = torch.zeros(positions.shape[1], positions.shape[1], dtype=torch.int64)
    for along, side in zip(positions, window, strict=True):
        index = index * (2 * side - 1) + (along[:, None] - along[None, :] + side - 1)
    return index


@fx.wrap
def effective_shift(x: Tensor, window: Sequence[int], shift: Sequence[int]) -> list[int]:
    """The shift of windows in a map (N, *sizes, C): none along a side that one window covers."""
    return [amount if side < size else 0 for size, side, amount in zip(x.shape[1:-1], window, shift, strict=True)]


@fx.wrap
def cut(x: Tensor, window: Sequence[int], shift: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Roll a map against `shift`, and cut it into windows; `join` undoes it.

    Args:
        x: (N, *sizes, C); padded with zeros to multiples of `window`.
        window: sizes of a window.
        shift: by how much windows lie further to the end, less than a window; 0 where a window covers the map.

    Returns:
        The windows (N * windows, P, C), and (windows, P, P) to be added to the attention, which keeps apart what only
        rolling brought together; None where nothing is rolled.
    """
    padding = [(-size) % side for size, side in zip(x.shape[1:-1], window, strict=True)]
    x = F.pad(x, [0, 0, *(amount for last in reversed(padding) for amount in (0, last))])
    if not any(shift):
        return partition(x, window), None
    x = torch.roll(x, [-amount for amount in shift], list(range(1, len(window) + 1)))
    return partition(x, window), _apart(x.shape[1:-1], window, shift, x)


@fx.wrap
def join(windows: Tensor, sizes: Sequence[int], window: Sequence[int], shift: Sequence[int]) -> Tensor:
    """The map (N, *sizes, C) of windows that `cut` made of one of these sizes."""
    padded = [size + (-size) % side for size, side in zip(sizes, window, strict=True)]
    x = merge(windows, window, padded)
    dims = list(range(1, len(window) + 1))
    if any(shift):
        x = torch.roll(x, list(shift), dims)
    for dim, size in zip(dims, sizes, strict=True):
        x = x.narrow(dim, 0, size)
    return x.contiguous()


def _apart(sizes: Sequence[int], window: Sequence[int], shift: Sequence[int], like: Tensor) -> Tensor:
    """(windows, P, P) in the dtype and on the device of `like`: 0 inside a region, -100 between two of them."""
    regions = torch.zeros(*sizes, dtype=torch.int64, device=like.device)
    for dim, (size, side, amount) in enumerate(zip(sizes, window, shift, strict=True)):
        if amount:
            place = torch.arange(size, device=like.device)
            band = (place >= size - side).long() + (place >= size - amount).long()
            regions = 3 * regions + band.view(-1, *(1,) * (len(sizes) - 1 - dim))
    region = partition(regions[None, ..., None], window).squeeze(-1)
    different = region[:, :, None] != region[:, None, :]
    return torch.zeros(different.shape, dtype=like.dtype, device=like.device).masked_fill_(different, -100.0)


@fx.wrap
def split_heads(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (W, heads, P, C / heads), of which (W, P, 3 * C) has them side by side."""
    count, length, width = qkv.shape
    q, k, v = qkv.view(count, length, 3, num_heads, width // 3 // num_heads).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


@fx.wrap
def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor | None, *, dropout: float, scale: float | None = None
) -> Tensor:
    """Attention in many windows at once.

    Args:
        q: queries (N * windows, heads, P, D).
        k: keys, alike.
        v: values, alike.
        bias: (1, heads, P, P), added to the logits of all windows.
        mask: (windows, P, P), added to the logits of all heads; or None.
        dropout: probability for each weight.
        scale: factor of the products of queries and keys; `D ** -0.5` by default.

    Returns:
        (N * windows, P, heads * D).
    """
    if mask is not None:
        bias = bias + mask.unsqueeze(1)
        bias = bias.expand(q.shape[0] // mask.shape[0], *bias.shape).flatten(0, 1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)
    return out.transpose(1, 2).flatten(2)
