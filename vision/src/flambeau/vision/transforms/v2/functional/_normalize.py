"""Normalization with a mean and a standard deviation per channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops import _blur as kernels
from flambeau.vision.ops._color import serves


@functional(fallback=False)
def normalize(inpt: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """Subtract `mean` and divide by `std`, channel by channel.

    Args:
        inpt: [..., C, H, W], floating point.
        mean: one number per channel, or a single one for all.
        std: likewise, none of them 0.
        inplace: change the input instead of a copy of it.

    Returns:
        Same shape and dtype.

    Raises:
        TypeError: the image is not floating point.
        ValueError: it has fewer than three dimensions, `std` holds 0, or the numbers do not match the channels.
    """
    return normalize_image(inpt, mean, std, inplace)


@register_kernel(normalize, tv_tensors.Image)
def normalize_image(image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """`normalize` of a tensor [..., C, H, W]."""
    if not image.is_floating_point():
        raise TypeError(
            f"Input tensor should be a float tensor. Got {image.dtype}; convert with to_dtype(..., scale=True)."
        )
    if image.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got {list(image.shape)}.")
    if not all(std):
        raise ValueError(f"std evaluated to zero, leading to division by zero: {std}.")
    if any(len(numbers) != 1 and len(numbers) != image.shape[-3] for numbers in (mean, std)):
        raise ValueError(f"mean {mean} and std {std} need one number for all channels, or {image.shape[-3]}.")
    shift = torch.tensor(mean, dtype=image.dtype, device=image.device)
    scale = torch.tensor(std, dtype=image.dtype, device=image.device)
    if not inplace and serves(image):
        channels = image.shape[-3]
        flat = image.reshape(-1, *image.shape[-3:])
        return kernels.normalize(flat, shift.expand(channels), scale.expand(channels)).reshape(image.shape)
    shift, scale = shift.view(-1, 1, 1), scale.view(-1, 1, 1)
    centred = image.sub_(shift) if inplace else image.sub(shift)
    return centred.div_(scale)


@register_kernel(normalize, tv_tensors.Video)
def normalize_video(video: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """`normalize` of a video [..., T, C, H, W]."""
    return normalize_image(video, mean, std, inplace)
