"""Optical flow in colours.

References:
    Baker et al., "A Database and Evaluation Methodology for Optical Flow", IJCV 2011, section 3 (the colour wheel).
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

# Steps from each hue to the next: red, yellow, green, cyan, blue, magenta and back to red.
_STEPS = (15, 6, 4, 11, 13, 6)


@torch.no_grad()
def flow_to_image(flow: Tensor) -> Tensor:
    """Show the direction of optical flow as hue and its length as saturation.

    Args:
        flow: [2, H, W] or [N, 2, H, W], floating point: (x, y) displacement in pixels. The longest one of all N gets
            the full colour, none at all is white.

    Returns:
        [3, H, W] or [N, 3, H, W], uint8, same device.

    Raises:
        ValueError: `flow` is no tensor, or has another dtype or shape.
    """
    _check_dtype(flow)
    if flow.ndim not in (3, 4) or flow.shape[-3] != 2:
        raise ValueError(f"flow has the shape {list(flow.shape)}, expected [2, H, W] or [N, 2, H, W].")
    if flow.dtype not in (torch.float32, torch.float64):
        flow = flow.float()
    if flow.numel() == 0:
        return flow.new_zeros((*flow.shape[:-3], 3, *flow.shape[-2:]), dtype=torch.uint8)
    longest = flow.square().sum(-3).sqrt().max()
    x, y = (flow / (longest + torch.finfo(flow.dtype).eps)).unbind(-3)
    wheel = _wheel().to(flow.device, flow.dtype)
    # Upstream: the wheel starts at the direction (-1, 0), and its last colour is as far from the first as from none.
    position = (torch.atan2(-y, -x) / math.pi + 1) / 2 * (len(wheel) - 1)
    below = position.floor().long().clamp(0, len(wheel) - 1)
    fraction = (position - below)[..., None]
    hue = (1 - fraction) * wheel[below] + fraction * wheel[(below + 1) % len(wheel)]
    length = (x.square() + y.square()).sqrt()[..., None]
    return (255 * (1 - length * (1 - hue))).floor().to(torch.uint8).movedim(-1, -3).contiguous()


def _check_dtype(flow: object) -> None:
    if not isinstance(flow, Tensor) or not flow.is_floating_point():
        kind = flow.dtype if isinstance(flow, Tensor) else f"a {type(flow).__name__}"
        raise ValueError(f"flow is {kind}, expected a tensor of floating point.")


@functools.cache
def _wheel() -> Tensor:
    """[55, 3], in [0, 1]: one channel rises or falls from each hue to the next."""
    colors, color = [], [255, 0, 0]
    for index, steps in enumerate(_STEPS):
        channel = (1 - index) % 3  # green, red, blue, green, red, blue
        rising = index % 2 == 0
        for step in range(steps):
            level = 255 * step // steps
            color[channel] = level if rising else 255 - level
            colors.append([value / 255 for value in color])
        color[channel] = 255 if rising else 0
    return torch.tensor(colors, dtype=torch.float64)
