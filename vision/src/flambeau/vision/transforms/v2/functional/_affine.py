"""Affine maps: rotating, moving, scaling and shearing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops._affine import mapped
from flambeau.vision.ops._color import serves
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode, pillow_number
from flambeau.vision.transforms.v2.functional import _boxes, _formats
from flambeau.vision.transforms.v2.functional._affine_matrix import (
    Matrix,
    affine_matrix,
    apply,
    extent,
    inverse_affine_matrix,
)
from flambeau.vision.transforms.v2.functional._flip import mirrored
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.transforms.v2.functional._sampling import (
    Fill,
    affine_grid,
    fill_values,
    on_mask,
    sample,
    sampling_mode,
)
from flambeau.vision.tv_tensors import BoundingBoxFormat

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def affine(
    inpt: Tensor,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Tensor:
    """Shear, scale and rotate an image about a point, then move it; the canvas keeps its size.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types.
        angle: degrees, clockwise as seen on the screen.
        translate: pixels (x, y).
        scale: factor > 0.
        shear: degrees along x and y; one number for x alone.
        interpolation: NEAREST or BILINEAR; PIL images take BICUBIC too. Masks always take NEAREST.
        fill: value outside of the picture, one for all channels or one for each; None is 0.
        center: (x, y) of the fixed point, from the top left corner; None is the middle.

    Returns:
        Same shape and dtype. Axis-aligned boxes become the envelopes of their moved corners; boxes with an angle stay
        rectangles: the longer diagonal of what they became is kept.

    Raises:
        ValueError: `scale` is not positive, `translate`, `shear` or `center` has another number of values, or tensors
            do not know the interpolation.
    """
    return affine_image(inpt, angle, translate, scale, shear, interpolation, fill, center)


@functional(fallback=False)
def rotate(
    inpt: Tensor,
    angle: float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Tensor:
    """Rotate an image.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types.
        angle: degrees, counter-clockwise as seen on the screen.
        interpolation: as for `affine`.
        expand: enlarge the canvas until everything is on it; meant for rotations about the middle.
        center: (x, y) of the fixed point, from the top left corner; None is the middle.
        fill: value outside of the picture, one for all channels or one for each; None is 0.

    Returns:
        Same dtype, and the same shape without `expand`. Boxes as with `affine`.

    Raises:
        ValueError: `center` has not two values, or tensors do not know the interpolation.
    """
    return rotate_image(inpt, angle, interpolation, expand, center, fill)


# --- affine -------------------------------------------------------------------------------------------------------


@register_kernel(affine, tv_tensors.Image)
def affine_image(
    image: Tensor,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Tensor:
    """`affine` of a tensor [..., C, H, W]."""
    size = (image.shape[-2], image.shape[-1])
    middle = _from_middle(center, size)
    matrix = inverse_affine_matrix(middle, angle, _pair("translate", translate), scale, _shears(shear))
    return _mapped(image, matrix, size, interpolation, fill)


@register_kernel(affine, tv_tensors.Video)
def affine_video(
    video: Tensor,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Tensor:
    """`affine` of a video [..., T, C, H, W]."""
    return affine_image(video, angle, translate, scale, shear, interpolation, fill, center)


@register_partial(affine, tv_tensors.Mask)
def affine_mask(
    mask: Tensor,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Tensor:
    """`affine` of a mask [..., H, W], by the nearest value."""
    nearest = InterpolationMode.NEAREST
    moved = affine_image(on_mask(mask), angle, translate, scale, shear, nearest, fill, center)
    return moved.reshape(mask.shape)


@register_partial(affine, tv_tensors.BoundingBoxes)
def affine_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    center: Sequence[float] | None = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """`affine` of boxes [N, K]."""
    matrix = _forward(canvas_size, angle, translate, scale, shear, center)
    return _moved_boxes(bounding_boxes, format, matrix, canvas_size, clamping_mode)


@register_partial(affine, tv_tensors.KeyPoints)
def affine_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    center: Sequence[float] | None = None,
) -> Tensor:
    """`affine` of points [..., 2]."""
    return _moved_points(keypoints, _forward(canvas_size, angle, translate, scale, shear, center))


@register_kernel(affine, "PIL.Image:Image")
def _affine_image_pil(
    image: Image.Image,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Image.Image:
    from PIL import Image

    from flambeau.vision.transforms.v2.functional._pil import fill_color

    fixed = _center(center, (image.height, image.width))
    matrix = inverse_affine_matrix(fixed, angle, _pair("translate", translate), scale, _shears(shear))
    resample = pillow_number(interpolation_mode(interpolation))
    color = fill_color(image, fill)
    return image.transform(image.size, Image.Transform.AFFINE, matrix, resample, fillcolor=color)


# --- rotate -------------------------------------------------------------------------------------------------------


@register_kernel(rotate, tv_tensors.Image)
def rotate_image(
    image: Tensor,
    angle: float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Tensor:
    """`rotate` of a tensor [..., C, H, W]."""
    size = (image.shape[-2], image.shape[-1])
    if center is None and (turned := _quarter_turns(image, angle, expand)) is not None:
        return turned
    matrix = inverse_affine_matrix(_from_middle(center, size), -angle, (0, 0), 1.0, (0, 0))
    new_size = extent(matrix, *size) if expand else size
    return _mapped(image, matrix, new_size, interpolation, fill)


def _quarter_turns(image: Tensor, angle: float, expand: bool) -> Tensor | None:
    """Rotations about the middle that only move pixels, or None."""
    angle = angle % 360
    if angle == 0:
        return image.clone()
    if angle == 180:
        return mirrored(image, -1, -2)
    if angle in (90, 270) and (expand or image.shape[-1] == image.shape[-2]):
        return mirrored(image.transpose(-2, -1), -2 if angle == 90 else -1)
    return None


@register_kernel(rotate, tv_tensors.Video)
def rotate_video(
    video: Tensor,
    angle: float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Tensor:
    """`rotate` of a video [..., T, C, H, W]."""
    return rotate_image(video, angle, interpolation, expand, center, fill)


@register_partial(rotate, tv_tensors.Mask)
def rotate_mask(
    mask: Tensor, angle: float, expand: bool = False, center: Sequence[float] | None = None, fill: Fill = None
) -> Tensor:
    """`rotate` of a mask [..., H, W], by the nearest value."""
    turned = rotate_image(on_mask(mask), angle, InterpolationMode.NEAREST, expand, center, fill)
    return turned[0] if mask.ndim == 2 else turned


@register_partial(rotate, tv_tensors.BoundingBoxes, canvas=True)
def rotate_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    angle: float,
    expand: bool = False,
    center: Sequence[float] | None = None,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`rotate` of boxes [N, K]: the moved boxes and the new canvas size."""
    matrix, new_size = _rotation(canvas_size, angle, expand, center)
    return _moved_boxes(bounding_boxes, format, matrix, new_size, clamping_mode), new_size


