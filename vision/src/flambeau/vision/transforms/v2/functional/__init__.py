"""What the transforms do, as functions: on tensors, `tv_tensors` and PIL images."""

from __future__ import annotations

from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2.functional._convert import pil_to_tensor, to_image, to_pil_image
from flambeau.vision.transforms.v2.functional._crop import center_crop, center_crop_image
from flambeau.vision.transforms.v2.functional._dtype import convert_image_dtype, to_dtype, to_dtype_image
from flambeau.vision.transforms.v2.functional._grayscale import (
    rgb_to_grayscale,
    rgb_to_grayscale_image,
    to_grayscale,
)
from flambeau.vision.transforms.v2.functional._normalize import normalize, normalize_image
from flambeau.vision.transforms.v2.functional._resize import resize, resize_image
from flambeau.vision.transforms.v2.functional._size import (
    get_dimensions,
    get_dimensions_image,
    get_num_channels,
    get_num_channels_image,
    get_size,
    get_size_image,
)

__all__ = [
    "InterpolationMode",
    "center_crop",
    "center_crop_image",
    "convert_image_dtype",
    "get_dimensions",
    "get_dimensions_image",
    "get_num_channels",
    "get_num_channels_image",
    "get_size",
    "get_size_image",
    "normalize",
    "normalize_image",
    "pil_to_tensor",
    "resize",
    "resize_image",
    "rgb_to_grayscale",
    "rgb_to_grayscale_image",
    "to_dtype",
    "to_dtype_image",
    "to_grayscale",
    "to_image",
    "to_pil_image",
]
