"""Mirroring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.tv_tensors import BoundingBoxFormat
from flambeau.vision.tv_tensors._bounding_boxes import bounding_box_format

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def horizontal_flip(inpt: Tensor) -> Tensor:
    """Mirror left and right.

    Args:
        inpt: [..., W] of any dtype, a PIL image, or any of our tensor types.

    Returns:
        The same type and shape. x becomes W - x for edges of boxes, and W - 1 - x for key points, which are centres of
        pixels; angles of boxes change sign.
    """
    return horizontal_flip_image(inpt)


@functional(fallback=False)
def vertical_flip(inpt: Tensor) -> Tensor:
    """Mirror top and bottom; see `horizontal_flip`."""
    return vertical_flip_image(inpt)


@register_kernel(horizontal_flip, tv_tensors.Image)
def horizontal_flip_image(image: Tensor) -> Tensor:
    """`horizontal_flip` of a tensor [..., W]."""
    return mirrored(image, -1)


@register_kernel(horizontal_flip, tv_tensors.Mask)
def horizontal_flip_mask(mask: Tensor) -> Tensor:
    """`horizontal_flip` of a mask [..., H, W]."""
    return mirrored(mask, -1)


@register_kernel(horizontal_flip, tv_tensors.Video)
def horizontal_flip_video(video: Tensor) -> Tensor:
    """`horizontal_flip` of a video [..., T, C, H, W]."""
    return mirrored(video, -1)


@register_kernel(vertical_flip, tv_tensors.Image)
def vertical_flip_image(image: Tensor) -> Tensor:
    """`vertical_flip` of a tensor [..., H, W]."""
    return mirrored(image, -2)


@register_kernel(vertical_flip, tv_tensors.Mask)
def vertical_flip_mask(mask: Tensor) -> Tensor:
    """`vertical_flip` of a mask [..., H, W]."""
    return mirrored(mask, -2)


@register_kernel(vertical_flip, tv_tensors.Video)
def vertical_flip_video(video: Tensor) -> Tensor:
    """`vertical_flip` of a video [..., T, C, H, W]."""
    return mirrored(video, -2)


@register_partial(horizontal_flip, tv_tensors.BoundingBoxes)
def horizontal_flip_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat | str, canvas_size: tuple[int, int]
) -> Tensor:
    """`horizontal_flip` of boxes [N, K]."""
    return _mirrored_boxes(bounding_boxes, bounding_box_format(format), 0, canvas_size[1])


@register_partial(vertical_flip, tv_tensors.BoundingBoxes)
def vertical_flip_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat | str, canvas_size: tuple[int, int]
) -> Tensor:
    """`vertical_flip` of boxes [N, K]."""
    return _mirrored_boxes(bounding_boxes, bounding_box_format(format), 1, canvas_size[0])


def mirrored(image: Tensor, *dims: int) -> Tensor:
    """A tensor of any dtype in reverse order along dimensions."""
    if image.dtype == torch.uint16:  # which torch moves in this way only under another name
        return image.view(torch.int16).flip(*dims).view(torch.uint16)
    return image.flip(*dims)


def _mirrored_boxes(boxes: Tensor, format: BoundingBoxFormat, axis: int, size: int) -> Tensor:
    """Boxes mirrored along an axis (0 is x) of a canvas as long as `size`."""
    values = list(boxes.unbind(-1))
    if format == BoundingBoxFormat.XYXYXYXY:
        values[axis::2] = [size - value for value in values[axis::2]]
        # Clockwise again: each edge's ends change places.
        values = [values[2 * corner + k] for corner in (1, 0, 3, 2) for k in (0, 1)]
    elif format == BoundingBoxFormat.XYXY:
        values[axis], values[axis + 2] = size - values[axis + 2], size - values[axis]
    elif format == BoundingBoxFormat.XYWH:
        values[axis] = size - (values[axis] + values[axis + 2])
    else:
        if format == BoundingBoxFormat.XYWHR:  # what was the top right corner becomes the top left one
            radians = torch.deg2rad(values[4])
            values[:2] = values[0] + values[2] * radians.cos(), values[1] - values[2] * radians.sin()
        values[axis] = size - values[axis]
        values[4:] = [(180 if axis == 1 else 0) - angle for angle in values[4:]]
    return torch.stack(values, -1)


@register_partial(horizontal_flip, tv_tensors.KeyPoints)
def horizontal_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    """`horizontal_flip` of points [..., 2]."""
    return torch.stack([canvas_size[1] - 1 - keypoints[..., 0], keypoints[..., 1]], -1)


@register_partial(vertical_flip, tv_tensors.KeyPoints)
def vertical_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    """`vertical_flip` of points [..., 2]."""
    return torch.stack([keypoints[..., 0], canvas_size[0] - 1 - keypoints[..., 1]], -1)


@register_kernel(horizontal_flip, "PIL.Image:Image")
def _horizontal_flip_image_pil(image: Image.Image) -> Image.Image:
    from PIL import Image

    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


@register_kernel(vertical_flip, "PIL.Image:Image")
def _vertical_flip_image_pil(image: Image.Image) -> Image.Image:
    from PIL import Image

    return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


hflip = horizontal_flip
vflip = vertical_flip
