"""Resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode, pillow_number

if TYPE_CHECKING:
    from PIL import Image

_ANTIALIASED = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
_TENSOR_MODES = (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT, *_ANTIALIASED)


@functional(fallback=False)
def resize(
    inpt: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """Resize an image.

    Args:
        inpt: [..., C, H, W] of any dtype, or a PIL image.
        size: (height, width); or one number for the shorter side, which keeps the proportions; or None, which
            makes the longer side `max_size`.
        interpolation: how values between pixels are found. PIL images take every mode, tensors do not take BOX and
            HAMMING.
        max_size: with one number as `size`, the longest the longer side may become; the shorter one shrinks with it.
        antialias: low-pass filter when shrinking bilinear, bicubic or lanczos. Without it fine detail turns into
            false patterns; PIL images always have it.

    Returns:
        The image, same dtype. An image that has the size already is returned itself.
        uint8 differs from Pillow's result by at most one level.

    Raises:
        ValueError: `size` and `max_size` do not fit together, or tensors do not know the interpolation.

    Note:
        uint8 is interpolated as integers, other integers through float32 with rounding; bicubic and lanczos results
        are clamped to the dtype's range for integers, and may leave [0, 1] for floating point.
    """
    return resize_image(inpt, size, interpolation, max_size, antialias)


@register_kernel(resize, tv_tensors.Image)
def resize_image(
    image: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """`resize` of a tensor [..., C, H, W]."""
    mode = interpolation_mode(interpolation)
    if mode not in _TENSOR_MODES:
        names = [known.value for known in _TENSOR_MODES]
        raise ValueError(f"Tensors cannot be resized with {mode.value!r}, expected one of {names}; PIL images can.")
    *leading, height, width = image.shape
    new_height, new_width = resized_size((height, width), size, max_size)
    if (new_height, new_width) == (height, width):
        return image
    if image.numel() == 0:
        return image.new_empty(*leading, new_height, new_width)
    # One batch dimension, whatever comes before the channels.
    flat = image.reshape(-1, *image.shape[-3:])
    smooth = bool(antialias) and mode in _ANTIALIASED
    return _interpolate(flat, (new_height, new_width), mode, smooth).reshape(*leading, new_height, new_width)


def _interpolate(flat: Tensor, size: tuple[int, int], mode: InterpolationMode, antialias: bool) -> Tensor:
    dtype = flat.dtype
    native = (torch.uint8, torch.float32, torch.float64)
    work = flat if dtype in native and (dtype != torch.uint8 or flat.device.type == "cpu") else flat.float()
    corners = None if mode in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT) else False
    out = interpolate(work, size=size, mode=mode.value, align_corners=corners, antialias=antialias)
    if out.dtype == dtype:
        return out
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        out = out.round_().clamp_(limits.min, limits.max)
    return out.to(dtype)


@register_kernel(resize, "PIL.Image:Image")
def _resize_image_pil(
    image: Image.Image,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Image.Image:
    height, width = resized_size((image.height, image.width), size, max_size)
    if (height, width) == (image.height, image.width):
        return image
    return image.resize((width, height), resample=pillow_number(interpolation_mode(interpolation)))


def resized_size(
    canvas_size: tuple[int, int], size: Sequence[int] | int | None, max_size: int | None = None
) -> tuple[int, int]:
    """The (height, width) that `resize` gives a canvas of (height, width).

    Raises:
        ValueError: `size` and `max_size` do not fit together.
    """
    wanted = [size] if isinstance(size, int) else None if size is None else list(size)
    if wanted is not None and len(wanted) not in (1, 2):
        raise ValueError(f"size is {size!r}, expected one number, two (height, width), or None.")
    if wanted is not None and len(wanted) == 2:
        if max_size is not None:
            raise ValueError(
                f"max_size={max_size} goes with one number as size, for the shorter side; got size={size!r}."
            )
        return wanted[0], wanted[1]
    height, width = canvas_size
    short, long = min(height, width), max(height, width)
    if wanted is None:
        if max_size is None:
            raise ValueError("size=None makes the longer side max_size, and max_size is None; give one of them.")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = wanted[0], int(wanted[0] * long / short)
        if max_size is not None and max_size <= new_short:
            raise ValueError(
                f"max_size = {max_size} must be greater than the shorter side that size = {size!r} asks for."
            )
        if max_size is not None and new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)
