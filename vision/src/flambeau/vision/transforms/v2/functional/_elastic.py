"""Elastic deformation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2.functional import _boxes, _formats
from flambeau.vision.transforms.v2.functional._affine import boxes_around
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.transforms.v2.functional._sampling import Fill, on_mask, sample, sampling_dtype
from flambeau.vision.tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from flambeau.vision.tv_tensors._bounding_boxes import bounding_box_format

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def elastic(
    inpt: Tensor,
    displacement: Tensor,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
) -> Tensor:
    """Deform an image by taking each pixel from a place of its own.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types.
        displacement: [1, H, W, 2], floating point: how far right and down a pixel's source lies, in units of half the
            width and half the height.
        interpolation: NEAREST or BILINEAR. Masks always take NEAREST.
        fill: value outside of the picture, one for all channels or one for each; None is 0.

    Returns:
        Same shape and dtype. Boxes and key points are moved the opposite way; this is exact as long as the
        displacement changes slowly. Boxes with an angle are moved as a whole.

    Raises:
        TypeError: `displacement` is no tensor.
        ValueError: its shape does not fit.
    """
    return elastic_image(inpt, displacement, interpolation, fill)


elastic_transform = elastic


@register_kernel(elastic, tv_tensors.Image)
def elastic_image(
    image: Tensor,
    displacement: Tensor,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
) -> Tensor:
    """`elastic` of a tensor [..., C, H, W]."""
    size = (image.shape[-2], image.shape[-1])
    shift = _checked(displacement, size).to(image.device, sampling_dtype(image))
    return sample(image, _places(size, shift).add_(shift), interpolation, fill)


@register_kernel(elastic, tv_tensors.Video)
def elastic_video(
    video: Tensor,
    displacement: Tensor,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
) -> Tensor:
    """`elastic` of a video [..., T, C, H, W]."""
    return elastic_image(video, displacement, interpolation, fill)


@register_partial(elastic, tv_tensors.Mask)
def elastic_mask(mask: Tensor, displacement: Tensor, fill: Fill = None) -> Tensor:
    """`elastic` of a mask [..., H, W], by the nearest value."""
    return elastic_image(on_mask(mask), displacement, InterpolationMode.NEAREST, fill).reshape(mask.shape)


@register_partial(elastic, tv_tensors.BoundingBoxes)
def elastic_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    displacement: Tensor,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """`elastic` of boxes [N, K]."""
    format = bounding_box_format(format)
    if is_rotated_bounding_format(format):
        return _moved_centers(bounding_boxes, format, canvas_size, displacement, clamping_mode)
    points = _formats.points_of(_formats.corners_of(bounding_boxes, format))
    # Edges belong to the pixel after them.
    moved = _moved(_formats.in_fractions(points).ceil(), canvas_size, displacement)
    # Upstream: integers are truncated before they are written in their own format.
    corners = boxes_around(moved, bounding_boxes.dtype, BoundingBoxFormat.XYXY, canvas_size, clamping_mode)
    return _formats.from_corners(corners, format)


def _moved_centers(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    displacement: Tensor,
    clamping_mode: str | None,
) -> Tensor:
    """Boxes with an angle keep it, and their size, which a deformation would not leave rectangles."""
    by_center = _formats.converted(boxes, format, BoundingBoxFormat.CXCYWHR)
    center = _moved(by_center[..., :2].ceil(), canvas_size, displacement)
    by_center = torch.cat([center, by_center[..., 2:]], -1)
    moved = _formats.converted(by_center, BoundingBoxFormat.CXCYWHR, format)
    return _boxes.clamped(moved, format, canvas_size, clamping_mode)


@register_partial(elastic, tv_tensors.KeyPoints)
def elastic_keypoints(keypoints: Tensor, canvas_size: tuple[int, int], displacement: Tensor) -> Tensor:
    """`elastic` of points [..., 2]."""
    moved = _moved(_formats.in_fractions(keypoints), canvas_size, displacement)
    return moved.to(keypoints.dtype)  # upstream: integers are truncated


@register_kernel(elastic, "PIL.Image:Image")
def _elastic_image_pil(
    image: Image.Image,
    displacement: Tensor,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
) -> Image.Image:
    from flambeau.vision.transforms.v2.functional._pil import same_mode

    return same_mode(image, lambda tensor: elastic_image(tensor, displacement, interpolation, fill))


def _moved(points: Tensor, canvas_size: tuple[int, int], displacement: Tensor) -> Tensor:
    """Points [..., 2] moved to where the pixel they lie in goes, which is about as far as its source is, and back."""
    height, width = canvas_size
    shift = _checked(displacement, canvas_size).to(points.device, points.dtype)
    column = points[..., 0].long().clamp(0, width - 1)
    row = points[..., 1].long().clamp(0, height - 1)
    size = points.new_tensor((width, height))
    pixel = torch.stack([column, row], -1)
    places = (pixel.to(points.dtype) * 2 + (1 - size)) / size - shift[0, row, column]
    return (places + 1) * (size * 0.5) - 0.5


def _places(size: tuple[int, int], like: Tensor) -> Tensor:
    """Where pixels are, [1, H, W, 2] in the units of `grid_sample`."""
    y, x = ((torch.arange(n, dtype=like.dtype, device=like.device) * 2 + (1 - n)) / n for n in size)
    places = like.new_empty((*size, 2))
    places[..., 0] = x
    places[..., 1] = y[:, None]
    return places[None]


def _checked(displacement: Tensor, size: tuple[int, int]) -> Tensor:
    if not isinstance(displacement, Tensor):
        raise TypeError(f"elastic: displacement is a {type(displacement).__name__}, expected a tensor [1, H, W, 2].")
    if tuple(displacement.shape) != (1, *size, 2):
        raise ValueError(f"elastic: displacement has shape {tuple(displacement.shape)}, expected {(1, *size, 2)}.")
    return displacement
