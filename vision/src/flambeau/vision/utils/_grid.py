"""Many images side by side in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor


@torch.no_grad()
def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[int, int] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Lay images out in rows.

    Args:
        tensor: [N, C, H, W], or a list of N images [C, H, W] of one shape; [C, H, W] or [H, W] is one image. One
            channel becomes three equal ones.
        nrow: images in a row, > 0.
        padding: pixels round each image.
        normalize: shift and stretch values to [0, 1]; needs a floating point dtype.
        value_range: (lowest, highest) value, which `normalize` maps to 0 and 1; without it the data's own.
        scale_each: let `normalize` take the range of each image instead of the range of all.
        pad_value: value of the pixels between images.

    Returns:
        [C, rows * (H + padding) + padding, columns * (W + padding) + padding], same dtype and device. A single image
        comes without padding. The values are copied.

    Raises:
        TypeError: `tensor` is neither a tensor nor a list of tensors, `value_range` is no tuple, or integers were to
            be normalized.
        ValueError: there is no image, the shapes differ, or `nrow` is below 1.

    Example:
        >>> make_grid(torch.ones(3, 1, 4, 4), nrow=2, padding=1).shape
        torch.Size([3, 11, 11])
    """
    images = _as_batch(tensor)
    if nrow < 1 or padding < 0:
        raise ValueError(
            f"nrow is {nrow} and padding {padding}; expected at least one image in a row and padding >= 0."
        )
    if normalize:
        images = _normalized(images, value_range, scale_each)
    count, channels, height, width = images.shape
    if count == 1:
        return images[0].clone()
    columns = min(nrow, count)
    rows = -(-count // columns)
    cell_height, cell_width = height + padding, width + padding
    grid = images.new_full((channels, cell_height * rows + padding, cell_width * columns + padding), pad_value)
    for index, image in enumerate(images):
        top, left = index // columns * cell_height + padding, index % columns * cell_width + padding
        grid[:, top : top + height, left : left + width] = image
    return grid


def save_image(
    tensor: Tensor | list[Tensor], fp: str | Path | BinaryIO, format: str | None = None, **kwargs: Any
) -> None:
    """Write an image, or a grid of several, to a file.

    Args:
        tensor: as `make_grid` takes it, floating point in [0, 1]: values are rounded to 8 bits, what lies outside is
            clamped; or uint8, which is written as it is.
        fp: path or binary file.
        format: Pillow's name of the format, for example "png"; by default what the path's suffix says.
        **kwargs: options of `make_grid`.

    Raises:
        TypeError: `tensor` has another dtype.
        ValueError: Pillow does not know the format; or what `make_grid` raises.
        OSError: the file cannot be written.
    """
    from PIL import Image

    grid = make_grid(tensor, **kwargs)
    if grid.is_floating_point():
        grid = grid.mul(255).add(0.5).clamp(0, 255)
    elif grid.dtype != torch.uint8:
        raise TypeError(
            f"save_image takes floating point in [0, 1] or uint8, got {grid.dtype}; convert the images first."
        )
    Image.fromarray(grid.permute(1, 2, 0).to("cpu", torch.uint8).numpy()).save(fp, format=format)


def _as_batch(tensor: Tensor | list[Tensor]) -> Tensor:
    """[N, C, H, W] with C other than 1."""
    if isinstance(tensor, list) and all(isinstance(item, Tensor) for item in tensor):
        if not tensor or any(item.shape != tensor[0].shape for item in tensor):
            shapes = sorted({tuple(item.shape) for item in tensor})
            raise ValueError(f"The list holds images of the shapes {shapes}; expected at least one, all of one shape.")
        images = torch.stack(tensor)
    elif isinstance(tensor, Tensor):
        images = tensor
    else:
        raise TypeError(f"tensor is a {type(tensor).__name__}, expected images as one tensor or as a list of tensors.")
    if not 2 <= images.ndim <= 4 or images.numel() == 0:
        raise ValueError(
            f"The shape is {list(images.shape)}; expected [N, C, H, W], [C, H, W] or [H, W], none of them 0."
        )
    if images.ndim == 2:
        images = images[None]
    if images.ndim == 3:
        images = images[None]
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images


def _normalized(images: Tensor, value_range: object, scale_each: bool) -> Tensor:
    if not images.is_floating_point():
        raise TypeError(f"normalize needs floating point values, got {images.dtype}; convert the images first.")
    # In half precision the quotient of two rounded differences is off by more than the last digit.
    wide = images if images.dtype in (torch.float32, torch.float64) else images.float()
    if value_range is not None:
        if not isinstance(value_range, tuple) or len(value_range) != 2:
            raise TypeError(f"value_range is {value_range!r}, expected a tuple of two numbers, (lowest, highest).")
        low, high = (wide.new_tensor(value) for value in value_range)
    else:
        over = (1, 2, 3) if scale_each else (0, 1, 2, 3)
        low, high = wide.amin(over, keepdim=True), wide.amax(over, keepdim=True)
    return ((wide.clamp(low, high) - low) / (high - low).clamp(min=1e-5)).to(images.dtype)
