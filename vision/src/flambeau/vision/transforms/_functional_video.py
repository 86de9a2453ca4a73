"""Functions of clips [C, T, H, W], which old video pipelines import from here.

Newer code keeps clips as [T, C, H, W] and uses `transforms.v2.functional`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

__all__ = ["center_crop", "crop", "hflip", "normalize", "resize", "resized_crop", "to_tensor"]


def _is_tensor_video_clip(clip: Tensor) -> bool:
    """True for a tensor with four dimensions.

    Raises:
        TypeError: `clip` is no tensor.
        ValueError: it has another number of dimensions.
    """
    if not isinstance(clip, Tensor):
        raise TypeError(f"clip is a {type(clip).__name__}, expected a tensor.")
    if clip.ndim != 4:
        raise ValueError(f"clip has the shape {tuple(clip.shape)}, expected four dimensions.")
    return True


def crop(clip: Tensor, i: int, j: int, h: int, w: int) -> Tensor:
    """Cut the rectangle of `h` rows from row `i` and `w` columns from column `j` out of [C, T, H, W], as a view."""
    _is_tensor_video_clip(clip)
    return clip[..., i : i + h, j : j + w]


def resize(clip: Tensor, target_size: Sequence[int], interpolation_mode: str) -> Tensor:
    """Resize a floating clip [C, T, H, W] without antialiasing.

    Args:
        clip: the frames.
        target_size: height and width.
        interpolation_mode: "nearest", "bilinear" or "bicubic".

    Raises:
        ValueError: `target_size` has not two numbers.
    """
    if len(target_size) != 2:
        raise ValueError(f"target_size is {tuple(target_size)}, expected height and width.")
    align = None if interpolation_mode == "nearest" else False
    return interpolate(clip, size=tuple(target_size), mode=interpolation_mode, align_corners=align)


def resized_crop(
    clip: Tensor, i: int, j: int, h: int, w: int, size: Sequence[int], interpolation_mode: str = "bilinear"
) -> Tensor:
    """`crop`, then `resize` to `size`."""
    return resize(crop(clip, i, j, h, w), size, interpolation_mode)


def center_crop(clip: Tensor, crop_size: tuple[int, int]) -> Tensor:
    """Cut `crop_size` (height, width) out of the middle of [C, T, H, W], as a view.

    Raises:
        ValueError: the frames are smaller.
    """
    _is_tensor_video_clip(clip)
    height, width = clip.shape[-2:]
    h, w = crop_size
    if height < h or width < w:
        raise ValueError(f"The frames are {height}x{width}, expected height and width no smaller than {h}x{w}.")
    return crop(clip, round((height - h) / 2.0), round((width - w) / 2.0), h, w)


def to_tensor(clip: Tensor) -> Tensor:
    """Turn [T, H, W, C], uint8, into [C, T, H, W], float32 in [0, 1].

    Raises:
        TypeError: `clip` is not uint8.
    """
    _is_tensor_video_clip(clip)
    if clip.dtype != torch.uint8:
        raise TypeError(f"clip is {clip.dtype}, expected torch.uint8.")
    return clip.float().permute(3, 0, 1, 2) / 255.0


def normalize(clip: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """Subtract `mean` from each channel of a floating [C, T, H, W], and divide by `std`; `inplace` changes `clip`."""
    _is_tensor_video_clip(clip)
    result = clip if inplace else clip.clone()
    shape = (-1, 1, 1, 1)
    return result.sub_(result.new_tensor(mean).view(shape)).div_(result.new_tensor(std).view(shape))


def hflip(clip: Tensor) -> Tensor:
    """Mirror [C, T, H, W] left to right."""
    _is_tensor_video_clip(clip)
    return clip.flip(-1)
