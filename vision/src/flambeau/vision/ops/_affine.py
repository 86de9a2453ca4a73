"""Pictures of bytes seen through a map, values and, of an affine map, places in one pass.

The native kernels are in `native/affine.cpp`; whether they serve, `_color.serves` says. The reference is torch's
`grid_sample`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY


def mapped(
    image: Tensor, matrix: Sequence[float], size: tuple[int, int], *, bilinear: bool, fill: Sequence[float] | None
) -> Tensor:
    """Take the pixels of pictures from where an inverse map, around the middles of both, says.

    Args:
        image: (N, C, H, W), uint8, not empty.
        matrix: a, b, c, d, e, f: a pixel at (x, y) from the middle comes from (a x + b y + c, d x + e y + f).
        size: height and width of the result.
        bilinear: the mean of four pixels, rounded; else the nearest.
        fill: value outside of the picture for each channel; it blends the edge. None is 0.

    Returns:
        (N, C, *size), uint8; channels last where those of `image` are.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    fills = torch.tensor([] if fill is None else fill, dtype=torch.float32, device=image.device)
    return torch.ops.flambeau_vision._affine(image, *matrix, *size, bilinear, fills)  # type: ignore[no-any-return]


def sampled(image: Tensor, grid: Tensor, *, bilinear: bool, fill: Sequence[float] | None) -> Tensor:
    """Take the pixels of pictures from given places.

    Args:
        image: as for `mapped`.
        grid: (new H, new W, 2), float32: (x, y) with -1 and 1 at the outer edges of the picture.
        bilinear: as for `mapped`.
        fill: as for `mapped`.

    Returns:
        (N, C, new H, new W), as of `mapped`.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    fills = torch.tensor([] if fill is None else fill, dtype=torch.float32, device=image.device)
    return torch.ops.flambeau_vision._sample(image, grid, bilinear, fills)  # type: ignore[no-any-return]


def _check(op: str, image: Tensor, height: int, width: int, fill: Tensor) -> None:
    """The same sentences as `map_pictures` in native/affine.cpp."""
    if image.dim() != 4:
        raise RuntimeError(f"{op}: image has shape {tuple(image.shape)}, expected (N, C, H, W).")
    if image.dtype != torch.uint8:
        raise RuntimeError(f"{op}: image has dtype {image.dtype}, expected torch.uint8; convert it.")
    if height < 1 or width < 1 or image.numel() == 0:
        raise RuntimeError(f"{op}: pictures of {tuple(image.shape)} cannot be mapped to ({height}, {width}).")
    if fill.dim() != 1 or fill.dtype != torch.float32 or fill.shape[0] not in (0, image.shape[1]):
        raise RuntimeError(f"{op}: fill has to be float32, empty or of one number for each channel.")


def _fake(
    image: Tensor, a: float, b: float, c: float, d: float, e: float, f: float, height: int, width: int,
    bilinear: bool, fill: Tensor,
) -> Tensor:  # fmt: skip
    _check("_affine", image, height, width, fill)
    return _empty(image, height, width)


def _empty(image: Tensor, height: int, width: int) -> Tensor:
    last = image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
    layout = torch.channels_last if last else torch.contiguous_format
    return image.new_empty((*image.shape[:2], height, width)).contiguous(memory_format=layout)


def _reference(
    image: Tensor, a: float, b: float, c: float, d: float, e: float, f: float, height: int, width: int,
    bilinear: bool, fill: Tensor,
) -> Tensor:  # fmt: skip
    out = _fake(image, a, b, c, d, e, f, height, width, bilinear, fill)
    sampling = import_module("flambeau.vision.transforms.v2.functional._sampling")
    grid = sampling.affine_grid((a, b, c, d, e, f), image, (height, width))
    values = fill.tolist() if fill.shape[0] else None
    return out.copy_(sampling.interpolated(image, grid, "bilinear" if bilinear else "nearest", values))


def _fake_sample(image: Tensor, grid: Tensor, bilinear: bool, fill: Tensor) -> Tensor:
    if grid.dim() != 3 or grid.shape[2] != 2 or grid.dtype != torch.float32:
        raise RuntimeError(
            f"_sample: grid has shape {tuple(grid.shape)} and dtype {grid.dtype}, expected (H, W, 2) and torch.float32."
        )
    _check("_sample", image, grid.shape[0], grid.shape[1], fill)
    return _empty(image, grid.shape[0], grid.shape[1])


def _reference_sample(image: Tensor, grid: Tensor, bilinear: bool, fill: Tensor) -> Tensor:
    out = _fake_sample(image, grid, bilinear, fill)
    sampling = import_module("flambeau.vision.transforms.v2.functional._sampling")
    values = fill.tolist() if fill.shape[0] else None
    return out.copy_(sampling.interpolated(image, grid[None], "bilinear" if bilinear else "nearest", values))


register_op(
    "_sample(Tensor image, Tensor grid, bool bilinear, Tensor fill) -> Tensor",
    library=LIBRARY,
    fake=_fake_sample,
    python=_reference_sample,
)
register_op(
    "_affine(Tensor image, float a, float b, float c, float d, float e, float f, SymInt height, SymInt width, "
    "bool bilinear, Tensor fill) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
)
