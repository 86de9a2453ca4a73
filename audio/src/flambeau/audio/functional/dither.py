"""Dither: noise that turns the error of rounding to 16 bits into a hiss that does not follow the signal."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dither"]

_STEPS = 2**15
# Upstream: full scale is two steps below that of 16 bits, so that the noise cannot pass it.
_SCALE = _STEPS - 2


def dither(waveform: Tensor, density_function: str = "TPDF", noise_shaping: bool = False) -> Tensor:
    """Round to 16 bits after adding noise of about one step. Draws from torch's generator of the waveform's device.

    Args:
        waveform: (..., time), in [-1, 1].
        density_function: of the noise: "TPDF" triangular, two steps wide, "RPDF" even, one step wide, or "GPDF"
            Gaussian, half a step of standard deviation. Any other word means "TPDF".
        noise_shaping: move the error's energy to high frequencies by feeding each sample's error back into the next.

    Returns:
        Same shape and dtype; multiples of 2**-15. No gradient.

    Note:
        Upstream adds the same ramp to every waveform, or one sample of the waveform itself; this is noise.

    References:
        Lipshitz, Wannamaker, Vanderkooy 1992, "Quantization and Dither: A Theoretical Survey".
    """
    steps = waveform.detach().to(torch.float64) * _SCALE
    noise = _noise(steps, density_function)
    if noise_shaping:
        # With error feedback, the sum of all results is the rounded sum of all samples: no loop is needed.
        sums = (steps.cumsum(-1) + noise).round()
        rounded = torch.diff(sums, prepend=torch.zeros_like(sums[..., :1]))
    else:
        rounded = (steps + noise).round()
    return (rounded / _STEPS).to(waveform.dtype)


def _noise(like: Tensor, density_function: str) -> Tensor:
    if density_function == "RPDF":
        return torch.rand_like(like) - 0.5
    if density_function == "GPDF":
        return torch.randn_like(like) / 2
    return torch.rand_like(like) - torch.rand_like(like)
