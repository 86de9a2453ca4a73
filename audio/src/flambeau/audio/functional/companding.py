"""Mu-law companding: waveforms as a few levels, fine near 0 and coarse near 1 (ITU-T G.711)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["mu_law_decoding", "mu_law_encoding"]


def mu_law_encoding(x: Tensor, quantization_channels: int) -> Tensor:
    """Turn a waveform into levels.

    Args:
        x: any shape, in [-1, 1]. Integers are read as numbers, not scaled.
        quantization_channels: number of levels, for example 256.

    Returns:
        Shape of `x`, int64, in [0, quantization_channels). No gradient.
    """
    mu = quantization_channels - 1.0
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    squeezed = torch.sign(x) * torch.log1p(mu * torch.abs(x)) / math.log1p(mu)
    return ((squeezed + 1) / 2 * mu + 0.5).to(torch.int64)


def mu_law_decoding(x_mu: Tensor, quantization_channels: int) -> Tensor:
    """Turn levels into a waveform.

    Args:
        x_mu: any shape, in [0, quantization_channels); integers, or floating point, which keeps its gradient.
        quantization_channels: number of levels.

    Returns:
        Shape of `x_mu`, floating point, in [-1, 1].
    """
    mu = quantization_channels - 1.0
    if not x_mu.is_floating_point():
        x_mu = x_mu.to(torch.get_default_dtype())
    squeezed = x_mu / mu * 2 - 1.0
    return torch.sign(squeezed) * torch.expm1(torch.abs(squeezed) * math.log1p(mu)) / mu
