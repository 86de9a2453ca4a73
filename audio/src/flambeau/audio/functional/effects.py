"""Effects that treat each sample by itself, or nearly: gain, shift, contrast, overdrive."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.audio.functional.iir import lfilter

__all__ = ["contrast", "dcshift", "gain", "overdrive"]


def gain(waveform: Tensor, gain_db: float = 1.0) -> Tensor:
    """Amplify, without a limit.

    Args:
        waveform: (..., time).
        gain_db: dB; 0 returns the waveform itself.

    Returns:
        Same shape and dtype.
    """
    return waveform if gain_db == 0 else waveform * 10 ** (gain_db / 20)


def contrast(waveform: Tensor, enhancement_amount: float = 75.0) -> Tensor:
    """Make a recording sound louder, as a compressor does, by bending each sample's value.

    Args:
        waveform: (..., time), in [-1, 1].
        enhancement_amount: 0 to 100; 0 bends too.

    Returns:
        Same shape and dtype, in [-1, 1].

    Raises:
        ValueError: the amount is outside its range.
    """
    if not 0 <= enhancement_amount <= 100:
        raise ValueError(f"contrast: enhancement_amount is {enhancement_amount}, expected a number from 0 to 100.")
    bend = waveform * (math.pi / 2)
    return torch.sin(bend + enhancement_amount / 750 * torch.sin(4 * bend))


def dcshift(waveform: Tensor, shift: float, limiter_gain: float | None = None) -> Tensor:
    """Add a constant, and cut to [-1, 1] or compress what comes near.

    Args:
        waveform: (..., time), in [-1, 1].
        shift: in [-2, 2].
        limiter_gain: below 1, usually 0.05 or less: samples beyond 1 - (|shift| - limiter_gain) on the side of the
            shift are compressed by it. None cuts.

    Returns:
        Same shape and dtype, in [-1, 1].
    """
    if not limiter_gain or shift == 0:
        return (waveform + shift).clamp(-1.0, 1.0)
    threshold = 1.0 - (abs(shift) - limiter_gain)
    # Upwards, as if the shift were positive; the other direction is the mirror image.
    side = 1.0 if shift > 0 else -1.0
    upright = waveform * side
    excess = (upright - threshold) * limiter_gain / (1 - threshold)
    limited = (excess + threshold + abs(shift)).clamp(max=threshold)
    return side * torch.where(upright > threshold, limited, (upright + abs(shift)).clamp(-1.0, 1.0))


def overdrive(waveform: Tensor, gain: float = 20, colour: float = 20) -> Tensor:
    """Distort as an overdriven amplifier does: a cubic curve, mixed with the sound itself.

    Args:
        waveform: (..., time), in [-1, 1].
        gain: 0 to 100 dB before the curve.
        colour: 0 to 100; how uneven the curve is, hence how many even harmonics appear.

    Returns:
        Same shape and dtype, in [-1, 1].
    """
    driven = waveform * 10 ** (gain / 20) + colour / 200
    edge = driven.clamp(-1.0, 1.0)
    bent = edge - edge**3 / 3
    # Differences, leaking: what the colour added to the mean goes away.
    smooth = lfilter(bent, _coefficients(bent, 1.0, -0.995), _coefficients(bent, 1.0, -1.0), clamp=False)
    return (waveform * 0.5 + smooth * 0.75).clamp(-1.0, 1.0)


def _coefficients(like: Tensor, *values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=like.device)
