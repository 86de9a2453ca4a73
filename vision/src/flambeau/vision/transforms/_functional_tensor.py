"""What `transforms.functional` does with tensors, under the names that code of others has imported from here.

The functions are kernels of `transforms.v2.functional`; those whose arguments differ are defined below.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.functional import get_image_num_channels, get_image_size
from flambeau.vision.transforms.v2.functional import adjust_brightness_image as adjust_brightness
from flambeau.vision.transforms.v2.functional import adjust_contrast_image as adjust_contrast
from flambeau.vision.transforms.v2.functional import adjust_gamma_image as adjust_gamma
from flambeau.vision.transforms.v2.functional import adjust_hue_image as adjust_hue
from flambeau.vision.transforms.v2.functional import adjust_saturation_image as adjust_saturation
from flambeau.vision.transforms.v2.functional import adjust_sharpness_image as adjust_sharpness
from flambeau.vision.transforms.v2.functional import autocontrast_image as autocontrast
from flambeau.vision.transforms.v2.functional import convert_image_dtype
from flambeau.vision.transforms.v2.functional import crop_image as crop
from flambeau.vision.transforms.v2.functional import elastic_image as _elastic
from flambeau.vision.transforms.v2.functional import equalize_image as equalize
from flambeau.vision.transforms.v2.functional import erase_image as erase
from flambeau.vision.transforms.v2.functional import gaussian_blur_image as gaussian_blur
from flambeau.vision.transforms.v2.functional import get_dimensions_image as get_dimensions
from flambeau.vision.transforms.v2.functional import horizontal_flip_image as hflip
from flambeau.vision.transforms.v2.functional import invert_image as invert
from flambeau.vision.transforms.v2.functional import normalize_image as normalize
from flambeau.vision.transforms.v2.functional import pad_image as pad
from flambeau.vision.transforms.v2.functional import perspective_image as _perspective
from flambeau.vision.transforms.v2.functional import posterize_image as posterize
from flambeau.vision.transforms.v2.functional import resize_image as _resize
from flambeau.vision.transforms.v2.functional import rgb_to_grayscale_image as rgb_to_grayscale
from flambeau.vision.transforms.v2.functional import solarize_image as solarize
from flambeau.vision.transforms.v2.functional import vertical_flip_image as vflip
from flambeau.vision.transforms.v2.functional._affine_matrix import Matrix, extent
from flambeau.vision.transforms.v2.functional._sampling import Fill, affine_grid, sample

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "convert_image_dtype",
    "crop",
    "elastic_transform",
    "equalize",
    "erase",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "posterize",
    "resize",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "vflip",
]


def resize(
    img: Tensor, size: Sequence[int] | int, interpolation: str = "bilinear", antialias: bool | None = True
) -> Tensor:
    """`resize` of a tensor [..., C, H, W]."""
    return _resize(img, size, interpolation, None, antialias)


def affine(img: Tensor, matrix: Sequence[float], interpolation: str = "nearest", fill: Fill = None) -> Tensor:
    """An affine map of a tensor [..., C, H, W].

    Args:
        img: any dtype.
        matrix: (a, b, c, d, e, f) by which a pixel (x, y), counted from the middle, comes from
            (a x + b y + c, d x + e y + f).
        interpolation: "nearest" or "bilinear".
        fill: value outside of the picture.
    """
    return sample(img, affine_grid(_six(matrix), img, (img.shape[-2], img.shape[-1])), interpolation, fill)


def rotate(
    img: Tensor,
    matrix: Sequence[float],
    interpolation: str = "nearest",
    expand: bool = False,
    fill: Fill = None,
) -> Tensor:
    """`affine`, whose canvas may be enlarged until everything is on it."""
    size = (img.shape[-2], img.shape[-1])
    new_size = extent(_six(matrix), *size) if expand else size
    return sample(img, affine_grid(_six(matrix), img, new_size), interpolation, fill)


def perspective(
    img: Tensor, perspective_coeffs: Sequence[float], interpolation: str = "bilinear", fill: Fill = None
) -> Tensor:
    """`perspective` of a tensor [..., C, H, W] by its eight coefficients."""
    return _perspective(img, None, None, interpolation, fill, perspective_coeffs)


def elastic_transform(
    img: Tensor,
    displacement: Tensor,
    interpolation: InterpolationMode | str = "bilinear",
    fill: Fill = None,
) -> Tensor:
    """`elastic` of a tensor [..., C, H, W]."""
    return _elastic(img, displacement, interpolation, fill)


def _six(matrix: Sequence[float]) -> Matrix:
    a, b, c, d, e, f = matrix
    return a, b, c, d, e, f
