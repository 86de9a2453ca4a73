"""Pillow's operations on tones, for PIL images whose pixels are in no memory of Pillow's yet: the same bytes, sooner.

Between steps of a pipeline a PIL image may be a tensor still, or a file (`io._waiting_picture`). Changing its tones
there saves the way into Pillow and back. Each function gives None where Pillow itself has to do it.

References:
    ImageEnhance and ImageOps of Pillow, whose results these are, bit for bit.
"""

from __future__ import annotations

import ctypes
import functools
import math
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.vision.ops._library import LIBRARY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

_LEVELS = 256


def brightness(image: Image.Image, factor: float) -> Image.Image | None:
    """Blend with black."""
    return _mapped(image, lambda levels: _blended(0, factor), factor, keeps_info=False)


def contrast(image: Image.Image, factor: float) -> Image.Image | None:
    """Blend with the mean of the gray image."""

    def table(levels: Tensor) -> NDArray[np.uint8]:
        channels, height, width = levels.shape
        total = _functions().sum(levels.data_ptr(), height * width, channels)
        return _blended(int(total / (height * width) + 0.5), factor)

    return _mapped(image, table, factor, keeps_info=False)


def saturation(image: Image.Image, factor: float) -> Image.Image | None:
    """Blend with the gray image."""
    levels = _levels(image, factor)
    if levels is None or levels.shape[0] != 3:
        return None
    out = torch.empty_like(levels)
    _functions().color(levels.data_ptr(), levels[0].numel(), factor, out.data_ptr())
    return _picture(image, out)


def sharpness(image: Image.Image, factor: float) -> Image.Image | None:
    """Blend with the smoothed image."""
    levels = _levels(image, factor)
    if levels is None:
        return None
    out = torch.empty_like(levels)
    channels, height, width = levels.shape
    _functions().sharpness(levels.data_ptr(), height, width, channels, factor, out.data_ptr())
    return _picture(image, out)


def posterize(image: Image.Image, bits: int) -> Image.Image | None:
    """Keep the highest bits."""
    return _mapped(image, lambda levels: _ramp() & (0xFF << (8 - bits) & 0xFF))


def solarize(image: Image.Image, threshold: float) -> Image.Image | None:
    """Invert what is not below the threshold."""
    import numpy as np

    return _mapped(image, lambda levels: np.where(_ramp() < threshold, _ramp(), 255 - _ramp()), threshold)


def autocontrast(image: Image.Image) -> Image.Image | None:
    """Stretch each channel to the whole range."""
    return _mapped(image, lambda levels: [_stretched(counts) for counts in _counts(levels)])


def equalize(image: Image.Image) -> Image.Image | None:
    """Spread each channel evenly over the range."""
    return _mapped(image, lambda levels: [_evened(counts) for counts in _counts(levels)])


# --- tables ---------------------------------------------------------------------------------------------------------


def _ramp() -> NDArray[np.int64]:
    import numpy as np

    return np.arange(_LEVELS)


def _blended(gray: int, factor: float) -> NDArray[np.uint8]:
    import numpy as np

    levels = np.arange(_LEVELS, dtype=np.float32)
    blended = np.float32(gray) + np.float32(factor) * (levels - np.float32(gray))
    limited: NDArray[np.uint8] = np.clip(blended, 0, 255).astype(np.uint8)
    return limited


def _stretched(counts: NDArray[np.int64]) -> NDArray[Any]:
    import numpy as np

    (present,) = counts.nonzero()
    low, high = int(present[0]), int(present[-1])
    if high <= low:
        return _ramp()
    scale = 255.0 / (high - low)
    return np.clip((_ramp() * scale + -low * scale).astype(np.int64), 0, 255)


def _evened(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    (present,) = counts.nonzero()
    step = (int(counts.sum()) - int(counts[present[-1]])) // 255
    if len(present) <= 1 or step == 0:
        return _ramp()
    before = np.cumsum(counts) - counts + step // 2
    limited: NDArray[np.int64] = np.minimum(before // step, 255)
    return limited


def _counts(levels: Tensor) -> NDArray[np.int64]:
    import numpy as np

    channels, height, width = levels.shape
    counts = np.zeros((channels, _LEVELS), np.int64)
    _functions().count(levels.data_ptr(), height * width, channels, counts.ctypes.data)
    return counts


# --- pictures -------------------------------------------------------------------------------------------------------


def _levels(image: Any, factor: float = 1.0) -> Tensor | None:
    """The pixels of a picture that Pillow does not have, [1 or 3, H, W], channels last without gaps."""
    of_waiting = getattr(image, "levels", None)
    if of_waiting is None or image.mode not in ("RGB", "L") or not math.isfinite(factor) or not _serves():
        return None
    levels: Tensor = of_waiting(None)
    return levels.movedim(0, -1).contiguous().movedim(-1, 0) if levels.numel() else None


def _picture(image: Any, levels: Tensor, *, keeps_info: bool = True) -> Image.Image:
    from flambeau.vision.io._waiting_picture import LevelsPicture

    return LevelsPicture(levels, image if keeps_info else None)


def _mapped(
    image: Image.Image, table: Callable[[Tensor], Any], factor: float = 1.0, *, keeps_info: bool = True
) -> Image.Image | None:
    import numpy as np

    levels = _levels(image, factor)
    if levels is None:
        return None
    channels, height, width = levels.shape
    tables = np.ascontiguousarray(np.broadcast_to(np.asarray(table(levels)), (channels, _LEVELS)), np.uint8)
    out = torch.empty_like(levels)
    _functions().map(levels.data_ptr(), height * width, channels, tables.ctypes.data, out.data_ptr())
    return _picture(image, out, keeps_info=keeps_info)


class _Functions:
    """What native/pillow_tones.cpp exports."""

    def __init__(self) -> None:
        address, count, factor = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        function = LIBRARY.function
        self.count: Callable[..., None] = function("fb_pillow_count", [address, count, count, address], None)
        self.sum: Callable[..., int] = function("fb_pillow_sum", [address, count, count], count)
        self.map: Callable[..., None] = function("fb_pillow_map", [address, count, count, address, address], None)
        self.color: Callable[..., None] = function("fb_pillow_color", [address, count, factor, address], None)
        arguments = [address, count, count, count, factor, address]
        self.sharpness: Callable[..., None] = function("fb_pillow_sharpness", arguments, None)


@functools.cache
def _functions() -> _Functions:
    return _Functions()


@functools.cache
def _serves() -> bool:
    """Whether there is the library, and a processor on which Pillow was surely built without fused multiply-add."""
    return LIBRARY.provider != "python" and platform.machine().lower() in ("x86_64", "amd64")
