"""Images of another size, with the numbers of torchvision's `resize` of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def resized(image: Tensor, height: int, width: int, mode: str) -> Tensor:
    """Resample images, with a wider kernel where they shrink.

    Args:
        image: (..., C, height, width), floating-point or integer.
        height: of the result.
        width: of the result.
        mode: one of `MODES`.

    Returns:
        (..., C, height, width) of the same dtype; integers are rounded, and stay in their range.
    """
    if image.shape[-2:] == (height, width):
        return image
    batch = image.reshape(-1, *image.shape[-3:])
    smooth = mode in ("bilinear", "bicubic")
    # In floating point: what torch makes of bytes by itself is off by one here and there.
    direct = image.is_floating_point() or (image.dtype is torch.uint8 and not smooth)
    values = batch if direct else batch.to(torch.float32)
    options = {"align_corners": False, "antialias": True} if smooth else {}
    out = interpolate(values, (height, width), mode=mode, **options)
    if not direct:
        if mode == "bicubic":  # which overshoots
            limits = torch.iinfo(image.dtype)
            out = out.clamp_(limits.min, limits.max)
        out = out.round_().to(image.dtype)
    return out.reshape(*image.shape[:-3], *out.shape[-3:])
