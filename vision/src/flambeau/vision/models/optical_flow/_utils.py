"""Coordinates of pixels, sampling at them, and enlarging a field of motion."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["grid_sample", "make_coords_grid", "upsample_flow"]


def grid_sample(
    img: Tensor, absolute_grid: Tensor, mode: str = "bilinear", align_corners: bool | None = None
) -> Tensor:
    """Sample pictures at coordinates counted in pixels.

    Args:
        img: (N, C, H, W).
        absolute_grid: (N, H', W', 2), x from 0 to W - 1 and y from 0 to H - 1; outside there are zeros.
        mode: as for `torch.nn.functional.grid_sample`.
        align_corners: as there.

    Returns:
        (N, C, H', W').
    """
    height, width = img.shape[-2:]
    x, y = absolute_grid.unbind(-1)
    # A side of one pixel has no extent to normalize by: everything is sampled at its only row or column.
    x = 2 * x / (width - 1) - 1 if width > 1 else x
    y = 2 * y / (height - 1) - 1 if height > 1 else y
    return F.grid_sample(img, torch.stack([x, y], dim=-1), mode=mode, align_corners=align_corners)


def make_coords_grid(batch_size: int, h: int, w: int, device: torch.device | str = "cpu") -> Tensor:
    """The coordinates (x, y) of every pixel, (batch_size, 2, h, w), float32."""
    y, x = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    return torch.stack([x, y]).float().expand(batch_size, -1, -1, -1)


def upsample_flow(flow: Tensor, up_mask: Tensor | None = None, factor: int = 8) -> Tensor:
    """Enlarge a field of motion, and the motions with it.

    Args:
        flow: (N, C, H, W), in pixels.
        up_mask: logits (N, 9 * factor * factor, H, W): each new pixel is a convex combination of the 3x3 old ones
            around its own (section 3.3 of the paper). None interpolates linearly.
        factor: how much larger the result is.

    Returns:
        (N, C, factor * H, factor * W), in new pixels.
    """
    batch, channels, height, width = flow.shape
    if up_mask is None:
        size = (height * factor, width * factor)
        return factor * F.interpolate(flow, size=size, mode="bilinear", align_corners=True)
    weights = up_mask.view(batch, 1, 9, factor, factor, height, width).softmax(dim=2)
    around = F.unfold(factor * flow, kernel_size=3, padding=1).view(batch, channels, 9, 1, 1, height, width)
    fine = (weights * around).sum(dim=2)  # (N, C, factor, factor, H, W)
    return fine.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, height * factor, width * factor)
