"""Cropping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import pad

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def center_crop(inpt: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """Cut out the middle of an image, adding zeros around it where it is smaller than asked for.

    Args:
        inpt: [..., H, W] of any dtype, or a PIL image.
        output_size: (height, width), or one number for a square.

    Returns:
        [..., height, width], same dtype; a view of the input where nothing had to be added.

    Raises:
        ValueError: `output_size` has neither one nor two numbers.
    """
    return center_crop_image(inpt, output_size)


@register_kernel(center_crop, tv_tensors.Image)
def center_crop_image(image: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """`center_crop` of a tensor [..., H, W]."""
    height, width = _pair(output_size)
    left, top, right, bottom = _missing(image.shape[-2], image.shape[-1], height, width)
    if left or top or right or bottom:
        image = pad(image, [left, right, top, bottom])
    top, left = _offsets(image.shape[-2], image.shape[-1], height, width)
    return image[..., top : top + height, left : left + width]


@register_kernel(center_crop, "PIL.Image:Image")
def _center_crop_image_pil(image: Image.Image, output_size: Sequence[int] | int) -> Image.Image:
    height, width = _pair(output_size)
    left, top, right, bottom = _missing(image.height, image.width, height, width)
    top_in_padded, left_in_padded = _offsets(image.height + top + bottom, image.width + left + right, height, width)
    x, y = left_in_padded - left, top_in_padded - top
    return image.crop((x, y, x + width, y + height))  # Pillow fills what lies outside with zeros


def _pair(output_size: Sequence[int] | int) -> tuple[int, int]:
    if isinstance(output_size, int):
        return output_size, output_size
    if len(output_size) not in (1, 2):
        raise ValueError(f"output_size is {output_size!r}, expected one number or two (height, width).")
    return int(output_size[0]), int(output_size[-1])


def _missing(height: int, width: int, wanted_height: int, wanted_width: int) -> tuple[int, int, int, int]:
    """What has to be added left, top, right and bottom, the odd pixel at the right and bottom."""
    dy, dx = max(wanted_height - height, 0), max(wanted_width - width, 0)
    return dx // 2, dy // 2, (dx + 1) // 2, (dy + 1) // 2


def _offsets(height: int, width: int, wanted_height: int, wanted_width: int) -> tuple[int, int]:
    # Upstream: Python's rounding of halves to the even number.
    return round((height - wanted_height) / 2.0), round((width - wanted_width) / 2.0)
