"""Frames of videos."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors


@functional(fallback=False)
def uniform_temporal_subsample(inpt: Tensor, num_samples: int) -> Tensor:
    """Take frames at equal distances, the first and the last among them.

    Args:
        inpt: [..., T, C, H, W] of any dtype.
        num_samples: frames to take; more than there are repeats some.

    Returns:
        [..., num_samples, C, H, W]: the frames floor(k (T - 1) / (num_samples - 1)).

    Raises:
        ValueError: `num_samples` is not positive.
    """
    return uniform_temporal_subsample_video(inpt, num_samples)


@register_kernel(uniform_temporal_subsample, tv_tensors.Video)
def uniform_temporal_subsample_video(video: Tensor, num_samples: int) -> Tensor:
    """`uniform_temporal_subsample` of a tensor."""
    if num_samples < 1:
        raise ValueError(f"uniform_temporal_subsample: num_samples is {num_samples}, expected 1 or more.")
    frames = torch.linspace(0, video.shape[-4] - 1, num_samples, device=video.device).long()
    return video.index_select(-4, frames)
