"""What `transforms.functional` does with PIL images, under the names that code of others has imported from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode, pillow_number
from flambeau.vision.transforms.functional import get_image_num_channels, get_image_size
from flambeau.vision.transforms.v2 import functional as v2
from flambeau.vision.transforms.v2.functional import get_dimensions, to_grayscale
from flambeau.vision.transforms.v2.functional._affine import _rotate_image_pil as _rotate
from flambeau.vision.transforms.v2.functional._blur import _adjust_sharpness_image_pil as adjust_sharpness
from flambeau.vision.transforms.v2.functional._color import _adjust_brightness_image_pil as adjust_brightness
from flambeau.vision.transforms.v2.functional._color import _adjust_contrast_image_pil as adjust_contrast
from flambeau.vision.transforms.v2.functional._color import _adjust_gamma_image_pil as adjust_gamma
from flambeau.vision.transforms.v2.functional._color import _adjust_hue_image_pil as adjust_hue
from flambeau.vision.transforms.v2.functional._color import _adjust_saturation_image_pil as adjust_saturation
from flambeau.vision.transforms.v2.functional._crop import _crop_image_pil as crop
from flambeau.vision.transforms.v2.functional._flip import _horizontal_flip_image_pil as hflip
from flambeau.vision.transforms.v2.functional._flip import _vertical_flip_image_pil as vflip
from flambeau.vision.transforms.v2.functional._intensity import _autocontrast_image_pil as autocontrast
from flambeau.vision.transforms.v2.functional._intensity import _equalize_image_pil as equalize
from flambeau.vision.transforms.v2.functional._intensity import _invert_image_pil as invert
from flambeau.vision.transforms.v2.functional._intensity import _posterize_image_pil as posterize
from flambeau.vision.transforms.v2.functional._intensity import _solarize_image_pil as solarize
from flambeau.vision.transforms.v2.functional._pad import _pad_image_pil
from flambeau.vision.transforms.v2.functional._perspective import _perspective_image_pil
from flambeau.vision.transforms.v2.functional._pil import fill_color
from flambeau.vision.transforms.v2.functional._pil import is_pil as _is_pil_image

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "_is_pil_image",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "crop",
    "equalize",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "pad",
    "perspective",
    "posterize",
    "resize",
    "rotate",
    "solarize",
    "to_grayscale",
    "vflip",
]


def resize(img: Image.Image, size: Sequence[int] | int, interpolation: int = 2) -> Image.Image:
    """`resize` of a PIL image; the interpolation as Pillow's number."""
    resized: Any = v2.resize(img, size, interpolation)  # type: ignore[arg-type]
    return resized  # type: ignore[no-any-return]


def pad(
    img: Image.Image,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = 0,
    padding_mode: str = "constant",
) -> Image.Image:
    """`pad` of a PIL image."""
    return _pad_image_pil(img, padding, fill, padding_mode)


def affine(
    img: Image.Image,
    matrix: Sequence[float],
    interpolation: InterpolationMode | int = 0,
    fill: float | Sequence[float] | None = None,
) -> Image.Image:
    """An affine map of a PIL image: a pixel (x, y) comes from (a x + b y + c, d x + e y + f)."""
    from PIL import Image

    resample = pillow_number(interpolation_mode(interpolation))
    color = fill_color(img, fill)
    return img.transform(img.size, Image.Transform.AFFINE, list(matrix), resample, fillcolor=color)


def rotate(
    img: Image.Image,
    angle: float,
    interpolation: InterpolationMode | int = 0,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: float | Sequence[float] | None = None,
) -> Image.Image:
    """`rotate` of a PIL image."""
    return _rotate(img, angle, interpolation, expand, center, fill)


def perspective(
    img: Image.Image,
    perspective_coeffs: Sequence[float],
    interpolation: InterpolationMode | int = 3,
    fill: float | Sequence[float] | None = None,
) -> Image.Image:
    """`perspective` of a PIL image by its eight coefficients."""
    return _perspective_image_pil(img, None, None, interpolation, fill, perspective_coeffs)
