"""The functions of the first generation of transforms, on tensors and PIL images.

They run the kernels of `transforms.v2.functional`; what differs is stated where it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2 import functional as v2
from flambeau.vision.transforms.v2.functional import (
    convert_image_dtype,
    pil_to_tensor,
    to_pil_image,
)
from flambeau.vision.transforms.v2.functional._pil import is_pil

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

__all__ = [
    "InterpolationMode",
    "center_crop",
    "convert_image_dtype",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "normalize",
    "pil_to_tensor",
    "resize",
    "rgb_to_grayscale",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
]


def to_tensor(pic: Image.Image | NDArray[Any]) -> Tensor:
    """Copy a PIL image or an array [H, W, C] or [H, W] into a tensor, uint8 scaled to [0, 1].

    Returns:
        [C, H, W]. uint8 and bool become the default floating-point dtype in [0, 1]; other dtypes keep dtype and
        values.

    Raises:
        TypeError: `pic` is neither.
        ValueError: an array with another number of dimensions.
    """
    import numpy as np

    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic if pic.ndim == 3 else pic[..., None]
        image = torch.from_numpy(array.transpose(2, 0, 1)).contiguous()
    elif is_pil(pic):
        image = pil_to_tensor(pic)
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    default = torch.get_default_dtype()
    if image.dtype == torch.bool:
        return image.to(default)
    return image.to(default).div(255) if image.dtype == torch.uint8 else image


def resize(
    img: Tensor,
    size: Sequence[int] | int,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """Resize an image; see `transforms.v2.functional.resize`."""
    return v2.resize(img, size=size, interpolation=interpolation, max_size=max_size, antialias=antialias)


def center_crop(img: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """Cut out the middle of an image; see `transforms.v2.functional.center_crop`."""
    return v2.center_crop(img, output_size=output_size)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """Subtract `mean` and divide by `std`, channel by channel; see `transforms.v2.functional.normalize`."""
    return v2.normalize(tensor, mean=mean, std=std, inplace=inplace)


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """Turn RGB into gray; see `transforms.v2.functional.rgb_to_grayscale`."""
    return v2.rgb_to_grayscale(img, num_output_channels=num_output_channels)


def to_grayscale(img: Image.Image, num_output_channels: int = 1) -> Image.Image:
    """Turn a PIL image into gray, with 1 or 3 channels. Tensors: `rgb_to_grayscale`.

    Raises:
        TypeError: `img` is no PIL image.
    """
    if not is_pil(img):
        raise TypeError(f"Input should be PIL Image. Got {type(img)}; use rgb_to_grayscale for tensors.")
    return rgb_to_grayscale(img, num_output_channels=num_output_channels)  # type: ignore[arg-type, return-value]


def get_dimensions(img: Tensor) -> list[int]:
    """[channels, height, width] of an image; see `transforms.v2.functional.get_dimensions`."""
    return v2.get_dimensions(img)


def get_image_size(img: Tensor) -> list[int]:
    """[width, height] of an image, in this order; `get_dimensions` has (channels, height, width)."""
    _, height, width = get_dimensions(img)
    return [width, height]


def get_image_num_channels(img: Tensor) -> int:
    """Channels of an image."""
    return v2.get_num_channels(img)
