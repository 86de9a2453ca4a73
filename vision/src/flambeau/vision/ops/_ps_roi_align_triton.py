"""`ps_roi_align` for CUDA and XPU, in Triton. Imported when first needed."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from torch import Tensor

from flambeau.vision.ops import _roi_pooling
from flambeau.vision.ops._roi_pooling_triton import refuse_if_deterministic
from flambeau.vision.ops._roi_samples_triton import pool, spread
from flambeau.vision.ops.ps_roi_align import _channels, _fake, _fake_backward


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, high: int, wide: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """`torch.ops.flambeau_vision.ps_roi_align` on tensors of an accelerator."""
    pooled, mapping = _fake(input, rois, spatial_scale, high, wide, sampling_ratio)
    mapping.copy_(_channels(pooled.shape[1], (high, wide), input.device))
    pool(
        _roi_pooling.in_layout_of(input, input), rois, pooled, scale=spatial_scale, bins=(high, wide),
        sampling_ratio=sampling_ratio, aligned=True, sensitive=True,
    )  # fmt: skip
    return pooled, mapping


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, high: int, wide: int,
    sampling_ratio: int, images: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """Its gradient."""
    refuse_if_deterministic("ps_roi_align backward")
    sizes = (images, channels, height, width)
    _fake_backward(grad, rois, channel_mapping, spatial_scale, high, wide, sampling_ratio, *sizes)
    return spread(
        grad, rois, sizes, scale=spatial_scale, bins=(high, wide), sampling_ratio=sampling_ratio, aligned=True,
        sensitive=True,
    )  # fmt: skip