@register_partial(rotate, tv_tensors.KeyPoints, canvas=True)
def rotate_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    angle: float,
    expand: bool = False,
    center: Sequence[float] | None = None,
) -> tuple[Tensor, tuple[int, int]]:
    """`rotate` of points [..., 2]: the moved points and the new canvas size."""
    matrix, new_size = _rotation(canvas_size, angle, expand, center)
    return _moved_points(keypoints, matrix), new_size


@register_kernel(rotate, "PIL.Image:Image")
def _rotate_image_pil(
    image: Image.Image,
    angle: float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Image.Image:
    from flambeau.vision.transforms.v2.functional._pil import fill_color

    fixed = None if center is None else (float(center[0]), float(center[1]))
    resample = pillow_number(interpolation_mode(interpolation))
    return image.rotate(angle, resample, expand, fixed, fillcolor=fill_color(image, fill))  # type: ignore[arg-type]


def _rotation(
    canvas_size: tuple[int, int], angle: float, expand: bool, center: Sequence[float] | None
) -> tuple[Matrix, tuple[int, int]]:
    """The map of a rotation's points, and the canvas size afterwards."""
    height, width = canvas_size
    matrix = _forward(canvas_size, -angle, (0, 0), 1.0, (0, 0), center)
    if not expand:
        return matrix, (height, width)
    a, b, c, d, e, f = matrix
    corners = [apply(matrix, x, y) for x in (0, width) for y in (0, height)]
    shifted = (a, b, c - min(x for x, _ in corners), d, e, f - min(y for _, y in corners))
    inverse = inverse_affine_matrix(_from_middle(center, (height, width)), -angle, (0, 0), 1.0, (0, 0))
    return shifted, extent(inverse, height, width)


# --- shared -------------------------------------------------------------------------------------------------------


def _mapped(
    image: Tensor, matrix: Matrix, size: tuple[int, int], interpolation: InterpolationMode | str | int, fill: Fill
) -> Tensor:
    """An image [..., C, H, W] seen through an inverse map around the middles of both pictures."""
    if not (image.dtype == torch.uint8 and image.numel() > 0 and min(size) > 0 and serves(image)):
        return sample(image, affine_grid(matrix, image, size), interpolation, fill)
    bilinear, channels = sampling_mode(interpolation) == "bilinear", image.shape[-3]
    fills = None if fill is None else fill_values(fill, channels)
    flat = image.reshape(-1, *image.shape[-3:])
    return mapped(flat, matrix, size, bilinear=bilinear, fill=fills).reshape(*image.shape[:-2], *size)


def _moved_boxes(
    boxes: Tensor,
    format: BoundingBoxFormat | str,
    matrix: Matrix,
    canvas_size: tuple[int, int],
    clamping_mode: str | None,
) -> Tensor:
    points = _formats.points_of(_formats.corners_of(_formats.in_fractions(boxes), format))
    moved = _moved_points(points, matrix)
    return boxes_around(moved, boxes.dtype, format, canvas_size, clamping_mode)


def boxes_around(
    points: Tensor,
    dtype: torch.dtype,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    clamping_mode: str | None,
) -> Tensor:
    """Boxes around moved corner points [N, 4, 2]: envelopes or rectangles, cut at the edges, integers truncated."""
    corners = _boxes.clamped_corners(_formats.around_points(points, format), canvas_size, clamping_mode)
    return _formats.from_corners(corners, format).to(dtype)


def _moved_points(points: Tensor, matrix: Matrix) -> Tensor:
    a, b, c, d, e, f = matrix
    values = points if points.is_floating_point() else points.float()
    linear, shift = values.new_tensor(((a, d), (b, e))), values.new_tensor((c, f))
    moved = values @ linear + shift
    return moved.to(points.dtype)  # upstream: integers are truncated


def _forward(
    canvas_size: tuple[int, int],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float] | float,
    center: Sequence[float] | None,
) -> Matrix:
    fixed = _center(center, canvas_size)
    return affine_matrix(fixed, angle, _pair("translate", translate), scale, _shears(shear))


def _center(center: Sequence[float] | None, size: tuple[int, int]) -> tuple[float, float]:
    return (size[1] * 0.5, size[0] * 0.5) if center is None else _pair("center", center)


def _from_middle(center: Sequence[float] | None, size: tuple[int, int]) -> tuple[float, float]:
    if center is None:
        return 0.0, 0.0
    x, y = _pair("center", center)
    return x - size[1] * 0.5, y - size[0] * 0.5


def _shears(shear: Sequence[float] | float) -> tuple[float, float]:
    if isinstance(shear, (int, float)):
        return shear, 0.0
    return (shear[0], shear[0]) if len(shear) == 1 else _pair("shear", shear)


def _pair(name: str, values: Sequence[float]) -> tuple[float, float]:
    if isinstance(values, (int, float)) or len(values) != 2:
        raise ValueError(f"{name} is {values!r}, expected two numbers (x, y).")
    return values[0], values[1]
