"""Normalization with a mean and a standard deviation per channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops import _blur as kernels
from flambeau.vision.ops._color import serves

Statistics = float | Sequence[float] | Tensor
"""Means or deviations: one, one for each channel, or a tensor that broadcasts."""


@functional(fallback=False)
def normalize(inpt: Tensor, mean: Statistics, std: Statistics, inplace: bool = False) -> Tensor:
    """Subtract `mean` and divide by `std`, channel by channel.

    Args:
        inpt: [..., C, H, W], floating point.
        mean: one number per channel, or a single one for all; a tensor [C, 1, 1] or [C, H, W] has one for each pixel.
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
def normalize_image(image: Tensor, mean: Statistics, std: Statistics, inplace: bool = False) -> Tensor:
    """`normalize` of a tensor [..., C, H, W]."""
    if not image.is_floating_point():
        raise TypeError(
            f"normalize: the image is {image.dtype}, expected floating point; use to_dtype(..., scale=True) first."
        )
    if image.ndim < 3:
        raise ValueError(f"normalize: the image has the shape {list(image.shape)}, expected [..., C, H, W].")
    channels = image.shape[-3]
    if not inplace and serves(image) and _are_listed(mean, channels) and _are_listed(std, channels) and all(std):  # type: ignore[arg-type]
        # The usual call, in which checking and broadcasting tensors would take longer than the kernel.
        listed = (torch.tensor(one, dtype=torch.float32).expand(channels) for one in (mean, std))
        return kernels.normalize(image.reshape(-1, *image.shape[-3:]), *listed).reshape(image.shape)
    shift, scale = (_statistics(name, numbers, image) for name, numbers in (("mean", mean), ("std", std)))
    if _has_zero(std):
        raise ValueError(f"normalize: std is {std}, and no channel can be divided by 0; give another number there.")
    if not inplace and serves(image) and shift[0].numel() == scale[0].numel() == 1:
        flat = image.reshape(-1, *image.shape[-3:])
        numbers = (one.reshape(-1).expand(channels) for one in (shift, scale))
        return kernels.normalize(flat, *numbers).reshape(image.shape)
    centred = image.sub_(shift) if inplace else image.sub(shift)
    return centred.div_(scale)


def _are_listed(numbers: Statistics, channels: int) -> bool:
    """Whether statistics are a list of one number, or of one for each channel."""
    return isinstance(numbers, list | tuple) and len(numbers) in (1, channels)


def _has_zero(std: Statistics) -> bool:
    if not isinstance(std, Tensor):
        return not all(std if isinstance(std, Sequence) else [std])
    # Looking into a tensor would break a compiled graph in two.
    return not torch.compiler.is_compiling() and bool((std == 0).any())


def _statistics(name: str, numbers: Statistics, image: Tensor) -> Tensor:
    """As a tensor that broadcasts against [..., C, H, W]: [1 or C, 1 or H, 1 or W]."""
    values = torch.as_tensor(numbers, dtype=image.dtype, device=image.device)
    if values.ndim < 2:
        values = values.view(-1, 1, 1)
    channels = image.shape[-3:]
    if values.ndim != 3 or any(size not in (1, wanted) for size, wanted in zip(values.shape, channels, strict=True)):
        raise ValueError(
            f"{name} has the shape {list(torch.as_tensor(numbers).shape)}; for an image of shape {list(channels)} "
            f"give one number, {channels[0]} of them, or a tensor [{channels[0]}, 1, 1]."
        )
    return values


@register_kernel(normalize, tv_tensors.Video)
def normalize_video(video: Tensor, mean: Statistics, std: Statistics, inplace: bool = False) -> Tensor:
    """`normalize` of a video [..., T, C, H, W]."""
    return normalize_image(video, mean, std, inplace)
