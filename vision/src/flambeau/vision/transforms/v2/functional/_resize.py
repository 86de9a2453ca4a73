"""Resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops import _resize as kernels
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode, pillow_number
from flambeau.vision.transforms.v2.functional import _boxes, _formats
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.tv_tensors import BoundingBoxFormat, is_rotated_bounding_format

if TYPE_CHECKING:
    from PIL import Image

_ANTIALIASED = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
_OF_LEVELS = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)  # those with a kernel for uint8
_MOST_BY_TORCH = 32  # times that torch shrinks pictures with a filter on any accelerator
_TENSOR_MODES = (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT, *_ANTIALIASED)


@functional(fallback=False)
def resize(
    inpt: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """Resize an image, and what belongs to it.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types. Masks take the nearest value
            whatever the interpolation; boxes and key points are scaled.
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
    resized = _interpolate(flat, (new_height, new_width), mode, smooth)
    if flat.shape[0] == 1 and image.shape[-3] > 1 and image.stride(-3) == 1:
        # Channels that were neighbours stay so; torch sees no order in a batch of one.
        resized = resized.contiguous(memory_format=torch.channels_last)
    return resized.reshape(*leading, new_height, new_width)


def _interpolate(flat: Tensor, size: tuple[int, int], mode: InterpolationMode, antialias: bool) -> Tensor:
    dtype = flat.dtype
    cubic, on_cpu = mode is InterpolationMode.BICUBIC, flat.device.type == "cpu"
    if dtype == torch.uint8 and mode in _OF_LEVELS and on_cpu and kernels.is_native():
        return kernels.resize(flat, size, cubic=cubic, antialias=antialias)
    native = (torch.uint8, torch.float32, torch.float64)
    work = flat if dtype in native and (dtype != torch.uint8 or on_cpu) else flat.float()
    corners = None if mode in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT) else False
    much = flat.shape[-2] > _MOST_BY_TORCH * size[0] or flat.shape[-1] > _MOST_BY_TORCH * size[1]
    if antialias and mode in _OF_LEVELS and not on_cpu and much and min(size) > 0:
        out = kernels.resize_by_products(work, size, cubic=cubic)
    else:
        out = interpolate(work, size=size, mode=mode.value, align_corners=corners, antialias=antialias)
    if out.dtype == dtype:
        return out
    # Upstream: of bool values everything that is not 0 is True.
    if not dtype.is_floating_point and dtype != torch.bool:
        limits = torch.iinfo(dtype)
        out = out.round_().clamp_(limits.min, limits.max)
    return out.to(dtype)


@register_kernel(resize, tv_tensors.Video)
def resize_video(
    video: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """`resize` of a video [..., T, C, H, W]."""
    return resize_image(video, size, interpolation, max_size, antialias)


@register_partial(resize, tv_tensors.Mask)
def resize_mask(
    mask: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
) -> Tensor:
    """`resize` of a mask [..., H, W], by the nearest value: "nearest-exact" if asked for, else "nearest"."""
    exact = interpolation_mode(interpolation) is InterpolationMode.NEAREST_EXACT
    mode = InterpolationMode.NEAREST_EXACT if exact else InterpolationMode.NEAREST
    if mask.ndim > 2:
        return resize_image(mask, size, mode, max_size, None)
    resized = resize_image(mask[None], size, mode, max_size, None)[0]
    return mask if resized.shape == mask.shape else resized


@register_partial(resize, tv_tensors.BoundingBoxes, canvas=True)
def resize_bounding_boxes(
    bounding_boxes: Tensor,
    canvas_size: tuple[int, int],
    size: Sequence[int] | int | None,
    max_size: int | None = None,
    format: BoundingBoxFormat | str = BoundingBoxFormat.XYXY,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`resize` of boxes [N, K]: the scaled boxes and the new canvas size. Boxes with an angle stay rectangles."""
    new_size = resized_size(canvas_size, size, max_size)
    if new_size == tuple(canvas_size):
        return bounding_boxes, new_size
    if not is_rotated_bounding_format(format):
        # In each of the formats every number is a length along x or y. Upstream: nothing is cut at the edges.
        ratios = _ratios(bounding_boxes, canvas_size, new_size, times=2)
        return (bounding_boxes * ratios).to(bounding_boxes.dtype), new_size
    corners = _formats.corners_of(bounding_boxes, format)
    corners = _formats.around_points(_scaled(_formats.points_of(corners), canvas_size, new_size), format)
    corners = _boxes.clamped_corners(corners, new_size, clamping_mode)
    # Upstream: integers are truncated.
    return _formats.from_corners(corners.to(bounding_boxes.dtype), format), new_size


@register_partial(resize, tv_tensors.KeyPoints, canvas=True)
def resize_keypoints(
    keypoints: Tensor,
    size: Sequence[int] | int | None,
    canvas_size: tuple[int, int],
    max_size: int | None = None,
) -> tuple[Tensor, tuple[int, int]]:
    """`resize` of points [..., 2]: the scaled points and the new canvas size."""
    new_size = resized_size(canvas_size, size, max_size)
    if new_size == tuple(canvas_size):
        return keypoints, new_size
    return _scaled(keypoints, canvas_size, new_size).to(keypoints.dtype), new_size


def _ratios(like: Tensor, old: tuple[int, int], new: tuple[int, int], times: int = 1) -> Tensor:
    """How much longer x and y become, in turn."""
    dtype = like.dtype if like.dtype.is_floating_point else torch.float32
    return torch.tensor((new[1] / old[1], new[0] / old[0]) * times, dtype=dtype, device=like.device)


def _scaled(points: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    return points * _ratios(points, old, new)


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
