"""`roi_align` for CUDA and XPU, in Triton. Imported when first needed."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._roi_samples_triton import pool, spread
from flambeau.vision.ops.roi_align import _fake, _fake_backward, _reference_backward


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """`torch.ops.flambeau_vision.roi_align` on tensors of an accelerator."""
    pooled = _fake(input, rois, spatial_scale, high, wide, sampling_ratio, aligned)
    pool(
        _roi_pooling.in_layout_of(input, input), rois, pooled, scale=spatial_scale, bins=(high, wide),
        sampling_ratio=sampling_ratio, aligned=aligned, sensitive=False,
    )  # fmt: skip
    return pooled


def roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int,
    images: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """Its gradient. Where sums must be repeatable to the bit, the reference makes them."""
    sizes = (images, channels, height, width)
    if torch.are_deterministic_algorithms_enabled():
        return _reference_backward(grad, rois, spatial_scale, high, wide, *sizes, sampling_ratio, aligned)
    _fake_backward(grad, rois, spatial_scale, high, wide, *sizes, sampling_ratio, aligned)
    return spread(
        grad, rois, sizes, scale=spatial_scale, bins=(high, wide), sampling_ratio=sampling_ratio, aligned=aligned,
        sensitive=False,
    )  # fmt: skip
