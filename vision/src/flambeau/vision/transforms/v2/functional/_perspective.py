"""Perspective: pictures seen at an angle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode, pillow_number
from flambeau.vision.transforms.v2.functional import _formats
from flambeau.vision.transforms.v2.functional._affine import boxes_around
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.transforms.v2.functional._sampling import Fill, on_mask, sample, sampling_dtype
from flambeau.vision.tv_tensors import BoundingBoxFormat

if TYPE_CHECKING:
    from PIL import Image

Points = Sequence[Sequence[float]]
# Rows of a 3 x 3 matrix: a point (x, y) goes to ((a x + b y + c) / w, (d x + e y + f) / w), w = g x + h y + i.
Homography = tuple[float, float, float, float, float, float, float, float, float]


@functional(fallback=False)
def perspective(
    inpt: Tensor,
    startpoints: Points | None,
    endpoints: Points | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> Tensor:
    """Move four points of an image to four others, and everything else as if the image were a plane in space.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types.
        startpoints: four points (x, y), no three on a line.
        endpoints: where they go, likewise.
        interpolation: NEAREST or BILINEAR; PIL images take BICUBIC too. Masks always take NEAREST.
        fill: value outside of the picture, one for all channels or one for each; None is 0.
        coefficients: in place of the points: (a, b, c, d, e, f, g, h), by which a pixel (x, y) of the result comes from
            ((a x + b y + c) / w, (d x + e y + f) / w) with w = g x + h y + 1.

    Returns:
        Same shape and dtype; boxes as with `affine`.

    Raises:
        ValueError: neither points nor coefficients are given, or both; another number of them; three points are on a
            line.
    """
    return perspective_image(inpt, startpoints, endpoints, interpolation, fill, coefficients)


@register_kernel(perspective, tv_tensors.Image)
def perspective_image(
    image: Tensor,
    startpoints: Points | None,
    endpoints: Points | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> Tensor:
    """`perspective` of a tensor [..., C, H, W]."""
    height, width = image.shape[-2:]
    a, b, c, d, e, f, g, h, i = _backward(startpoints, endpoints, coefficients)
    dtype = sampling_dtype(image)
    x = torch.arange(width, dtype=dtype, device=image.device) + 0.5
    y = torch.arange(height, dtype=dtype, device=image.device)[:, None] + 0.5
    depth = x * g + (y * h + i)
    across = (x * (2 * a / width) + (y * (2 * b / width) + 2 * c / width)) / depth - 1
    down = (x * (2 * d / height) + (y * (2 * e / height) + 2 * f / height)) / depth - 1
    return sample(image, torch.stack([across, down], -1), interpolation, fill)


@register_kernel(perspective, tv_tensors.Video)
def perspective_video(
    video: Tensor,
    startpoints: Points | None,
    endpoints: Points | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> Tensor:
    """`perspective` of a video [..., T, C, H, W]."""
    return perspective_image(video, startpoints, endpoints, interpolation, fill, coefficients)


@register_partial(perspective, tv_tensors.Mask)
def perspective_mask(
    mask: Tensor,
    startpoints: Points | None,
    endpoints: Points | None,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> Tensor:
    """`perspective` of a mask [..., H, W], by the nearest value."""
    nearest = InterpolationMode.NEAREST
    return perspective_image(on_mask(mask), startpoints, endpoints, nearest, fill, coefficients).reshape(mask.shape)


@register_partial(perspective, tv_tensors.BoundingBoxes)
def perspective_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    startpoints: Points | None,
    endpoints: Points | None,
    coefficients: Sequence[float] | None = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """`perspective` of boxes [N, K]."""
    points = _formats.points_of(_formats.corners_of(bounding_boxes, format))
    forward = _inverse(_backward(startpoints, endpoints, coefficients))
    moved = _moved(_formats.in_fractions(points), forward)
    return boxes_around(moved, bounding_boxes.dtype, format, canvas_size, clamping_mode)


@register_partial(perspective, tv_tensors.KeyPoints)
def perspective_keypoints(
    keypoints: Tensor,
    canvas_size: tuple[int, int],
    startpoints: Points | None,
    endpoints: Points | None,
    coefficients: Sequence[float] | None = None,
) -> Tensor:
    """`perspective` of points [..., 2]."""
    moved = _moved(keypoints, _inverse(_backward(startpoints, endpoints, coefficients)))
    return moved.to(keypoints.dtype)  # upstream: integers are truncated


@register_kernel(perspective, "PIL.Image:Image")
def _perspective_image_pil(
    image: Image.Image,
    startpoints: Points | None,
    endpoints: Points | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> Image.Image:
    from PIL import Image

    from flambeau.vision.transforms.v2.functional._pil import fill_color

    *numbers, last = _backward(startpoints, endpoints, coefficients)
    numbers = [number / last for number in numbers]
    resample = pillow_number(interpolation_mode(interpolation))
    color = fill_color(image, fill)
    return image.transform(image.size, Image.Transform.PERSPECTIVE, numbers, resample, fillcolor=color)


def _moved(points: Tensor, map: Homography) -> Tensor:
    a, b, c, d, e, f, g, h, i = map
    x, y = points[..., 0], points[..., 1]
    depth = x * g + y * h + i
    return torch.stack([(x * a + y * b + c) / depth, (x * d + y * e + f) / depth], -1)


def _backward(startpoints: Points | None, endpoints: Points | None, coefficients: Sequence[float] | None) -> Homography:
    """Where pixels of the result come from."""
    if coefficients is not None:
        if startpoints is not None or endpoints is not None:
            raise ValueError("perspective: give either startpoints and endpoints or coefficients, not both.")
        if len(coefficients) != 8:
            raise ValueError(f"perspective: coefficients has {len(coefficients)} numbers, expected 8.")
        a, b, c, d, e, f, g, h = coefficients
        return a, b, c, d, e, f, g, h, 1.0
    if startpoints is None or endpoints is None:
        raise ValueError("perspective: give startpoints and endpoints, or coefficients.")
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"perspective: {len(startpoints)} startpoints and {len(endpoints)} endpoints, expected four of each."
        )
    return perspective_map(endpoints, startpoints)


def perspective_map(points: Points, images: Points) -> Homography:
    """The map that takes four points to four others, up to a common factor, normalised to i = 1.

    References:
        Heckbert 1989, Fundamentals of Texture Mapping and Image Warping, section 2.2.3: the map from the unit square
        in closed form. Two of them, one inverted, make the map between any two quadrilaterals.
    """
    matrix = _product(_from_square(images), _inverse(_from_square(points)))
    a, b, c, d, e, f, g, h, i = (value / matrix[8] for value in matrix)
    return a, b, c, d, e, f, g, h, i


def _from_square(quad: Points) -> Homography:
    """The map that takes (0, 0), (1, 0), (1, 1), (0, 1) to four points."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = quad
    dx1, dx2, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    determinant = dx1 * dy2 - dx2 * dy1
    if determinant == 0:
        raise ValueError(f"perspective: three of the points {quad!r} are on a line; no map is determined by them.")
    g, h = (sx * dy2 - dx2 * sy) / determinant, (dx1 * sy - sx * dy1) / determinant
    return x1 - x0 + g * x1, x3 - x0 + h * x3, x0, y1 - y0 + g * y1, y3 - y0 + h * y3, y0, g, h, 1.0


def _product(p: Homography, q: Homography) -> Homography:
    a, b, c, d, e, f, g, h, i = (
        sum(p[3 * row + k] * q[3 * k + column] for k in range(3)) for row in range(3) for column in range(3)
    )
    return a, b, c, d, e, f, g, h, i


def _inverse(map: Homography) -> Homography:
    """The inverse up to a factor: the adjugate."""
    a, b, c, d, e, f, g, h, i = map
    return (
        e * i - f * h, c * h - b * i, b * f - c * e,
        f * g - d * i, a * i - c * g, c * d - a * f,
        d * h - e * g, b * g - a * h, a * e - b * d,
    )  # fmt: skip
