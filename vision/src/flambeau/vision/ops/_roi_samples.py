"""The samples of `roi_align` and `ps_roi_align`, in plain tensor operations.

Each bin is covered by a grid of samples; a sample is interpolated between four pixels. Pixels are picked out, weighted
and summed without further ado: this is what faster implementations are compared with.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Line(NamedTuple):
    """Samples along one direction, (K, bins, samples) each."""

    low: Tensor  # pixel before the sample, int64
    high: Tensor  # pixel after it
    toward_high: Tensor  # how far it lies from the one to the other, in [0, 1]
    counts: Tensor  # whether it belongs to the bin and lies on the map
    number: Tensor  # (K,) samples in a bin


def line(start: Tensor, end: Tensor, *, scale: float, aligned: bool, bins: int, sampling_ratio: int, size: int) -> Line:
    """Samples of regions from `start` to `end`, (K,) each, on `size` pixels."""
    start = start * scale - (0.5 if aligned else 0.0)
    extent = end * scale - (0.5 if aligned else 0.0) - start
    if not aligned:
        extent = extent.clamp(min=1.0)
    step = extent / bins
    number = torch.full_like(step, sampling_ratio) if sampling_ratio > 0 else step.ceil()
    number = torch.where((number >= 1) & (number < 2**24), number, 0)
    # Regions differ in their number of samples: all get the largest, those too many do not count.
    most = int(number.max()) if len(number) else 0
    sample = torch.arange(most, dtype=start.dtype, device=start.device)
    index = torch.arange(bins, dtype=start.dtype, device=start.device)
    positions = start[:, None, None] + index[:, None] * step[:, None, None]
    positions = positions + (sample + 0.5) * step[:, None, None] / number.clamp(min=1)[:, None, None]
    counts = (positions >= -1) & (positions <= size) & (sample < number[:, None, None])
    positions = torch.where(counts, positions, 0).clamp(min=0)
    low = positions.to(torch.int64).clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    return Line(low, high, torch.where(high > low, positions - low, 0), counts, number)


def corners(rows: Line, columns: Line) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The four pixels of each sample: row, column and weight, broadcastable to (K, bins, samples, bins, samples).

    Weights sum to the share that a sample has in its bin.
    """
    number = (rows.number * columns.number).clamp(min=1)[:, None, None, None, None]
    counts = (rows.counts[..., None, None] & columns.counts[:, None, None]) / number
    down, right = rows.toward_high[..., None, None], columns.toward_high[:, None, None]
    top, bottom = rows.low[..., None, None], rows.high[..., None, None]
    left, far = columns.low[:, None, None], columns.high[:, None, None]
    return [
        (top, left, (1 - down) * (1 - right) * counts),
        (top, far, (1 - down) * right * counts),
        (bottom, left, down * (1 - right) * counts),
        (bottom, far, down * right * counts),
    ]
