"""Several steps of a pipeline in one pass over the picture: resizing, cutting, mirroring, scaling, normalizing.

For uint8 pictures on the CPU one native kernel does all of these. It gives the numbers of the steps one after another;
where a PIL image would be resized by Pillow, within one level of 255. FLAMBEAU_FUSED_TRANSFORMS=0 keeps to single
steps.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.vision.ops._resize import is_native, resize, resize_normalize
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2.functional._pil import is_pil
from flambeau.vision.tv_tensors import EncodedImage

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

# Modes of Pillow whose bands are the channels of a tensor, and whose bytes are levels.
_LEVEL_MODES = ("RGB", "L")
_FILTERS = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)


def is_wanted() -> bool:
    """Whether steps may be taken together now; a graph is traced step by step."""
    chosen = os.environ.get("FLAMBEAU_FUSED_TRANSFORMS", "").strip().lower()
    return chosen not in ("0", "off", "no", "false") and not torch.compiler.is_compiling() and is_native()


def takes_tensor(image: Tensor) -> bool:
    """Whether the kernel takes a tensor [..., C, H, W]."""
    return image.dtype == torch.uint8 and image.ndim >= 3 and image.device.type == "cpu" and image.numel() > 0


def takes_pil(image: Image.Image, mode: InterpolationMode) -> bool:
    """Whether the kernel takes a PIL image: where a cubic overshoots, Pillow may differ by more than a level."""
    return image.mode in _LEVEL_MODES and mode is InterpolationMode.BILINEAR and min(image.size) > 0


def takes_mode(mode: InterpolationMode) -> bool:
    """Whether the kernel knows an interpolation."""
    return mode in _FILTERS


def picture_for(image: Any, mode: InterpolationMode) -> Tensor | None:
    """The picture that the kernel takes for a tensor or PIL image; None where it takes none."""
    if is_pil(image):
        return _levels_of_pil(image, None) if takes_pil(image, mode) else None
    if type(image) is not Tensor or not (takes_mode(mode) and takes_tensor(image)):
        return None
    return image


def takes_file(image: EncodedImage) -> bool:
    """Whether an image that is a file still is known to be one that the kernel takes."""
    return image.format == "jpeg"


def levels_of(image: Any, place: tuple[int, int, int, int] | None, size: tuple[int, int]) -> Tensor:
    """What is to be resized, as a plain tensor [..., C, H, W].

    Args:
        image: a tensor, a PIL image (whose channels become last in memory, which saves turning it), or an image that is
            a file still, of which no more is decoded than is needed.
        place: top, left, height, width of the part that is wanted, inside of the image; None for all.
        size: what it is going to be resized to.
    """
    if isinstance(image, EncodedImage):
        return image.levels(place, size)
    if is_pil(image):
        return _levels_of_pil(image, place)
    tensor: Tensor = image.as_subclass(Tensor)
    if place is None:
        return tensor
    top, left, height, width = place
    return tensor[..., top : top + height, left : left + width]


def _levels_of_pil(image: Image.Image, place: tuple[int, int, int, int] | None) -> Tensor:
    import numpy as np

    if (of_file := getattr(image, "levels", None)) is not None:  # see io._waiting_picture
        levels: Tensor = of_file(place)
        return levels
    if place is not None:
        top, left, height, width = place
        image = image.crop((left, top, left + width, top + height))
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


def picture_of(levels: Tensor) -> Image.Image:
    """A PIL image of [1 or 3, H, W], which Pillow gets to see if it is looked at; `settled` at the latest."""
    from flambeau.vision.io._waiting_picture import LevelsPicture

    return LevelsPicture(levels)


def settled(picture: Any) -> Any:
    """What leaves a pipeline: of a PIL image that waits, one with pixels."""
    if getattr(picture, "levels", None) is None or not is_pil(picture):
        return picture
    from flambeau.vision.io import _waiting_picture

    return _waiting_picture.settled(picture)


def fits(mean: Sequence[float], std: Sequence[float], channels: int) -> bool:
    """Whether a picture of so many channels can be normalized with these; if not, the single step says why."""
    return all(std) and len(mean) in (1, channels) and len(std) in (1, channels)


def normalized(
    image: Tensor,
    size: tuple[int, int],
    part: tuple[int, int, int, int],
    mean: Sequence[float],
    std: Sequence[float],
    *,
    mode: InterpolationMode = InterpolationMode.BILINEAR,
    antialias: bool = True,
    flip: bool = False,
) -> Tensor:
    """Resize [..., C, H, W] to `size`, cut out `part`, mirror, scale to [0, 1], normalize.

    Args:
        image: uint8.
        size: (height, width) of the whole.
        part: top, left, height, width.
        mean: one number, or one for each channel.
        std: likewise.
        mode: bilinear or bicubic.
        antialias: low-pass filter where the picture shrinks.
        flip: exchange left and right.

    Returns:
        [..., C, height, width], float32, contiguous.
    """
    channels = image.shape[-3]
    shift, scale = _of_channels(tuple(mean), channels), _of_channels(tuple(std), channels)
    flat = _batch_of(image)
    cubic = mode is InterpolationMode.BICUBIC
    out = resize_normalize(flat, size, part, shift, scale, cubic=cubic, antialias=antialias, flip=flip)
    return out[0] if image.ndim == 3 else out.reshape(*image.shape[:-2], *part[2:])


def _batch_of(image: Tensor) -> Tensor:
    return image[None] if image.ndim == 3 else image.reshape(-1, *image.shape[-3:])


def _of_channels(numbers: tuple[float, ...], channels: int) -> Tensor:
    """One number for all channels, or one for each, as a tensor for each; not to be written to."""
    return torch.from_numpy(_array_of_channels(numbers, channels))


@functools.lru_cache(maxsize=64)
def _array_of_channels(numbers: tuple[float, ...], channels: int) -> NDArray[Any]:
    # No tensor: one that was made where tensors are fake, or may not be differentiated, would be found elsewhere.
    import numpy as np

    return np.full(channels, numbers, np.float32)


def resized(image: Tensor, size: tuple[int, int], *, mode: InterpolationMode, antialias: bool, flip: bool) -> Tensor:
    """Resize [..., C, H, W] to `size` and mirror it."""
    out = resize(_batch_of(image), size, cubic=mode is InterpolationMode.BICUBIC, antialias=antialias, flip=flip)
    return out[0] if image.ndim == 3 else out.reshape(*image.shape[:-2], *size)
