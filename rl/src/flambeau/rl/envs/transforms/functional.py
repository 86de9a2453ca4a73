"""What transforms of observations compute, as functions of tensors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["cat_frames", "rgb_to_grayscale"]

_LUMA = (0.2989, 0.587, 0.114)


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """Luminance of images, 0.2989 R + 0.587 G + 0.114 B (ITU-R BT.601).

    Args:
        img: (..., C, height, width) with 3 channels, or 1, which stay as they are.
        num_output_channels: 1, or 3 equal ones.

    Returns:
        (..., num_output_channels, height, width) of the same dtype; integers are rounded down.

    Raises:
        TypeError: fewer than three dimensions, or another number of channels.
        ValueError: another number of channels to give.
    """
    if img.ndim < 3:
        raise TypeError(
            f"img has {img.ndim} dimensions; an image has at least the three of channels, height and width."
        )
    channels = img.shape[-3]
    if channels not in (1, 3):
        raise TypeError(f"img has {channels} channels in dimension -3; only images of 1 or 3 have a luminance.")
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels is {num_output_channels}, expected 1 or 3.")
    if channels == 3:
        red, green, blue = img.unbind(-3)
        gray = (
            (_LUMA[0] * red).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])
            if img.is_floating_point()
            else (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue)
        )
        img = gray.to(img.dtype).unsqueeze(-3)
    return img if num_output_channels == 1 else img.expand(*img.shape[:-3], 3, *img.shape[-2:])


def cat_frames(
    tensor: Tensor,
    N: int,
    dim: int,
    *,
    padding: Literal["same", "constant"] = "same",
    padding_value: float = 0.0,
    time_dim: int = -1,
    done_mask: Tensor | None = None,
) -> Tensor:
    """The last N frames at every time, one behind the other along a dimension (Mnih et al. 2013, arXiv:1312.5602).

    Args:
        tensor: frames, with a dimension of time.
        N: number of frames.
        dim: along which frames are concatenated; counted from the end.
        padding: what stands for frames before the first: "same" repeats the first, "constant" takes `padding_value`.
        padding_value: see `padding`.
        time_dim: the dimension of time; counted from the end.
        done_mask: (*batch, time, N), true for those frames of a window that belong to another trajectory; they are
            padded, too.

    Returns:
        The tensor with N times its size along `dim`.

    Raises:
        ValueError: a dimension is not negative, or the padding is of another kind.

    Example:
        >>> cat_frames(torch.arange(3.0).view(3, 1), N=2, dim=-1, time_dim=-2)
        tensor([[0., 0.],
                [0., 1.],
                [1., 2.]])
    """
    if dim >= 0 or time_dim >= 0:
        raise ValueError(f"dim is {dim}, time_dim {time_dim}; they are counted from the end, and must be negative.")
    if padding not in ("same", "constant"):
        raise ValueError(f"padding is {padding!r}, expected 'same' or 'constant'.")
    time = tensor.ndim + time_dim
    steps = torch.arange(tensor.shape[time], device=tensor.device).unsqueeze(-1)
    index = steps + torch.arange(1 - N, 1, device=tensor.device)
    absent = index < 0
    if done_mask is not None:
        # The oldest frame of the own trajectory stands for those of others.
        oldest = (~done_mask).to(torch.uint8).argmax(-1, keepdim=True)
        index = torch.where(done_mask, steps + (1 - N) + oldest, index)
        absent = absent | done_mask
    frames = frames_at(tensor, time, index.clamp_(min=0))
    if padding == "constant":
        frames.masked_fill_(absent.reshape(*absent.shape, *[1] * (frames.ndim - 2 - time)), padding_value)
    return joined(frames, time + 1, dim)


def frames_at(tensor: Tensor, time: int, index: Tensor) -> Tensor:
    """Frames at given times.

    Args:
        tensor: (*batch, time, *frame).
        time: number of dimensions of the batch.
        index: (time, N) or (*batch, time, N), which frames to take.

    Returns:
        (*batch, time, N, *frame), in memory of its own.
    """
    steps, count = tensor.shape[time], index.shape[-1]
    if index.ndim == 2:
        return tensor.index_select(time, index.flatten()).unflatten(time, (steps, count))  # type: ignore[no-any-return]
    batch = tensor.shape[:time]
    first = torch.arange(0, batch.numel() * steps, steps, device=index.device).view(*batch, 1, 1)
    frames = tensor.flatten(0, time).index_select(0, (index + first).flatten())
    return frames.view(*batch, steps, count, *tensor.shape[time + 1 :])


def joined(frames: Tensor, axis: int, dim: int) -> Tensor:
    """Frames one behind the other along a dimension.

    Args:
        frames: with the frames' number as dimension `axis`.
        axis: see there.
        dim: counted from the end.
    """
    before = frames.ndim - 1 + dim
    return frames.movedim(axis, before).flatten(before, before + 1)
