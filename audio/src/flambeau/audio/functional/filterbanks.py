"""Matrices of feature extraction: triangular filters on the mel and the linear scale, and the cosine transform."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

__all__ = ["create_dct", "linear_fbanks", "melscale_fbanks", "triangles"]

# Slaney's scale: linear up to 1 kHz, 3 mel per 200 Hz; above, 27 mel per factor of 6.4.
_BREAK_HZ = 1000.0
_HZ_PER_MEL = 200.0 / 3
_BREAK_MEL = _BREAK_HZ / _HZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27


def melscale_fbanks(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_mels: int,
    sample_rate: int,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Tensor:
    """Make triangular filters whose centres are equally spaced on the mel scale.

    Args:
        n_freqs: bins of the spectrum, from 0 Hz to half the sample rate.
        f_min: lower end of the first filter, in Hz.
        f_max: upper end of the last filter, in Hz.
        n_mels: number of filters.
        sample_rate: in Hz.
        norm: "slaney" gives every filter the same area, None the same height.
        mel_scale: "htk", 2595 log10(1 + f / 700), or "slaney", linear below 1 kHz and logarithmic above.

    Returns:
        (n_freqs, n_mels): spectra of shape (..., n_freqs) times this are filtered. Warns about filters that fall
        between two bins and are zero throughout.

    Raises:
        ValueError: unknown `norm` or `mel_scale`.
    """
    if norm not in (None, "slaney"):
        raise ValueError(f"melscale_fbanks: norm is {norm!r}, expected None or 'slaney'.")
    if mel_scale not in ("htk", "slaney"):
        raise ValueError(f"melscale_fbanks: mel_scale is {mel_scale!r}, expected 'htk' or 'slaney'.")
    low, high = _hz_to_mel(f_min, mel_scale), _hz_to_mel(f_max, mel_scale)
    corners = _mel_to_hz(torch.linspace(low, high, n_mels + 2, dtype=torch.float64), mel_scale)
    bank = triangles(n_freqs, sample_rate, corners)
    if norm == "slaney":
        bank = bank * (2.0 / (corners[2:] - corners[:-2]))
    warn_of_empty(bank, "melscale_fbanks", f"n_mels is {n_mels}, n_freqs {n_freqs}")
    return bank.to(torch.get_default_dtype())


def linear_fbanks(n_freqs: int, f_min: float, f_max: float, n_filter: int, sample_rate: int) -> Tensor:
    """Make triangular filters whose centres are equally spaced in frequency.

    Args:
        n_freqs: bins of the spectrum, from 0 Hz to half the sample rate.
        f_min: lower end of the first filter, in Hz.
        f_max: upper end of the last filter, in Hz.
        n_filter: number of filters.
        sample_rate: in Hz.

    Returns:
        (n_freqs, n_filter).
    """
    corners = torch.linspace(f_min, f_max, n_filter + 2, dtype=torch.float64)
    return triangles(n_freqs, sample_rate, corners).to(torch.get_default_dtype())


def create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> Tensor:
    """Make the matrix of the cosine transform (DCT-II) that turns log mel energies into cepstral coefficients.

    Args:
        n_mfcc: coefficients to keep.
        n_mels: values to transform.
        norm: "ortho" for orthonormal columns, None for twice the cosine.

    Returns:
        (n_mels, n_mfcc): values of shape (..., n_mels) times this are transformed.

    Raises:
        ValueError: unknown `norm`.
    """
    if norm not in (None, "ortho"):
        raise ValueError(f"create_dct: norm is {norm!r}, expected None or 'ortho'.")
    n = torch.arange(n_mels, dtype=torch.float64).unsqueeze(1)
    k = torch.arange(n_mfcc, dtype=torch.float64)
    matrix = torch.cos(math.pi / n_mels * (n + 0.5) * k)
    if norm is None:
        matrix = 2.0 * matrix
    else:
        matrix = matrix * torch.where(k == 0, math.sqrt(1.0 / n_mels), math.sqrt(2.0 / n_mels))
    return matrix.to(torch.get_default_dtype())


def triangles(n_freqs: int, sample_rate: int, corners: Tensor) -> Tensor:
    """Triangles over a spectrum's bins: filter i rises from corners[i] to corners[i + 1] and falls to corners[i + 2].

    Args:
        n_freqs: bins, from 0 Hz to half the sample rate.
        sample_rate: in Hz.
        corners: (filters + 2,), ascending, in Hz, float64.

    Returns:
        (n_freqs, filters), float64, in [0, 1].
    """
    frequency = torch.linspace(0, sample_rate // 2, n_freqs, dtype=torch.float64).unsqueeze(1)
    width = corners[1:] - corners[:-1]
    rising = (frequency - corners[:-2]) / width[:-1]
    falling = (corners[2:] - frequency) / width[1:]
    return torch.minimum(rising, falling).clamp(min=0.0)


def warn_of_empty(bank: Tensor, name: str, cause: str) -> None:
    """Say that some filters are zero throughout, which is not an error but seldom wanted. Silent inside of graphs."""
    if torch.compiler.is_compiling() or bank.device.type == "meta":
        return
    empty = int((bank.amax(0) == 0.0).sum())
    if empty:
        warnings.warn(
            f"{name}: {empty} filters are zero throughout: {cause}; use fewer filters or more bins.", stacklevel=3
        )


def _hz_to_mel(frequency: float, scale: str) -> float:
    if scale == "htk":
        return 2595.0 * math.log10(1.0 + frequency / 700.0)
    if frequency < _BREAK_HZ:
        return frequency / _HZ_PER_MEL
    return _BREAK_MEL + math.log(frequency / _BREAK_HZ) / _LOG_STEP


def _mel_to_hz(mels: Tensor, scale: str) -> Tensor:
    if scale == "htk":
        return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    above = _BREAK_HZ * torch.exp(_LOG_STEP * (mels - _BREAK_MEL))
    return torch.where(mels < _BREAK_MEL, mels * _HZ_PER_MEL, above)
