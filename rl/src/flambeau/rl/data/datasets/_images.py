"""Encoded images of data sets as tensors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.errors import DatasetFormatError

__all__ = ["decoded", "is_encoded"]

_MOST_PIXELS = 1 << 28
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


class MissingPillow(FlambeauError, ImportError):
    """Encoded images are read by Pillow, which is not installed."""


def is_encoded(value: Any) -> bool:
    """Whether bytes begin like a JPEG or PNG."""
    return isinstance(value, bytes) and value.startswith(_BEGINNINGS)


def decoded(images: Sequence[bytes], where: str) -> Tensor:
    """Images of one size, (images, height, width, channels), uint8.

    Args:
        images: JPEG or PNG.
        where: what they come from, for messages.

    Raises:
        ImportError: Pillow is not installed.
        DatasetFormatError: an image that cannot be read, or of another size than the first.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingPillow(
            f"{where} has images, and Pillow is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    made = []
    for number, content in enumerate(images):
        try:
            with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise DatasetFormatError(f"{where}: image {number} has {image.width} x {image.height} pixels.")
                made.append(np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB")))
        except (UnidentifiedImageError, OSError) as error:
            raise DatasetFormatError(f"{where}: image {number} cannot be read: {error}") from error
    if len({image.shape for image in made}) > 1:
        raise DatasetFormatError(
            f"{where} has images of sizes {sorted({image.shape for image in made})}, expected one."
        )
    stacked = torch.from_numpy(np.stack(made))
    return stacked if stacked.ndim == 4 else stacked.unsqueeze(-1)
