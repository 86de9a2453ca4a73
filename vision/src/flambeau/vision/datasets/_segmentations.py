"""COCO's ways to write a mask: polygons, and runs of pixels as numbers or as text.

A mask is counted down its columns: runs of 0 and of 1 take turns, the first one of 0. References: Lin et al. 2014,
arXiv:1405.0312, and the format's description at https://cocodataset.org/#format-data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.core.errors import FlambeauError

__all__ = ["SegmentationError", "segmentation_to_mask"]

# Edges are drawn on a grid this much finer, so that they fall between pixels.
_SCALE = 5


class SegmentationError(FlambeauError, ValueError):
    """A segmentation that is none of polygons and runs, or does not fit its picture."""


def segmentation_to_mask(segmentation: Any, height: int, width: int) -> NDArray[np.uint8]:
    """The mask that a COCO annotation's `segmentation` means.

    Args:
        segmentation: a list of polygons [x0, y0, x1, y1, ...] in pixels, or {"size": [height, width], "counts": runs},
            with runs as a list of numbers or as text.
        height: of the picture, in pixels.
        width: of the picture, in pixels.

    Returns:
        [height, width], uint8: 1 inside of any polygon, or in the runs of 1.

    Raises:
        SegmentationError: it is none of these, or its runs do not make up the picture.
    """
    if isinstance(segmentation, Mapping):
        counts = segmentation.get("counts")
        runs = _runs_of_text(counts) if isinstance(counts, str | bytes) else counts
        if list(segmentation.get("size", ())) != [height, width]:
            raise SegmentationError(
                f"a mask of size {segmentation.get('size')} belongs to a picture of {[height, width]} pixels."
            )
        return _fill_runs(runs, height, width)
    if isinstance(segmentation, Sequence) and not isinstance(segmentation, str | bytes):
        mask = np.zeros((height, width), np.uint8)
        for polygon in segmentation:
            mask |= _fill_polygon(np.asarray(polygon, np.float64), height, width)
        return mask
    raise SegmentationError(f"a segmentation is a list of polygons or runs, not a {type(segmentation).__name__}.")


def _fill_runs(runs: Any, height: int, width: int) -> NDArray[np.uint8]:
    lengths = np.asarray(runs, np.int64)
    if lengths.ndim != 1 or (lengths < 0).any() or int(lengths.sum()) != height * width:
        raise SegmentationError(f"runs cover {lengths.sum()} pixels, expected {height} x {width} = {height * width}.")
    values = np.arange(len(lengths), dtype=np.int64) % 2
    return np.repeat(values.astype(np.uint8), lengths).reshape(width, height).T.copy()


def _runs_of_text(text: str | bytes) -> list[int]:
    """Runs as text: five bits a character from '0' on, lowest first, the sixth bit says that more follow.

    From the third run on, a number is the difference to the run before the last.
    """
    codes = text.encode("ascii") if isinstance(text, str) else text
    runs: list[int] = []
    value = shift = 0
    for code in codes:
        bits = code - 48
        if not 0 <= bits < 64:
            raise SegmentationError(f"runs as text hold the character {chr(code)!r}, which stands for no number.")
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            if bits & 0x10:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    if shift:
        raise SegmentationError("runs as text end in the middle of a number.")
    return runs


def _fill_polygon(polygon: NDArray[np.float64], height: int, width: int) -> NDArray[np.uint8]:
    """1 inside of a polygon by the even-odd rule, edges drawn on a finer grid as COCO's own tools draw them."""
    if polygon.ndim != 1 or polygon.size < 6 or polygon.size % 2 or not np.isfinite(polygon).all():
        raise SegmentationError(f"a polygon has {polygon.size} numbers, expected pairs of x and y, at least three.")
    columns, rows = _boundary(polygon.reshape(-1, 2))
    # Where the boundary steps from one fine column to the next, a pixel's column is crossed if its middle lies there.
    left = np.minimum(columns[1:], columns[:-1])
    crossed = ((left + 0.5) / _SCALE - 0.5)[columns[1:] != columns[:-1]]
    at = ((np.minimum(rows[1:], rows[:-1]) + 0.5) / _SCALE - 0.5)[columns[1:] != columns[:-1]]
    hit = (crossed == np.floor(crossed)) & (crossed >= 0) & (crossed <= width - 1)
    starts = crossed[hit].astype(np.int64) * height + np.ceil(at[hit].clip(0, height)).astype(np.int64)
    toggles = np.bincount(starts, minlength=height * width + 1)[: height * width]
    return (np.cumsum(toggles) % 2).astype(np.uint8).reshape(width, height).T.copy()


def _boundary(corners: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every point of the fine grid along the edges, in order, as (x, y)."""
    fine = np.trunc(_SCALE * corners + 0.5)
    xs, ys = [], []
    for (x0, y0), (x1, y1) in zip(fine, np.roll(fine, -1, axis=0), strict=True):
        wide = abs(x1 - x0) >= abs(y1 - y0)
        along, across = ((x0, x1), (y0, y1)) if wide else ((y0, y1), (x0, x1))
        steps = int(abs(along[1] - along[0]))
        # An edge is drawn from its lower end, whichever way it is walked, so that both ways give the same points.
        backwards = along[0] > along[1]
        low, other_low, other_high = (along[1], across[1], across[0]) if backwards else (along[0], across[0], across[1])
        t = np.arange(steps + 1, dtype=np.float64)
        slope = (other_high - other_low) / steps if steps else 0.0
        first, second = t + low, np.trunc(other_low + slope * t + 0.5)
        if backwards:
            first, second = first[::-1], second[::-1]
        xs.append(first if wide else second)
        ys.append(second if wide else first)
    return np.concatenate(xs), np.concatenate(ys)
