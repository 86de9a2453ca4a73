"""Loudness as ITU-R BS.1770-4 measures it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.audio.functional.biquads import highpass_biquad, treble_biquad

__all__ = ["loudness"]

_BLOCK_S = 0.4
_OVERLAP = 0.75
_ABSOLUTE_GATE = -70.0
_RELATIVE_GATE = -10.0
_OFFSET = -0.691
# Left, right, centre, and the two surrounds.
_CHANNEL_GAINS = (1.0, 1.0, 1.0, 1.41, 1.41)


def loudness(waveform: Tensor, sample_rate: int) -> Tensor:
    """Measure the loudness of whole programmes, gated.

    Args:
        waveform: (..., channel, time), full scale [-1, 1], at most 5 channels: left, right, centre, left and right
            surround. At least 0.4 s.
        sample_rate: Hz.

    Returns:
        (...), LKFS (the same as LUFS), same dtype; -inf or NaN where nothing is above the gates. Differentiable.

    Raises:
        ValueError: more than five channels, or too short.

    Note:
        Upstream: what passes full scale after weighting is cut to it. Scale a waveform that is at full scale down, and
        add what that took away in dB.

    References:
        ITU-R BS.1770-4 (2015), Annex 1.
    """
    channels = waveform.shape[-2] if waveform.ndim >= 2 else 0
    if not 1 <= channels <= len(_CHANNEL_GAINS):
        raise ValueError(f"loudness: waveform has shape {tuple(waveform.shape)}, expected (..., 1 to 5, time).")
    block, hop = round(_BLOCK_S * sample_rate), round(_BLOCK_S * (1 - _OVERLAP) * sample_rate)
    if waveform.shape[-1] < block:
        raise ValueError(f"loudness: waveform has {waveform.shape[-1]} samples, expected {block}: {_BLOCK_S} s.")
    energy = _weighted(waveform, sample_rate).square().unfold(-1, block, hop).mean(-1)
    gains = torch.tensor(_CHANNEL_GAINS[:channels], dtype=energy.dtype, device=energy.device)[:, None]
    blocks = _in_lkfs((gains * energy).sum(-2))
    audible = blocks > _ABSOLUTE_GATE
    gate = _in_lkfs(_mean_where(audible, gains * energy)) + _RELATIVE_GATE
    return _in_lkfs(_mean_where(audible & (blocks > gate.unsqueeze(-1)), gains * energy))


def _in_lkfs(energy: Tensor) -> Tensor:
    return _OFFSET + 10 * torch.log10(energy)


def _mean_where(gated: Tensor, energy: Tensor) -> Tensor:
    """Mean over the blocks that pass the gate, summed over channels; NaN where none does."""
    chosen = torch.where(gated.unsqueeze(-2), energy, 0.0)
    return (chosen.sum(-1) / gated.sum(-1, keepdim=True)).sum(-1)


def _weighted(waveform: Tensor, sample_rate: int) -> Tensor:
    """K-weighting: a shelf for the acoustic effect of the head, then a filter against very low frequencies."""
    return highpass_biquad(treble_biquad(waveform, sample_rate, 4.0, 1500.0, 1 / math.sqrt(2)), sample_rate, 38.0, 0.5)
