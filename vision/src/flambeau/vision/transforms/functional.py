"""The functions of the first generation of transforms, on tensors and PIL images.

They run the kernels of `transforms.v2.functional`, whose documentation says what they do; what differs is stated where
it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms._interpolation import InterpolationMode, pillow_number
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
    "accimage",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "elastic_transform",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "pil_modes_mapping",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]

# Upstream: a faster image library where it is installed, which nobody maintains; there is none here.
accimage = None
# Pillow's number of each interpolation.
pil_modes_mapping = {mode: pillow_number(mode) for mode in InterpolationMode}

Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def to_tensor(pic: Image.Image | NDArray[Any]) -> Tensor:
    """Copy a PIL image or an array [H, W, C] or [H, W] into a tensor, uint8 scaled to [0, 1].

    Returns:
        [C, H, W], contiguous. uint8 and bool become the default floating-point dtype in [0, 1]; other dtypes keep dtype
        and values.

    Raises:
        TypeError: `pic` is neither.
        ValueError: an array with another number of dimensions.
    """
    import numpy as np

    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"to_tensor: pic has {pic.ndim} dimensions, expected [H, W] or [H, W, C].")
        array = pic if pic.ndim == 3 else pic[..., None]
        image = torch.from_numpy(array.transpose(2, 0, 1)).contiguous()
    elif is_pil(pic):
        image = pil_to_tensor(pic).contiguous()
    else:
        raise TypeError(f"to_tensor: pic is a {type(pic).__name__}, expected a PIL image or an array.")
    default = torch.get_default_dtype()
    if image.dtype == torch.bool:
        return image.to(default)
    return image.to(default).div_(255) if image.dtype == torch.uint8 else image


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
    """Turn RGB into gray; see `transforms.v2.functional.rgb_to_grayscale`. Videos too, which v2 leaves in colours."""
    if isinstance(img, tv_tensors.Video):
        gray = v2.rgb_to_grayscale(img.as_subclass(Tensor), num_output_channels=num_output_channels)
        return tv_tensors.wrap(gray, like=img)
    return v2.rgb_to_grayscale(img, num_output_channels=num_output_channels)


def to_grayscale(img: Image.Image, num_output_channels: int = 1) -> Image.Image:
    """Turn a PIL image into gray, with 1 or 3 channels. Tensors: `rgb_to_grayscale`.

    Raises:
        TypeError: `img` is no PIL image.
    """
    if not is_pil(img):
        raise TypeError(f"img is a {type(img).__name__}, expected a PIL image; use rgb_to_grayscale for tensors.")
    return rgb_to_grayscale(img, num_output_channels=num_output_channels)  # type: ignore[arg-type, return-value]


def hflip(img: Tensor) -> Tensor:
    """Mirror left and right; see `transforms.v2.functional.horizontal_flip`."""
    return v2.horizontal_flip(img)


def vflip(img: Tensor) -> Tensor:
    """Mirror top and bottom; see `transforms.v2.functional.vertical_flip`."""
    return v2.vertical_flip(img)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Cut out a rectangle; see `transforms.v2.functional.crop`."""
    return v2.crop(img, top, left, height, width)


def resized_crop(
    img: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int] | int,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    """Cut out a rectangle and resize it; see `transforms.v2.functional.resized_crop`."""
    return v2.resized_crop(img, top, left, height, width, size, interpolation, antialias)  # type: ignore[arg-type]


def five_crop(img: Tensor, size: Sequence[int] | int) -> Five:
    """Cut out the corners and the middle; see `transforms.v2.functional.five_crop`."""
    return v2.five_crop(img, size)


def ten_crop(img: Tensor, size: Sequence[int] | int, vertical_flip: bool = False) -> tuple[Tensor, ...]:
    """`five_crop` of an image and of its mirror image; see `transforms.v2.functional.ten_crop`."""
    return v2.ten_crop(img, size, vertical_flip)


