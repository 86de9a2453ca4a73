"""Kaldi's mel scale: m = 1127 ln(1 + f / 700), its triangular filters, and the warping of vocal tract lengths."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def mel_scale_scalar(freq: float) -> float:
    """Mel of a frequency in Hz."""
    return 1127.0 * math.log(1.0 + freq / 700.0)


def inverse_mel_scale_scalar(mel_freq: float) -> float:
    """Frequency in Hz of a mel."""
    return 700.0 * (math.exp(mel_freq / 1127.0) - 1.0)


def mel_scale(freq: Tensor) -> Tensor:
    """Mels of frequencies in Hz, of any shape."""
    return 1127.0 * (1.0 + freq / 700.0).log()


def inverse_mel_scale(mel_freq: Tensor) -> Tensor:
    """Frequencies in Hz of mels, of any shape."""
    return 700.0 * ((mel_freq / 1127.0).exp() - 1.0)


def vtln_warp_freq(
    vtln_low_cutoff: float,
    vtln_high_cutoff: float,
    low_freq: float,
    high_freq: float,
    vtln_warp_factor: float,
    freq: Tensor,
) -> Tensor:
    """Warp frequencies for another length of the vocal tract, piecewise linearly and onto the same range.

    Args:
        vtln_low_cutoff: where the lowest piece ends, Hz, above `low_freq`.
        vtln_high_cutoff: where the highest begins, Hz, below `high_freq`.
        low_freq: lowest frequency of the filters, Hz; what lies below stays.
        high_freq: highest, Hz; what lies above stays.
        vtln_warp_factor: the middle piece is divided by it.
        freq: Hz, any shape.

    Returns:
        Same shape, Hz.

    Raises:
        ValueError: cutoffs that are not inside the range, before or after warping.
    """
    low = vtln_low_cutoff * max(1.0, vtln_warp_factor)
    high = vtln_high_cutoff * min(1.0, vtln_warp_factor)
    if not (vtln_low_cutoff > low_freq and vtln_high_cutoff < high_freq and low > low_freq and high < high_freq):
        raise ValueError(
            f"vtln_warp_freq: cutoffs {vtln_low_cutoff} and {vtln_high_cutoff} Hz, warped by {vtln_warp_factor}, "
            f"expected inside {low_freq} to {high_freq} Hz; move them."
        )
    scale = 1.0 / vtln_warp_factor
    left = (scale * low - low_freq) / (low - low_freq)
    right = (high_freq - scale * high) / (high_freq - high)
    warped = torch.where(freq < high, scale * freq, high_freq + right * (freq - high_freq))
    warped = torch.where(freq < low, low_freq + left * (freq - low_freq), warped)
    return torch.where((freq < low_freq) | (freq > high_freq), freq, warped)


def vtln_warp_mel_freq(
    vtln_low_cutoff: float,
    vtln_high_cutoff: float,
    low_freq: float,
    high_freq: float,
    vtln_warp_factor: float,
    mel_freq: Tensor,
) -> Tensor:
    """`vtln_warp_freq` on mels.

    Args:
        vtln_low_cutoff: see `vtln_warp_freq`; Hz, as all but the last.
        vtln_high_cutoff: see there.
        low_freq: see there.
        high_freq: see there.
        vtln_warp_factor: see there.
        mel_freq: mels, any shape.

    Returns:
        Same shape, mels.
    """
    warped = vtln_warp_freq(
        vtln_low_cutoff, vtln_high_cutoff, low_freq, high_freq, vtln_warp_factor, inverse_mel_scale(mel_freq)
    )
    return mel_scale(warped)


def get_mel_banks(
    num_bins: int,
    window_length_padded: int,
    sample_freq: float,
    low_freq: float,
    high_freq: float,
    vtln_low: float,
    vtln_high: float,
    vtln_warp_factor: float,
) -> tuple[Tensor, Tensor]:
    """Triangular filters, evenly spaced in mels.

    Args:
        num_bins: filters, more than 3.
        window_length_padded: samples of the transform, even.
        sample_freq: Hz.
        low_freq: where the first filter begins, Hz.
        high_freq: where the last ends, Hz; 0 or below counts from half the sample rate.
        vtln_low: lower cutoff of the warping, Hz.
        vtln_high: upper cutoff, Hz; below 0 counts from half the sample rate.
        vtln_warp_factor: 1 does not warp.

    Returns:
        Filters (num_bins, window_length_padded / 2) without one for the highest frequency, and the frequencies of their
        centres in Hz, (num_bins, 1); float32.

    Raises:
        ValueError: frequencies outside the range, or too few filters.
    """
    nyquist = 0.5 * sample_freq
    high_freq = high_freq + nyquist if high_freq <= 0.0 else high_freq
    vtln_high = vtln_high + nyquist if vtln_high < 0.0 else vtln_high
    if num_bins <= 3 or window_length_padded % 2:
        raise ValueError(
            f"get_mel_banks: {num_bins} filters on transforms of {window_length_padded}, expected more than 3 on an "
            "even number."
        )
    if not 0.0 <= low_freq < high_freq <= nyquist:
        raise ValueError(
            f"get_mel_banks: filters from {low_freq} to {high_freq} Hz, expected a range inside 0 to {nyquist} Hz."
        )
    warps = vtln_warp_factor != 1.0
    if warps and not low_freq < vtln_low < vtln_high < high_freq:
        raise ValueError(
            f"get_mel_banks: cutoffs {vtln_low} and {vtln_high} Hz, expected ascending inside {low_freq} to "
            f"{high_freq} Hz."
        )
    lowest = mel_scale_scalar(low_freq)
    step = (mel_scale_scalar(high_freq) - lowest) / (num_bins + 1)
    edges = lowest + torch.arange(num_bins + 2, dtype=torch.float32) * step
    left, centre, right = (edges[i : num_bins + i].unsqueeze(1) for i in range(3))
    if warps:
        cutoffs = (vtln_low, vtln_high, low_freq, high_freq, vtln_warp_factor)
        left, centre, right = (vtln_warp_mel_freq(*cutoffs, mels) for mels in (left, centre, right))
    places = mel_scale(
        torch.arange(window_length_padded // 2, dtype=torch.float32) * (sample_freq / window_length_padded)
    )
    up, down = (places - left) / (centre - left), (right - places) / (right - centre)
    return torch.minimum(up, down).clamp(min=0.0), inverse_mel_scale(centre)
