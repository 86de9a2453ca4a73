"""What an image's dimensions are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def get_dimensions(inpt: Tensor) -> list[int]:
    """[channels, height, width] of an image: [..., C, H, W], [H, W] (one channel), or a PIL image.

    Raises:
        TypeError: a tensor with fewer than two dimensions.
    """
    return get_dimensions_image(inpt)


@functional(fallback=False)
def get_size(inpt: Tensor) -> list[int]:
    """[height, width] of an image; see `get_dimensions`."""
    return get_size_image(inpt)


@functional(fallback=False)
def get_num_channels(inpt: Tensor) -> int:
    """Channels of an image; see `get_dimensions`."""
    return get_num_channels_image(inpt)


@register_kernel(get_dimensions, tv_tensors.Image, wrap=False)
def get_dimensions_image(image: Tensor) -> list[int]:
    """`get_dimensions` of a tensor."""
    if image.ndim < 2:
        raise TypeError(f"An image has at least two dimensions, (..., H, W). Got {list(image.shape)}.")
    return [1 if image.ndim == 2 else image.shape[-3], *image.shape[-2:]]


@register_kernel(get_dimensions, "PIL.Image:Image")
def _get_dimensions_image_pil(image: Image.Image) -> list[int]:
    return [len(image.getbands()), image.height, image.width]


@register_kernel(get_size, tv_tensors.Image, wrap=False)
def get_size_image(image: Tensor) -> list[int]:
    """`get_size` of a tensor."""
    return get_dimensions_image(image)[1:]


@register_kernel(get_size, "PIL.Image:Image")
def _get_size_image_pil(image: Image.Image) -> list[int]:
    return [image.height, image.width]


@register_kernel(get_num_channels, tv_tensors.Image, wrap=False)
def get_num_channels_image(image: Tensor) -> int:
    """`get_num_channels` of a tensor."""
    return get_dimensions_image(image)[0]


@register_kernel(get_num_channels, "PIL.Image:Image")
def _get_num_channels_image_pil(image: Image.Image) -> int:
    return len(image.getbands())
