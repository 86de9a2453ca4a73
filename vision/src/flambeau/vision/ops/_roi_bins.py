"""Whole pixels of a region's bins, as `roi_pool` and `ps_roi_pool` take them, in plain tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

# Further away than any map reaches, and small enough for sums of a few.
_FAR = 2**30


def to_pixel(positions: Tensor) -> Tensor:
    """Rounded half away from zero, int64. NaN lies far outside."""
    whole = positions.trunc()
    whole = whole + torch.where((positions - whole).abs() >= 0.5, positions.sign(), 0)
    return whole.nan_to_num(-_FAR, _FAR, -_FAR).clamp(-_FAR, _FAR).to(torch.int64)


def bounds(start: Tensor, pixels: Tensor, bins: int, limit: int, dtype: torch.dtype) -> Tensor:
    """First pixel of each bin and the one after its last, (K, bins, 2) int32, both in [0, limit].

    Regions are `pixels` long, at least one, from `start`, (K,) each. Bins share pixels where cuts are within one.
    """
    step = pixels.clamp(min=1).to(dtype) / bins
    index = torch.arange(bins, dtype=dtype, device=start.device)
    begin = start[:, None] + (index * step[:, None]).floor().to(torch.int64)
    end = start[:, None] + ((index + 1) * step[:, None]).ceil().to(torch.int64)
    return torch.stack([begin, end], 2).clamp(0, max(limit, 0)).to(torch.int32)


def inside(start: Tensor, pixels: Tensor, bins: int, limit: int, size: int, dtype: torch.dtype) -> Tensor:
    """Which of `size` pixels belong to which bin, (K, bins, size) bool; arguments as of `bounds`."""
    begin, end = bounds(start, pixels, bins, limit, dtype).unbind(2)
    pixel = torch.arange(size, device=start.device)
    return (pixel >= begin[..., None]) & (pixel < end[..., None])
