"""Tensors that know what part of a sample they are; transforms treat each kind in its own way.

They are tensor types of `flambeau.core.tensors`: they pickle, collate, compile, export and cross into DataLoader
workers as what they are. Operations give plain tensors, except `clone`, `to`, `detach`, `requires_grad_`,
`pin_memory`, `contiguous` and those in place; `set_return_type("TVTensor")` keeps the type in all.
"""

from __future__ import annotations

from flambeau.vision.tv_tensors._bounding_boxes import (
    BoundingBoxes,
    BoundingBoxFormat,
    is_rotated_bounding_format,
)
from flambeau.vision.tv_tensors._encoded_image import EncodedImage
from flambeau.vision.tv_tensors._image import Image
from flambeau.vision.tv_tensors._keypoints import KeyPoints
from flambeau.vision.tv_tensors._mask import Mask
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, set_return_type, wrap
from flambeau.vision.tv_tensors._video import Video

__all__ = [
    "BoundingBoxFormat",
    "BoundingBoxes",
    "EncodedImage",
    "Image",
    "KeyPoints",
    "Mask",
    "TVTensor",
    "Video",
    "is_rotated_bounding_format",
    "set_return_type",
    "wrap",
]
