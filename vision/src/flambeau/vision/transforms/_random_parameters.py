"""How the parameters of random transforms are drawn; both generations of transforms have these as `get_params`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.vision.transforms import _random
from flambeau.vision.transforms.v2 import functional as F


def crop(img: Tensor, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop anywhere in the image.

    Raises:
        ValueError: the image is smaller.
    """
    _, height, width = F.get_dimensions(img)
    crop_height, crop_width = output_size
    if height < crop_height or width < crop_width:
        raise ValueError(
            f"A crop of {(crop_height, crop_width)} does not fit into the image of {(height, width)}; pad it first."
        )
    if (height, width) == (crop_height, crop_width):
        return 0, 0, height, width
    top = _random.integer(0, height - crop_height + 1)
    return top, _random.integer(0, width - crop_width + 1), crop_height, crop_width


def resized_crop(img: Tensor, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop of random area and aspect ratio; see `crop_of_area`."""
    _, height, width = F.get_dimensions(img)
    return crop_of_area(height, width, scale, ratio)


def crop_of_area(height: int, width: int, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
    """A crop with an area of scale[0] to scale[1] of the image's, and a width of ratio[0] to ratio[1] heights.

    The ratio's logarithm is uniform. After ten tries that do not fit: the largest crop in the middle within the ratio.
    """
    narrowest, widest = _logarithms(tuple(ratio))
    for _ in range(10):
        area = height * width * _random.uniform(scale[0], scale[1])
        aspect = _exponential(narrowest, widest)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = _random.integer(0, height - h + 1)
            return top, _random.integer(0, width - w + 1), h, w
    h, w = height, width
    if width / height < min(ratio):
        h = round(w / min(ratio))
    elif width / height > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


@functools.lru_cache(maxsize=64)
def _logarithms(ratio: tuple[float, ...]) -> list[float]:
    """In single precision, as upstream's."""
    return torch.log(torch.tensor(ratio, dtype=torch.float32)).tolist()


def _exponential(low: float, high: float) -> float:
    """A number whose logarithm is uniform, in single precision as upstream's."""
    return torch.empty(1).uniform_(low, high, generator=_random.current().generator).exp_().item()


def angle(degrees: Sequence[float]) -> float:
    """An angle between the two."""
    return _random.uniform(degrees[0], degrees[1])


def affine(
    degrees: Sequence[float],
    translate: Sequence[float] | None,
    scale_ranges: Sequence[float] | None,
    shears: Sequence[float] | None,
    img_size: Sequence[int],
) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
    """Angle, translation in pixels (x, y), scale, and shear (x, y) in degrees.

    Args:
        degrees: limits of the angle.
        translate: largest translation as a part of the width and of the height.
        scale_ranges: limits of the scale.
        shears: limits of the shear in x, and with two more of that in y.
        img_size: (width, height).
    """
    turn = angle(degrees)
    shift = (0, 0)
    if translate is not None:
        farthest = (float(translate[0] * img_size[0]), float(translate[1] * img_size[1]))
        dx = round(_random.uniform(-farthest[0], farthest[0]))
        shift = (dx, round(_random.uniform(-farthest[1], farthest[1])))
    scale = 1.0 if scale_ranges is None else _random.uniform(scale_ranges[0], scale_ranges[1])
    shear_x = shear_y = 0.0
    if shears is not None:
        shear_x = _random.uniform(shears[0], shears[1])
        shear_y = _random.uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
    return turn, shift, scale, (shear_x, shear_y)


def perspective(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
    """The corners of the image, and where they go: up to half of `distortion_scale` of the sides inwards."""
    x, y = int(distortion_scale * (width // 2)) + 1, int(distortion_scale * (height // 2)) + 1
    ranges = [
        ((0, x), (0, y)),
        ((width - x, width), (0, y)),
        ((width - x, width), (height - y, height)),
        ((0, x), (height - y, height)),
    ]
    ends = [[_random.integer(*horizontal), _random.integer(*vertical)] for horizontal, vertical in ranges]
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends


def displacement(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
    """Smooth displacements [1, H, W, 2], x before y, as parts of width and height: noise blurred with `sigma`."""
    return torch.cat([_smooth_noise(axis, alpha, sigma, size) for axis in (0, 1)], 1).permute(0, 2, 3, 1)


def _smooth_noise(axis: int, alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
    noise = _random.rand(1, 1, *size) * 2 - 1
    if sigma[axis] > 0.0:
        length = int(8 * sigma[axis] + 1)
        length += 1 - length % 2
        noise = F.gaussian_blur(noise, [length, length], list(sigma))
    return noise * alpha[axis] / size[1 - axis]


def jitter(
    brightness: Sequence[float] | None,
    contrast: Sequence[float] | None,
    saturation: Sequence[float] | None,
    hue: Sequence[float] | None,
) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
    """The order of the four changes, and their factors; None where there is no range."""
    order = _random.randperm(4)
    b, c, s, h = (
        None if limits is None else _random.uniform(*limits) for limits in (brightness, contrast, saturation, hue)
    )
    return order, b, c, s, h


def blur_sigma(sigma_min: float, sigma_max: float) -> float:
    """A standard deviation between the two."""
    return _random.uniform(sigma_min, sigma_max)


def erased_region(
    img: Tensor, scale: Sequence[float], ratio: Sequence[float], value: Sequence[float] | None = None
) -> tuple[int, int, int, int, Tensor]:
    """Top, left, height and width of a rectangle, and what it is filled with.

    Returns:
        The whole image with its own values, where ten tries do not fit.
    """
    channels, height, width = img.shape[-3:]
    region = region_to_erase(channels, height, width, scale, ratio, value)
    return (0, 0, height, width, img) if region is None else region


def region_to_erase(
    channels: int,
    height: int,
    width: int,
    scale: Sequence[float],
    ratio: Sequence[float],
    value: Sequence[float] | None,
) -> tuple[int, int, int, int, Tensor] | None:
    """As `erased_region`; None where ten tries do not fit."""
    narrowest, widest = _logarithms(tuple(ratio))
    for _ in range(10):
        area = height * width * _random.uniform(scale[0], scale[1])
        aspect = _exponential(narrowest, widest)
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if not (h < height and w < width):
            continue
        v = _random.normal(channels, h, w) if value is None else torch.tensor(value)[:, None, None]
        top = _random.integer(0, height - h + 1)
        return top, _random.integer(0, width - w + 1), h, w, v
    return None


def policy(transform_num: int) -> tuple[int, Tensor, Tensor]:
    """Index of a policy, and for its two operations whether they apply and which sign they have."""
    index = _random.integer(0, transform_num)
    return index, _random.rand(2), _random.randint(0, 2, (2,))


def color_range(
    value: float | Sequence[float] | None,
    name: str,
    *,
    center: float = 1.0,
    bound: tuple[float, float] = (0.0, math.inf),
    clip_first_on_zero: bool = True,
) -> tuple[float, float] | None:
    """Limits of a factor: of a number v these are center - v and center + v; None where nothing would change.

    Raises:
        ValueError: a negative number, or limits out of bounds or in the wrong order.
        TypeError: neither a number nor two.
    """
    if value is None:
        return None
    limits: Any = value
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} is {value}, expected 0 or above: how far the factor may be from {center:g}.")
        limits = [center - value, center + value]
        if clip_first_on_zero:
            limits[0] = max(limits[0], 0.0)
    elif isinstance(limits, Sequence) and len(limits) == 2:
        limits = [float(v) for v in limits]
    else:
        raise TypeError(f"{name} is {value!r}, expected a number or two.")
    if not bound[0] <= limits[0] <= limits[1] <= bound[1]:
        raise ValueError(f"{name} goes from {limits[0]:g} to {limits[1]:g}; expected limits in order, within {bound}.")
    return None if limits[0] == limits[1] == center else (float(limits[0]), float(limits[1]))
