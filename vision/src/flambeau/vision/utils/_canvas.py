"""Drawing on tensors with Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL import ImageDraw


def check_image(image: object, channels: tuple[int, ...]) -> Tensor:
    """`image` as it is, if one can draw on it.

    Raises:
        TypeError: it is no tensor.
        ValueError: it is neither uint8 nor floating point, is a batch, or has another number of channels.
    """
    if not isinstance(image, Tensor):
        raise TypeError(f"image is a {type(image).__name__}, expected a tensor [C, H, W].")
    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise ValueError(f"image is {image.dtype}, expected uint8 or floating point.")
    if image.ndim != 3:
        raise ValueError(f"image has the shape {list(image.shape)}, expected [C, H, W]; draw on one at a time.")
    if image.shape[0] not in channels:
        kinds = "1 (gray) or 3 (RGB)" if 1 in channels else "the 3 of an RGB image"
        raise ValueError(f"image has {image.shape[0]} channels, expected {kinds}.")
    return image


class Canvas:
    """A copy of an image that Pillow draws on.

    Args:
        image: [1 or 3, H, W], uint8, or floating point in [0, 1].
    """

    def __init__(self, image: Tensor) -> None:
        self._image = image.detach().expand(3, -1, -1)
        if image.dtype == torch.uint8:
            self._bytes = self._image
        else:
            self._bytes = self._image.mul(255.999).clamp(0, 255).to(torch.uint8)
        self._drawn = self._bytes

    @contextmanager
    def draw(self, mode: Literal["RGB", "RGBA"] = "RGB") -> Iterator[ImageDraw.ImageDraw]:
        """Pillow's pen; in mode RGBA colours with a fourth number are mixed with what is below."""
        from PIL import Image, ImageDraw

        picture = Image.fromarray(self._bytes.permute(1, 2, 0).contiguous().cpu().numpy())
        yield ImageDraw.Draw(picture, mode)
        self._drawn = torch.from_numpy(np.array(picture)).permute(2, 0, 1).to(self._image.device)

    def result(self) -> Tensor:
        """[3, H, W], dtype and device of the image; floating point pixels not drawn on keep their value."""
        if self._image.dtype == torch.uint8:
            return self._drawn.contiguous()
        drawn = self._drawn.to(self._image.dtype) / 255
        return torch.where(self._drawn == self._bytes, self._image, drawn)
