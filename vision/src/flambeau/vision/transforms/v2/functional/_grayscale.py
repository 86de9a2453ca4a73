"""Between colour and gray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops._color import recolored, serves
from flambeau.vision.transforms.v2.functional._value_range import channels_of, widened

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def rgb_to_grayscale(inpt: Tensor, num_output_channels: int = 1) -> Tensor:
    """Turn RGB into gray: 0.2989 R + 0.587 G + 0.114 B (ITU-R BT.601).

    Args:
        inpt: [..., 3, H, W] or [..., 1, H, W] (already gray), or a PIL image.
        num_output_channels: 1, or 3 for three equal channels.

    Returns:
        [..., num_output_channels, H, W], same dtype; integers are truncated. PIL images use Pillow's integer formula,
        which rounds, so results differ by at most one level.

    Raises:
        ValueError: another number of output or input channels.
    """
    return rgb_to_grayscale_image(inpt, num_output_channels)


def to_grayscale(inpt: Tensor, num_output_channels: int = 1) -> Tensor:
    """`rgb_to_grayscale` under the name that v1 has for PIL images."""
    return rgb_to_grayscale(inpt, num_output_channels=num_output_channels)


@register_kernel(rgb_to_grayscale, tv_tensors.Image)
def rgb_to_grayscale_image(image: Tensor, num_output_channels: int = 1) -> Tensor:
    """`rgb_to_grayscale` of a tensor [..., C, H, W]."""
    _check(num_output_channels)
    channels = image.shape[-3] if image.ndim >= 3 else 0
    if channels not in (1, 3):
        raise ValueError(f"Expected an image [..., 1 or 3, H, W]. Got {list(image.shape)}.")
    if channels == 3 and serves(image):
        return recolored("gray", image, num_output_channels)
    return grayed(image, num_output_channels)


def grayed(image: Tensor, num_output_channels: float) -> Tensor:
    """The formula."""
    if image.shape[-3] == 3:
        gray = luma(image if image.dtype == torch.uint8 else widened(image)).to(image.dtype)
    else:
        gray = image if num_output_channels == 3 else image.clone()
    return gray.expand(*gray.shape[:-3], 3, *gray.shape[-2:]).contiguous() if num_output_channels == 3 else gray


@register_kernel(rgb_to_grayscale, "PIL.Image:Image")
def _rgb_to_grayscale_image_pil(image: Image.Image, num_output_channels: int = 1) -> Image.Image:
    _check(num_output_channels)
    gray = image.convert("L")
    return gray if num_output_channels == 1 else gray.convert("RGB")


def _check(num_output_channels: int) -> None:
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels is {num_output_channels}; a gray image has 1, or 3 that are alike.")


def luma(image: Tensor) -> Tensor:
    """0.2989 R + 0.587 G + 0.114 B of [..., 3, H, W], as floating point [..., 1, H, W]."""
    red, green, blue = image.unbind(dim=-3)
    return (red * 0.2989 + green * 0.587 + blue * 0.114).unsqueeze(-3)


@functional(fallback=False)
def grayscale_to_rgb(inpt: Tensor) -> Tensor:
    """Turn gray into RGB, three equal channels.

    Args:
        inpt: [..., 1, H, W] of any dtype, or a PIL image. Three channels stay as they are.

    Raises:
        TypeError: another number of channels.
    """
    return grayscale_to_rgb_image(inpt)


@register_kernel(grayscale_to_rgb, tv_tensors.Image)
def grayscale_to_rgb_image(image: Tensor) -> Tensor:
    """`grayscale_to_rgb` of a tensor [..., C, H, W]."""
    if channels_of("grayscale_to_rgb", image) == 3:
        return image
    return image.expand(*image.shape[:-3], 3, *image.shape[-2:]).contiguous()


@register_kernel(grayscale_to_rgb, "PIL.Image:Image")
def _grayscale_to_rgb_image_pil(image: Image.Image) -> Image.Image:
    return image.convert("RGB")
