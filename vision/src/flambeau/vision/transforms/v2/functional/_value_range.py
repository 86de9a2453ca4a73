"""Values of pixels as floating point, and back in the dtype they had."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.vision.transforms.v2.functional._dtype import max_value


def widened(image: Tensor) -> Tensor:
    """An image in a dtype to compute in: floating point stays, integers become float32, int32 float64.

    Full intensity of int32 has no place in float32. That of int64 has none in float64 either: such images hold the
    levels of narrower ones, and give what those give.
    """
    if image.is_floating_point():
        return image
    return image.to(torch.float64 if image.dtype == torch.int32 else torch.float32)


def narrowed(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Values between nothing and full intensity of a dtype, in that dtype; integers are truncated."""
    return values.clamp(0, max_value(dtype)).to(dtype)


def blended(image: Tensor, other: Tensor, factor: float) -> Tensor:
    """`factor` parts of an image and `1 - factor` of another, in the image's dtype."""
    return narrowed(widened(image) * factor + other * (1.0 - factor), image.dtype)


def channels_of(op: str, image: Tensor, allowed: tuple[int, ...] = (1, 3)) -> int:
    """The channels of an image, if they are among those that an operation knows.

    Raises:
        TypeError: they are not.
    """
    channels = image.shape[-3] if image.ndim >= 3 else 1
    if channels not in allowed:
        words = " or ".join(map(str, allowed))
        raise TypeError(f"{op}: the image has shape {list(image.shape)}, expected {words} channels, [..., C, H, W].")
    return channels