def pad(
    img: Tensor,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] = 0,
    padding_mode: str = "constant",
) -> Tensor:
    """Add pixels around an image; see `transforms.v2.functional.pad`."""
    return v2.pad(img, padding, fill, padding_mode)


def affine(
    img: Tensor,
    angle: float,
    translate: Sequence[int],
    scale: float,
    shear: Sequence[float] | float,
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    fill: Sequence[float] | float | None = None,
    center: Sequence[int] | None = None,
) -> Tensor:
    """Shear, scale, rotate and move an image; see `transforms.v2.functional.affine`."""
    return v2.affine(img, angle, translate, scale, shear, interpolation, fill, center)


def rotate(
    img: Tensor,
    angle: float,
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[int] | None = None,
    fill: Sequence[float] | float | None = None,
) -> Tensor:
    """Rotate an image counter-clockwise; see `transforms.v2.functional.rotate`."""
    return v2.rotate(img, angle, interpolation, expand, center, fill)


def perspective(
    img: Tensor,
    startpoints: Sequence[Sequence[int]],
    endpoints: Sequence[Sequence[int]],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    fill: Sequence[float] | float | None = None,
) -> Tensor:
    """Move four points of an image to four others; see `transforms.v2.functional.perspective`."""
    return v2.perspective(img, startpoints, endpoints, interpolation, fill)


def elastic_transform(
    img: Tensor,
    displacement: Tensor,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    fill: Sequence[float] | float | None = None,
) -> Tensor:
    """Deform an image; see `transforms.v2.functional.elastic`."""
    return v2.elastic(img, displacement, interpolation, fill)


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    """Blend with black; see `transforms.v2.functional.adjust_brightness`."""
    return v2.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    """Blend with the mean gray; see `transforms.v2.functional.adjust_contrast`."""
    return v2.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    """Blend with the grayscale image; see `transforms.v2.functional.adjust_saturation`."""
    return v2.adjust_saturation(img, saturation_factor)


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    """Turn the circle of colours; see `transforms.v2.functional.adjust_hue`."""
    return v2.adjust_hue(img, hue_factor)


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """Bend the curve of values; see `transforms.v2.functional.adjust_gamma`."""
    return v2.adjust_gamma(img, gamma, gain)


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    """Blend with the smoothed image; see `transforms.v2.functional.adjust_sharpness`."""
    return v2.adjust_sharpness(img, sharpness_factor)


def gaussian_blur(
    img: Tensor, kernel_size: Sequence[int] | int, sigma: Sequence[float] | float | None = None
) -> Tensor:
    """Blur with a Gaussian; see `transforms.v2.functional.gaussian_blur`."""
    return v2.gaussian_blur(img, kernel_size, sigma)


def invert(img: Tensor) -> Tensor:
    """The negative; see `transforms.v2.functional.invert`."""
    return v2.invert(img)


def posterize(img: Tensor, bits: int) -> Tensor:
    """Keep the highest bits; see `transforms.v2.functional.posterize`."""
    return v2.posterize(img, bits)


def solarize(img: Tensor, threshold: float) -> Tensor:
    """Invert high values; see `transforms.v2.functional.solarize`."""
    return v2.solarize(img, threshold)


def autocontrast(img: Tensor) -> Tensor:
    """Stretch values to the full range; see `transforms.v2.functional.autocontrast`."""
    return v2.autocontrast(img)


def equalize(img: Tensor) -> Tensor:
    """Flatten the histogram; see `transforms.v2.functional.equalize`."""
    return v2.equalize(img)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """Set a rectangle to given values; see `transforms.v2.functional.erase`.

    Raises:
        TypeError: `img` is no tensor.
    """
    if not isinstance(img, Tensor):
        raise TypeError(f"erase: img is a {type(img).__name__}, expected a tensor; convert with pil_to_tensor.")
    return v2.erase(img, i, j, h, w, v, inplace)


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
