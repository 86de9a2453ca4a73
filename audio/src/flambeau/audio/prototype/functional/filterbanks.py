"""Matrices that sum a spectrum's bins by critical bands (Bark) or by pitch classes (chroma)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flambeau.audio.functional.filterbanks import triangles, warn_of_empty

__all__ = ["barkscale_fbanks", "chroma_filterbank"]

_SCALES = ("traunmuller", "schroeder", "wang")


def barkscale_fbanks(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_barks: int,
    sample_rate: int,
    bark_scale: str = "traunmuller",
) -> Tensor:
    """Make triangular filters whose centres are equally spaced on the Bark scale.

    Args:
        n_freqs: bins of the spectrum, from 0 Hz to half the sample rate.
        f_min: lower end of the first filter, in Hz.
        f_max: upper end of the last filter, in Hz.
        n_barks: number of filters.
        sample_rate: in Hz.
        bark_scale: "traunmuller" (1990), "schroeder" (1979) or "wang" (1992).

    Returns:
        (n_freqs, n_barks). Warns about filters that fall between two bins and are zero throughout.

    Raises:
        ValueError: unknown `bark_scale`.
    """
    if bark_scale not in _SCALES:
        raise ValueError(f"barkscale_fbanks: bark_scale is {bark_scale!r}, expected one of {', '.join(_SCALES)}.")
    low, high = _hz_to_bark(f_min, bark_scale), _hz_to_bark(f_max, bark_scale)
    corners = _bark_to_hz(torch.linspace(low, high, n_barks + 2, dtype=torch.float64), low, bark_scale)
    bank = triangles(n_freqs, sample_rate, corners)
    warn_of_empty(bank, "barkscale_fbanks", f"n_barks is {n_barks}, n_freqs {n_freqs}")
    return bank.to(torch.get_default_dtype())


def chroma_filterbank(
    sample_rate: int,
    n_freqs: int,
    n_chroma: int,
    *,
    tuning: float = 0.0,
    ctroct: float = 5.0,
    octwidth: float | None = 2.0,
    norm: int = 2,
    base_c: bool = True,
) -> Tensor:
    """Make filters that sum a spectrum's bins by pitch class, whatever the octave.

    Args:
        sample_rate: in Hz.
        n_freqs: bins of the spectrum, from 0 Hz to half the sample rate.
        n_chroma: pitch classes, usually 12.
        tuning: deviation from A4 = 440 Hz, in classes.
        ctroct: octave that counts most, A0 being 0.
        octwidth: width of the Gaussian over octaves; None to count all alike.
        norm: order of the norm by which each bin's weights are divided.
        base_c: the first class is C, else A.

    Returns:
        (n_freqs, n_chroma).

    References:
        Ellis 2007, "Chroma feature analysis and synthesis".
    """
    frequency = torch.linspace(0, sample_rate // 2, n_freqs, dtype=torch.float64)[1:]
    concert_a0 = 440.0 * 2 ** (tuning / n_chroma) / 16
    pitch = n_chroma * torch.log2(frequency / concert_a0)
    # 0 Hz has no pitch: put it one and a half octaves below the first bin.
    pitch = torch.cat([pitch[:1] - 1.5 * n_chroma, pitch])
    width = torch.cat([(pitch[1:] - pitch[:-1]).clamp(min=1.0), pitch.new_ones(1)])
    half = round(n_chroma / 2)
    distance = pitch.unsqueeze(1) - torch.arange(n_chroma, dtype=torch.float64)
    distance = torch.remainder(distance + half, n_chroma) - half
    bank = torch.exp(-0.5 * (2 * distance / width.unsqueeze(1)).square())
    bank = torch.nn.functional.normalize(bank, p=norm, dim=1)
    if octwidth is not None:
        bank = bank * torch.exp(-0.5 * ((pitch.unsqueeze(1) / n_chroma - ctroct) / octwidth).square())
    if base_c:
        bank = bank.roll(-3 * (n_chroma // 12), 1)
    return bank.to(torch.get_default_dtype())


def _hz_to_bark(frequency: float, scale: str) -> float:
    if scale == "wang":
        return 6.0 * math.asinh(frequency / 600.0)
    if scale == "schroeder":
        return 7.0 * math.asinh(frequency / 650.0)
    bark = 26.81 * frequency / (1960.0 + frequency) - 0.53
    if bark < 2:
        return bark + 0.15 * (2 - bark)
    return bark + 0.22 * (bark - 20.1) if bark > 20.1 else bark


def _bark_to_hz(bark: Tensor, lowest: float, scale: str) -> Tensor:
    if scale == "wang":
        return 600.0 * torch.sinh(bark / 6.0)
    if scale == "schroeder":
        return 650.0 * torch.sinh(bark / 7.0)
    # Upstream: high barks are corrected only where there are no low ones, that is from f_min = 206 Hz on.
    if lowest < 2:
        straight = torch.where(bark < 2, (bark - 0.3) / 0.85, bark)
    else:
        straight = torch.where(bark > 20.1, (bark + 4.422) / 1.22, bark)
    return 1960.0 * (straight + 0.53) / (26.28 - straight)
