"""Cropping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, constant_pad_nd

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2.functional import _boxes, _formats
from flambeau.vision.transforms.v2.functional._flip import horizontal_flip, mirrored, vertical_flip
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.transforms.v2.functional._resize import (
    resize,
    resize_bounding_boxes,
    resize_image,
    resize_keypoints,
    resize_mask,
)
from flambeau.vision.tv_tensors import BoundingBoxFormat
from flambeau.vision.tv_tensors._bounding_boxes import bounding_box_format

if TYPE_CHECKING:
    from PIL import Image

Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
Ten = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@functional(fallback=False)
def crop(inpt: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Cut a rectangle out of an image, adding zeros where it reaches beyond.

    Args:
        inpt: [..., H, W] of any dtype, a PIL image, or any of our tensor types.
        top: first row of the rectangle; may be negative.
        left: first column; may be negative.
        height: of the rectangle.
        width: of the rectangle.

    Returns:
        [..., height, width], same dtype; a view of the input where nothing had to be added. Boxes are moved and cut at
        the edges by their clamping mode; key points are moved, and may end up outside.
    """
    return crop_image(inpt, top, left, height, width)


@register_kernel(crop, tv_tensors.Image)
def crop_image(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """`crop` of a tensor [..., H, W]."""
    full_height, full_width = image.shape[-2:]
    if 0 <= top <= full_height - height and 0 <= left <= full_width - width:
        return image[..., top : top + height, left : left + width]
    first_row, last_row = min(max(top, 0), full_height), max(min(top + height, full_height), 0)
    first_column, last_column = min(max(left, 0), full_width), max(min(left + width, full_width), 0)
    inside = image[..., first_row:last_row, first_column:last_column]
    if inside.shape[-2:] == (height, width):
        return inside
    above, before = min(max(-top, 0), height), min(max(-left, 0), width)
    below, behind = height - inside.shape[-2] - above, width - inside.shape[-1] - before
    return constant_pad_nd(inside, [before, behind, above, below])


@register_kernel(crop, tv_tensors.Video)
def crop_video(video: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """`crop` of a video [..., T, C, H, W]."""
    return crop_image(video, top, left, height, width)


@register_kernel(crop, tv_tensors.Mask)
def crop_mask(mask: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """`crop` of a mask [..., H, W]."""
    return crop_image(mask, top, left, height, width)


@register_partial(crop, tv_tensors.BoundingBoxes, canvas=True)
def crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    top: int,
    left: int,
    height: int,
    width: int,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`crop` of boxes [N, K]: the moved boxes and the new canvas size."""
    new_size = (height, width)
    if bounding_box_format(format) == BoundingBoxFormat.XYXYXYXY:  # upstream: made rectangles here, and not by `pad`
        bounding_boxes = _formats.rectangle(_formats.points_of(bounding_boxes)).flatten(-2)
    return _boxes.shifted(bounding_boxes, format, -left, -top, new_size, clamping_mode), new_size


@register_partial(crop, tv_tensors.KeyPoints, canvas=True)
def crop_keypoints(keypoints: Tensor, top: int, left: int, height: int, width: int) -> tuple[Tensor, tuple[int, int]]:
    """`crop` of points [..., 2]: the moved points and the new canvas size."""
    start = torch.tensor((left, top), dtype=keypoints.dtype, device=keypoints.device)
    return keypoints - start, (height, width)


@register_kernel(crop, "PIL.Image:Image")
def _crop_image_pil(image: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    return image.crop((left, top, left + width, top + height))


@functional(fallback=False)
def center_crop(inpt: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """Cut out the middle of an image, adding zeros around it where it is smaller than asked for.

    Args:
        inpt: [..., H, W] of any dtype, a PIL image, or any of our tensor types.
        output_size: (height, width), or one number for a square.

    Returns:
        [..., height, width], same dtype; a view of the input where nothing had to be added.

    Raises:
        ValueError: `output_size` has neither one nor two numbers.
    """
    return center_crop_image(inpt, output_size)


@register_kernel(center_crop, tv_tensors.Image)
def center_crop_image(image: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """`center_crop` of a tensor [..., H, W]."""
    height, width = pair(output_size)
    top, left = middle(image.shape[-2], image.shape[-1], height, width)
    return crop_image(image, top, left, height, width)


@register_kernel(center_crop, tv_tensors.Video)
def center_crop_video(video: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """`center_crop` of a video [..., T, C, H, W]."""
    return center_crop_image(video, output_size)


@register_kernel(center_crop, tv_tensors.Mask)
def center_crop_mask(mask: Tensor, output_size: Sequence[int] | int) -> Tensor:
    """`center_crop` of a mask [..., H, W]."""
    return center_crop_image(mask, output_size)


@register_partial(center_crop, tv_tensors.BoundingBoxes, canvas=True)
def center_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    output_size: Sequence[int] | int,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`center_crop` of boxes [N, K]: the moved boxes and the new canvas size."""
    height, width = pair(output_size)
    top, left = _middle_of_canvas(canvas_size, height, width)
    return crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)


@register_partial(center_crop, tv_tensors.KeyPoints, canvas=True)
def center_crop_keypoints(
    inpt: Tensor, canvas_size: tuple[int, int], output_size: Sequence[int] | int
) -> tuple[Tensor, tuple[int, int]]:
    """`center_crop` of points [..., 2]: the moved points and the new canvas size."""
    height, width = pair(output_size)
    return crop_keypoints(inpt, *_middle_of_canvas(canvas_size, height, width), height, width)


@register_kernel(center_crop, "PIL.Image:Image")
def _center_crop_image_pil(image: Image.Image, output_size: Sequence[int] | int) -> Image.Image:
    height, width = pair(output_size)
    top, left = middle(image.height, image.width, height, width)
    return image.crop((left, top, left + width, top + height))  # Pillow fills what lies outside with zeros


def pair(output_size: Sequence[int] | int) -> tuple[int, int]:
    """(height, width) of one number or two."""
    if isinstance(output_size, int):
        return output_size, output_size
    if len(output_size) not in (1, 2):
        raise ValueError(f"output_size is {output_size!r}, expected one number or two (height, width).")
    return int(output_size[0]), int(output_size[-1])


def middle(height: int, width: int, wanted_height: int, wanted_width: int) -> tuple[int, int]:
    """Top and left of the middle; negative where something has to be added, the odd pixel at the right and bottom."""
    return _start(height, wanted_height), _start(width, wanted_width)


def _start(size: int, wanted: int) -> int:
    # Upstream: Python's rounding of halves to the even number.
    return -((wanted - size) // 2) if wanted > size else round((size - wanted) / 2.0)


def _middle_of_canvas(canvas_size: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    # Upstream: where an odd number of rows or columns is added to the picture, boxes and points may be moved by one
    # more than the picture is.
    return round((canvas_size[0] - height) / 2.0), round((canvas_size[1] - width) / 2.0)


@functional(fallback=False)
def resized_crop(
    inpt: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    """Cut a rectangle out of an image, and resize it; see `crop` and `resize`."""
    return resized_crop_image(inpt, top, left, height, width, size, interpolation, antialias)


@register_kernel(resized_crop, tv_tensors.Image)
def resized_crop_image(
    image: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    """`resized_crop` of a tensor [..., C, H, W]."""
    return resize_image(crop_image(image, top, left, height, width), size, interpolation, None, antialias)


@register_kernel(resized_crop, tv_tensors.Video)
def resized_crop_video(
    video: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    """`resized_crop` of a video [..., T, C, H, W]."""
    return resized_crop_image(video, top, left, height, width, size, interpolation, antialias)


@register_partial(resized_crop, tv_tensors.Mask)
def resized_crop_mask(mask: Tensor, top: int, left: int, height: int, width: int, size: Sequence[int]) -> Tensor:
    """`resized_crop` of a mask [..., H, W], by the nearest value."""
    return resize_mask(crop_mask(mask, top, left, height, width), size)


@register_partial(resized_crop, tv_tensors.BoundingBoxes, canvas=True)
def resized_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`resized_crop` of boxes [N, K]: the boxes and the new canvas size."""
    boxes, canvas = crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)
    return resize_bounding_boxes(boxes, canvas, size, format=format, clamping_mode=clamping_mode)


@register_partial(resized_crop, tv_tensors.KeyPoints, canvas=True)
def resized_crop_keypoints(
    keypoints: Tensor, top: int, left: int, height: int, width: int, size: Sequence[int]
) -> tuple[Tensor, tuple[int, int]]:
    """`resized_crop` of points [..., 2]: the points and the new canvas size."""
    points, canvas = crop_keypoints(keypoints, top, left, height, width)
    return resize_keypoints(points, size, canvas)


@register_kernel(resized_crop, "PIL.Image:Image")
def _resized_crop_image_pil(
    image: Image.Image,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Image.Image:
    cut: Tensor = _crop_image_pil(image, top, left, height, width)  # type: ignore[assignment]
    return resize(cut, size, interpolation)  # type: ignore[return-value]


@functional(fallback=False)
def five_crop(inpt: Tensor, size: Sequence[int] | int) -> Five:
    """Cut out the four corners and the middle of an image.

    Args:
        inpt: [..., H, W] of any dtype, a video, or a PIL image.
        size: (height, width), or one number for a square; not larger than the image.

    Returns:
        Top left, top right, bottom left, bottom right, middle; each [..., height, width].

    Raises:
        ValueError: the image is smaller.
    """
    return five_crop_image(inpt, size)


@register_kernel(five_crop, tv_tensors.Image)
def five_crop_image(image: Tensor, size: Sequence[int] | int) -> Five:
    """`five_crop` of a tensor [..., H, W]."""
    height, width = pair(size)
    bottom, right = _room(image.shape[-2], image.shape[-1], height, width)
    starts = ((0, 0), (0, right), (bottom, 0), (bottom, right))
    first, second, third, fourth = (crop_image(image, top, left, height, width) for top, left in starts)
    return first, second, third, fourth, center_crop_image(image, [height, width])


@register_kernel(five_crop, tv_tensors.Video)
def five_crop_video(video: Tensor, size: Sequence[int] | int) -> Five:
    """`five_crop` of a video [..., T, C, H, W]."""
    return five_crop_image(video, size)


@register_kernel(five_crop, "PIL.Image:Image")
def _five_crop_image_pil(image: Image.Image, size: Sequence[int] | int) -> tuple[Image.Image, ...]:
    height, width = pair(size)
    bottom, right = _room(image.height, image.width, height, width)
    starts = ((0, 0), (0, right), (bottom, 0), (bottom, right))
    corners = tuple(_crop_image_pil(image, top, left, height, width) for top, left in starts)
    return (*corners, _center_crop_image_pil(image, [height, width]))


@functional(fallback=False)
def ten_crop(inpt: Tensor, size: Sequence[int] | int, vertical_flip: bool = False) -> Ten:
    """`five_crop` of an image, then of its mirror image.

    Args:
        inpt: as for `five_crop`.
        size: as for `five_crop`.
        vertical_flip: mirror top and bottom instead of left and right.

    Raises:
        ValueError: the image is smaller.
    """
    return ten_crop_image(inpt, size, vertical_flip)


@register_kernel(ten_crop, tv_tensors.Image)
def ten_crop_image(image: Tensor, size: Sequence[int] | int, vertical_flip: bool = False) -> Ten:
    """`ten_crop` of a tensor [..., H, W]."""
    return (*five_crop_image(image, size), *five_crop_image(mirrored(image, -2 if vertical_flip else -1), size))


@register_kernel(ten_crop, tv_tensors.Video)
def ten_crop_video(video: Tensor, size: Sequence[int] | int, vertical_flip: bool = False) -> Ten:
    """`ten_crop` of a video [..., T, C, H, W]."""
    return ten_crop_image(video, size, vertical_flip)


@register_kernel(ten_crop, "PIL.Image:Image")
def _ten_crop_image_pil(
    image: Image.Image, size: Sequence[int] | int, vertical_flip: bool = False
) -> tuple[Image.Image, ...]:
    mirror = _vertical if vertical_flip else horizontal_flip
    return (*_five_crop_image_pil(image, size), *_five_crop_image_pil(mirror(image), size))  # type: ignore[arg-type]


_vertical = vertical_flip  # arguments have this name too


def _room(height: int, width: int, wanted_height: int, wanted_width: int) -> tuple[int, int]:
    """The last row and column at which a crop can start."""
    if wanted_height > height or wanted_width > width:
        raise ValueError(
            f"The crop of {(wanted_height, wanted_width)} is larger than the image of {(height, width)}; "
            "resize or pad the image first."
        )
    return height - wanted_height, width - wanted_width
