"""Affine maps of the plane as six numbers (a, b, c, d, e, f): x' = a x + b y + c, y' = d x + e y + f.

Plain numbers, so that graphs hold them as constants and nothing waits for a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = tuple[float, float, float, float, float, float]


def affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> Matrix:
    """Where points go: sheared by y then x, turned and scaled about `center`, then moved by `translate`.

    Args:
        center: (x, y), the point that only `translate` moves.
        angle: degrees, clockwise as seen on the screen.
        translate: (x, y).
        scale: > 0.
        shear: (x, y), degrees.

    Raises:
        ValueError: `scale` is not positive.
    """
    a, b, d, e = _linear(angle, scale, shear)
    x, y = center
    return a, b, x + translate[0] - a * x - b * y, d, e, y + translate[1] - d * x - e * y


def inverse_affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> Matrix:
    """Where points come from: the inverse of `affine_matrix`.

    Raises:
        ValueError: `scale` is not positive, so that there is none.
    """
    a, b, d, e = _linear(angle, scale, shear)
    determinant = a * e - b * d
    a, b, d, e = e / determinant, -b / determinant, -d / determinant, a / determinant
    x, y = center
    moved_x, moved_y = x + translate[0], y + translate[1]
    return a, b, x - a * moved_x - b * moved_y, d, e, y - d * moved_x - e * moved_y


def _linear(angle: float, scale: float, shear: Sequence[float]) -> tuple[float, float, float, float]:
    """Rotation times scale times shear: R(angle) S(scale) Y(shear y) X(shear x), with the shear about both axes."""
    if scale <= 0:
        raise ValueError(f"affine: scale is {scale}, expected a positive number.")
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    cosine, sine = math.cos(turn - shear_y) / math.cos(shear_y), math.sin(turn - shear_y) / math.cos(shear_y)
    slope = math.tan(shear_x)
    return (
        scale * cosine,
        scale * (-cosine * slope - math.sin(turn)),
        scale * sine,
        scale * (-sine * slope + math.cos(turn)),
    )


def apply(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    """Where the map takes a point."""
    a, b, c, d, e, f = matrix
    return a * x + b * y + c, d * x + e * y + f


def extent(matrix: Matrix, height: int, width: int) -> tuple[int, int]:
    """(height, width) of the smallest canvas for a picture whose pixels come from where `matrix` says.

    `matrix` is an inverse map around the picture's middle. The inverse of a rotation has the extent of the rotation.
    """
    # Counted from the top left corner: two canvases around the same middle need not share rows and columns.
    corners = [apply(matrix, x * width / 2, y * height / 2) for x in (-1, 1) for y in (-1, 1)]
    return _whole([y + height / 2 for _, y in corners]), _whole([x + width / 2 for x, _ in corners])


def _whole(values: list[float]) -> int:
    # A ten-thousandth of a pixel is rounding error, and no reason for another row.
    low, high = (math.trunc(value * 1e4) / 1e4 for value in (min(values), max(values)))
    return math.ceil(high) - math.floor(low)
