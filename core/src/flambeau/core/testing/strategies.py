"""Hypothesis strategies for the kinds of values the suite works with.

Tensors are made of a seed rather than of single numbers, so that large ones are drawn fast and shrink to small shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from hypothesis import strategies as st
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGRAL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
BoxFormat = Literal["XYXY", "XYWH", "CXCYWH"]


def dtypes(*, floating: bool = True, integral: bool = False) -> SearchStrategy[torch.dtype]:
    """Dtypes, simplest first: float32, or uint8 where only integral ones are wanted."""
    return st.sampled_from((FLOATING if floating else ()) + (INTEGRAL if integral else ()))


def shapes(
    *, min_dims: int = 0, max_dims: int = 4, min_side: int = 0, max_side: int = 6
) -> SearchStrategy[tuple[int, ...]]:
    """Shapes; sides of 0 are drawn unless `min_side` rules them out."""
    side = st.integers(min_side, max_side)
    return st.lists(side, min_size=min_dims, max_size=max_dims).map(tuple)


def tensors(
    shape: SearchStrategy[tuple[int, ...]] | Sequence[int] | None = None,
    dtype: SearchStrategy[torch.dtype] | torch.dtype | None = None,
) -> SearchStrategy[Tensor]:
    """Tensors: floating ones are standard normal, integral ones cover the dtype's range up to [-2**31, 2**31).

    Args:
        shape: a shape or a strategy of shapes, by default `shapes()`.
        dtype: a dtype or a strategy of dtypes, by default float32.
    """
    sizes = shapes() if shape is None else shape if isinstance(shape, st.SearchStrategy) else st.just(tuple(shape))
    kinds = dtype if isinstance(dtype, st.SearchStrategy) else st.just(dtype or torch.float32)
    return st.builds(_tensor, sizes, kinds, _seeds())


@st.composite
def images(
    draw: DrawFn, *, channels: Sequence[int] = (3, 1), dtype: torch.dtype = torch.uint8, batch: bool = False,
    min_side: int = 1, max_side: int = 24,
) -> Tensor:  # fmt: skip
    """Images (C, H, W), with `batch` (N, C, H, W) for N from 0 to 3; integral ones in full range, others in [0, 1]."""
    sizes = [draw(st.sampled_from(channels)), *(draw(st.integers(min_side, max_side)) for _ in range(2))]
    if batch:
        sizes.insert(0, draw(st.integers(0, 3)))
    generator = torch.Generator().manual_seed(draw(_seeds()))
    if dtype.is_floating_point:
        return torch.rand(sizes, generator=generator).to(dtype)
    return torch.randint(0, torch.iinfo(dtype).max + 1, sizes, generator=generator).to(dtype)


def boxes(
    *, size: tuple[int, int] = (32, 48), most: int = 8, format: BoxFormat = "XYXY",
    dtype: torch.dtype = torch.float32, degenerate: bool = False,
) -> SearchStrategy[Tensor]:  # fmt: skip
    """Boxes (N, 4) inside an image, N from 0 to `most`.

    Args:
        size: (height, width) of the image.
        most: largest number of boxes.
        format: corners, corner and size, or centre and size.
        dtype: of the result; integral dtypes give whole corners.
        degenerate: also draw boxes of zero width or height.
    """
    # Quarters of a pixel are exact in every floating dtype that has the range.
    unit = 4 if dtype.is_floating_point else 1
    return _corners(size, most, unit, degenerate).map(lambda corners: _BOX_FORMATS[format](corners).to(dtype))


@st.composite
def _corners(draw: DrawFn, size: tuple[int, int], most: int, unit: int, degenerate: bool) -> Tensor:
    height, width = size
    count, least = draw(st.integers(0, most)), 0 if degenerate else 1
    rows = []
    for _ in range(count):
        x1, y1 = draw(st.integers(0, width * unit - least)), draw(st.integers(0, height * unit - least))
        x2, y2 = draw(st.integers(x1 + least, width * unit)), draw(st.integers(y1 + least, height * unit))
        rows.append((x1 / unit, y1 / unit, x2 / unit, y2 / unit))
    return torch.tensor(rows, dtype=torch.float64).reshape(count, 4)


@st.composite
def waveforms(
    draw: DrawFn, *, channels: Sequence[int] = (1, 2), min_frames: int = 0, max_frames: int = 400,
    dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """Waveforms (channels, time), full scale [-1, 1]: noise, silence, one impulse, or a full-scale square wave."""
    shape = (draw(st.sampled_from(channels)), draw(st.integers(min_frames, max_frames)))
    kind = draw(st.sampled_from(("silence", "impulse", "square", "noise")))
    wave = torch.zeros(shape, dtype=torch.float64)
    if kind == "noise":
        wave = torch.rand(shape, generator=torch.Generator().manual_seed(draw(_seeds())), dtype=torch.float64) * 2 - 1
    elif kind == "square":
        wave = torch.ones(shape, dtype=torch.float64)
        wave[:, 1::2] = -1
    elif kind == "impulse" and wave.numel():
        wave[:, draw(st.integers(0, shape[1] - 1))] = 1
    return wave.to(dtype)


def jagged_lengths(
    *, max_rows: int = 6, max_length: int = 8, dtype: torch.dtype = torch.int64
) -> SearchStrategy[Tensor]:
    """Lengths (rows,) of a jagged tensor; no rows, empty rows and all rows empty are among them."""
    lengths = st.lists(st.integers(0, max_length), max_size=max_rows)
    return lengths.map(lambda values: torch.tensor(values, dtype=dtype))


@st.composite
def jagged(
    draw: DrawFn, *, max_rows: int = 6, max_length: int = 8, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Values (sum of lengths,) and lengths (rows,) of a jagged tensor."""
    lengths = draw(jagged_lengths(max_rows=max_rows, max_length=max_length))
    return _tensor((int(lengths.sum()),), dtype, draw(_seeds())), lengths


def _seeds() -> SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -(2**31)), min(limits.max + 1, 2**31)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def _corner_and_size(corners: Tensor) -> Tensor:
    return torch.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)


def _centre_and_size(corners: Tensor) -> Tensor:
    return torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], 1)


_BOX_FORMATS: dict[str, Callable[[Tensor], Tensor]] = {
    "XYXY": lambda corners: corners,
    "XYWH": _corner_and_size,
    "CXCYWH": _centre_and_size,
}
