"""Pictures seen through a map: each pixel of the result is taken from a place between the pixels of the input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from flambeau.vision.ops._affine import sampled
from flambeau.vision.ops._color import serves
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode
from flambeau.vision.transforms.v2.functional._affine_matrix import Matrix

Fill = float | Sequence[float] | None


def sample(image: Tensor, grid: Tensor, interpolation: InterpolationMode | str | int, fill: Fill) -> Tensor:
    """Take pixels from places.

    Args:
        image: [..., C, H, W] of any dtype.
        grid: [1, new H, new W, 2] or [new H, new W, 2], (x, y) with -1 and 1 at the outer edges of the picture;
            floating point.
        interpolation: NEAREST or BILINEAR.
        fill: value outside of the picture, one for all channels or one for each. None is 0. A value also blends the
            edge, where a place has some pixels inside and some outside.

    Returns:
        [..., C, new H, new W], same dtype, integers rounded.

    Raises:
        ValueError: another interpolation, or `fill` does not fit the channels.
    """
    mode = sampling_mode(interpolation)
    grid = grid if grid.ndim == 4 else grid[None]
    *leading, channels, height, width = image.shape
    new_shape = (*leading, channels, *grid.shape[1:3])
    if image.numel() == 0:
        return image.new_zeros(new_shape)
    flat = image.reshape(-1, channels, height, width)
    if _by_kernel(image, grid):
        fills = None if fill is None else fill_values(fill, channels)
        return sampled(flat, grid[0], bilinear=mode == "bilinear", fill=fills).reshape(new_shape)
    return interpolated(flat, grid, mode, fill).reshape(new_shape)


def _by_kernel(image: Tensor, grid: Tensor) -> bool:
    plain = grid.dtype == torch.float32 and grid.shape[0] == 1 and grid.numel() > 0
    return image.dtype == torch.uint8 and plain and serves(image) and serves(grid)


def interpolated(image: Tensor, grid: Tensor, mode: str, fill: Fill) -> Tensor:
    """The formula, for an image [N, C, H, W] and a grid [1, new H, new W, 2]."""
    channels, height, width = image.shape[-3:]
    if image.dtype in (torch.int32, torch.int64):
        if mode == "nearest":
            return _nearest(image, grid, fill)
        grid = grid.double()
    work = image.to(grid.dtype)
    if fill is not None:
        work = torch.cat([work, work.new_ones(work.shape[0], 1, height, width)], 1)
    grid = grid.expand(work.shape[0], -1, -1, -1)
    values = grid_sample(work, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        outside = values.new_tensor(fill_values(fill, channels)).view(1, -1, 1, 1)
        values = _filled(values[:, :-1], values[:, -1:], outside, mode)
    if not image.is_floating_point() and mode != "nearest":
        values = values.round()
    return values.to(image.dtype)


def _nearest(image: Tensor, grid: Tensor, fill: Fill) -> Tensor:
    """The nearest pixels of integers that floating point may not hold: it chooses their places alone."""
    channels, height, width = image.shape[-3:]
    if height * width >= 2**24:  # more places than float32 counts
        grid = grid.double()
    places = torch.arange(1, height * width + 1, dtype=grid.dtype, device=image.device).view(1, 1, height, width)
    chosen = grid_sample(places, grid, mode="nearest", padding_mode="zeros", align_corners=False)[0, 0].long()
    values = image.flatten(-2).index_select(-1, (chosen.flatten() - 1).clamp(min=0)).unflatten(-1, chosen.shape)
    outside = [0.0] * channels if fill is None else fill_values(fill, channels)
    return torch.where(chosen > 0, values, values.new_tensor(outside).view(-1, 1, 1))


def _filled(values: Tensor, inside: Tensor, fill: Tensor, mode: str) -> Tensor:
    if mode == "nearest":
        return torch.where(inside < 0.5, fill, values)
    return (values - fill) * inside + fill


def fill_values(fill: float | Sequence[float], channels: int) -> list[float]:
    """What to fill each channel with.

    Raises:
        ValueError: `fill` does not fit the channels.
    """
    values = [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) not in (1, channels):
        raise ValueError(
            f"fill {fill!r} has {len(values)} values, expected one, or one for each of {channels} channels."
        )
    return values * channels if len(values) == 1 else values


def sampling_mode(interpolation: InterpolationMode | str | int) -> str:
    """The word that `grid_sample` has for an interpolation.

    Raises:
        ValueError: it has none.
    """
    mode = interpolation_mode(interpolation)
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(
            f"Tensors are not interpolated with {mode.value!r} here, expected 'nearest' or 'bilinear'; PIL images "
            "take 'bicubic' too."
        )
    return str(mode.value)


def sampling_dtype(image: Tensor) -> torch.dtype:
    """The dtype in which places are computed: float32, so that images of all integers agree, or float64."""
    return torch.float64 if image.dtype == torch.float64 else torch.float32


def affine_grid(matrix: Matrix, image: Tensor, new_size: tuple[int, int]) -> Tensor:
    """The places [1, new H, new W, 2] that an inverse map, around the middles of both pictures, takes pixels from."""
    a, b, c, d, e, f = matrix
    height, width = image.shape[-2:]
    x, y = _centers(new_size[1], image), _centers(new_size[0], image)[:, None]
    across = (x * (2 * a / width)) + (y * (2 * b / width) + 2 * c / width)
    down = (x * (2 * d / height)) + (y * (2 * e / height) + 2 * f / height)
    return torch.stack([across, down], -1)[None]


def _centers(size: int, image: Tensor) -> Tensor:
    """Centres of pixels along a dimension, counted from its middle."""
    first = (1 - size) * 0.5
    return torch.arange(size, dtype=sampling_dtype(image), device=image.device) + first


def on_mask(mask: Tensor) -> Tensor:
    """A mask with a dimension for channels: [H, W] becomes [1, H, W]."""
    return mask[None] if mask.ndim == 2 else mask
