"""Second-order filters by what they do: the audio cookbook's set, and SoX's band, de-emphasis and RIAA filters.

Every parameter but the sample rate may be a number or a tensor of one element; the result is differentiable with
respect to tensors. Filters are designed in the waveform's dtype: those of low frequencies at high sample rates are best
given float64 waveforms.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.functional.iir import lfilter

__all__ = [
    "allpass_biquad",
    "band_biquad",
    "bandpass_biquad",
    "bandreject_biquad",
    "bass_biquad",
    "biquad",
    "deemph_biquad",
    "equalizer_biquad",
    "highpass_biquad",
    "lowpass_biquad",
    "riaa_biquad",
    "treble_biquad",
]

# What a parameter may be.
Number = Any


def biquad(waveform: Tensor, b0: float, b1: float, b2: float, a0: float, a1: float, a2: float) -> Tensor:
    """Filter by a0 y[t] = b0 x[t] + b1 x[t - 1] + b2 x[t - 2] - a1 y[t - 1] - a2 y[t - 2]; cut to [-1, 1].

    Args:
        waveform: (..., time), see `lfilter`.
        b0: coefficient of x[t], a number or a tensor of one element; the others likewise.
        b1: of x[t - 1].
        b2: of x[t - 2].
        a0: of y[t], not 0.
        a1: of y[t - 1].
        a2: of y[t - 2].

    Returns:
        Same shape and dtype.

    Example:
        >>> biquad(torch.tensor([0.4, 0.0, 0.0]), 1.0, 0.5, 0.0, 1.0, 0.0, 0.0)
        tensor([0.4000, 0.2000, 0.0000])
    """
    return _filter(waveform, b0, b1, b2, a0, a1, a2)


def _filter(waveform: Tensor, *coefficients: Number) -> Tensor:
    """`biquad`, with coefficients that may be tensors."""
    return lfilter(waveform, _row(waveform, *coefficients[3:]), _row(waveform, *coefficients[:3]))


def _row(waveform: Tensor, *coefficients: Number) -> Tensor:
    return torch.stack([_parameter(waveform, value) for value in coefficients])


def _parameter(waveform: Tensor, value: Number) -> Tensor:
    # Upstream: filters are designed in the waveform's dtype. Its rounding matters where poles are close to the circle.
    dtype = torch.float64 if waveform.dtype == torch.float64 else torch.float32
    return torch.as_tensor(value, dtype=dtype, device=waveform.device).reshape(())


def _angle(waveform: Tensor, frequency: Number, sample_rate: int) -> Tensor:
    return 2 * math.pi * _parameter(waveform, frequency) / sample_rate


def _design(waveform: Tensor, frequency: Number, sample_rate: int, quality: Number) -> tuple[Tensor, Tensor]:
    """Alpha of the cookbook, and the cosine."""
    angle = _angle(waveform, frequency, sample_rate)
    return torch.sin(angle) / 2 / _parameter(waveform, quality), torch.cos(angle)


def _amplitude(waveform: Tensor, gain: Number) -> Tensor:
    """Square root of a gain in decibels: shelves and bells apply it twice."""
    return torch.exp(_parameter(waveform, gain) / 40 * math.log(10))


def lowpass_biquad(waveform: Tensor, sample_rate: int, cutoff_freq: float, Q: float = 0.707) -> Tensor:
    """Let low frequencies pass, with two poles: 12 dB per octave above the cutoff.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        cutoff_freq: Hz; -3 dB there for the default quality.
        Q: quality, > 0; 1/sqrt(2) gives the flattest response.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    alpha, cosine = _design(waveform, cutoff_freq, sample_rate, Q)
    edge = (1 - cosine) / 2
    return _filter(waveform, edge, 1 - cosine, edge, 1 + alpha, -2 * cosine, 1 - alpha)


def highpass_biquad(waveform: Tensor, sample_rate: int, cutoff_freq: float, Q: float = 0.707) -> Tensor:
    """Let high frequencies pass, with two poles: 12 dB per octave below the cutoff.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        cutoff_freq: Hz.
        Q: quality, > 0.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    alpha, cosine = _design(waveform, cutoff_freq, sample_rate, Q)
    edge = (1 + cosine) / 2
    return _filter(waveform, edge, -1 - cosine, edge, 1 + alpha, -2 * cosine, 1 - alpha)


def allpass_biquad(waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707) -> Tensor:
    """Change phases and no amplitude: the phase turns by 180 degrees at the central frequency.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        central_freq: Hz.
        Q: quality, > 0; the greater, the steeper the phase.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    alpha, cosine = _design(waveform, central_freq, sample_rate, Q)
    return _filter(waveform, 1 - alpha, -2 * cosine, 1 + alpha, 1 + alpha, -2 * cosine, 1 - alpha)


def bandpass_biquad(
    waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707, const_skirt_gain: bool = False
) -> Tensor:
    """Let a band of frequencies pass, with two poles.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        central_freq: Hz.
        Q: quality, > 0: central frequency over width.
        const_skirt_gain: keep the skirts of the response, so that the peak gain is Q, instead of 0 dB at the peak.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    alpha, cosine = _design(waveform, central_freq, sample_rate, Q)
    peak = alpha * _parameter(waveform, Q) if const_skirt_gain else alpha
    return _filter(waveform, peak, 0.0, -peak, 1 + alpha, -2 * cosine, 1 - alpha)


def bandreject_biquad(waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707) -> Tensor:
    """Stop a band of frequencies, with two poles.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        central_freq: Hz; nothing passes there.
        Q: quality, > 0: central frequency over width.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    alpha, cosine = _design(waveform, central_freq, sample_rate, Q)
    return _filter(waveform, 1.0, -2 * cosine, 1.0, 1 + alpha, -2 * cosine, 1 - alpha)


def equalizer_biquad(
    waveform: Tensor, sample_rate: int, center_freq: float, gain: float, Q: float = 0.707
) -> Tensor:  # fmt: skip
    """Raise or lower a band of frequencies.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        center_freq: Hz.
        gain: at the centre, dB; below 0 lowers.
        Q: quality, > 0: centre over width.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    amplitude = _amplitude(waveform, gain)
    alpha, cosine = _design(waveform, center_freq, sample_rate, Q)
    return _filter(
        waveform,
        1 + alpha * amplitude, -2 * cosine, 1 - alpha * amplitude,
        1 + alpha / amplitude, -2 * cosine, 1 - alpha / amplitude,
    )  # fmt: skip


def bass_biquad(
    waveform: Tensor, sample_rate: int, gain: float, central_freq: float = 100, Q: float = 0.707
) -> Tensor:  # fmt: skip
    """Raise or lower low frequencies by a shelf.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        gain: at 0 Hz, dB; about -20 to 20 is useful.
        central_freq: middle of the slope, Hz.
        Q: quality of the slope, > 0.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    return _shelf(waveform, _design(waveform, central_freq, sample_rate, Q), gain, 1.0)


def treble_biquad(
    waveform: Tensor, sample_rate: int, gain: float, central_freq: float = 3000, Q: float = 0.707
) -> Tensor:  # fmt: skip
    """Raise or lower high frequencies by a shelf.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        gain: at half the sample rate, dB; about -20 to 20 is useful.
        central_freq: middle of the slope, Hz.
        Q: quality of the slope, > 0.

    Returns:
        Same shape and dtype.

    References:
        Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    return _shelf(waveform, _design(waveform, central_freq, sample_rate, Q), gain, -1.0)


def _shelf(waveform: Tensor, design: tuple[Tensor, Tensor], gain: Number, side: float) -> Tensor:
    (alpha, cosine), amplitude = design, _amplitude(waveform, gain)
    return _filter(waveform, *shelf_coefficients(cosine, amplitude, 2 * torch.sqrt(amplitude) * alpha, side))


def shelf_coefficients(cosine: Number, amplitude: Number, slope: Number, side: float) -> tuple[Number, ...]:
    """b0, b1, b2, a0, a1, a2 of a shelf, in numbers or tensors.

    Args:
        cosine: of the angle of the middle of the slope.
        amplitude: square root of the shelf's gain.
        slope: 2 sqrt(amplitude) alpha.
        side: 1 for a shelf of low frequencies, -1 for one of high frequencies.
    """
    more, less = amplitude + 1, amplitude - 1
    turned_more, turned_less = side * more * cosine, side * less * cosine
    return (
        amplitude * (more - turned_less + slope),
        2 * side * amplitude * (less - turned_more),
        amplitude * (more - turned_less - slope),
        more + turned_less + slope,
        -2 * side * (less + turned_more),
        more + turned_less - slope,
    )


def band_biquad(
    waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707, noise: bool = False
) -> Tensor:
    """Let a band of frequencies pass, falling off linearly on both sides, as SoX's `band` does.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: Hz.
        central_freq: Hz.
        Q: quality, > 0: central frequency over width.
        noise: scale for unvoiced sound (noise) instead of for pitched sound.

    Returns:
        Same shape and dtype.
    """
    angle = _angle(waveform, central_freq, sample_rate)
    a2 = torch.exp(-angle / _parameter(waveform, Q))
    a1 = -4 * a2 / (1 + a2) * torch.cos(angle)
    scale = torch.sqrt(1 - a1 * a1 / (4 * a2)) * (1 - a2)
    if noise:
        scale = torch.sqrt(((1 + a2) * (1 + a2) - a1 * a1) * (1 - a2) / (1 + a2))
    return _filter(waveform, scale, 0.0, 0.0, 1.0, a1, a2)


# Middle of the slope in Hz, its steepness, and the gain in dB, that come closest to the standard of 50 and 15 us.
_DEEMPHASIS = {44100: (5283, 0.4845, -9.477), 48000: (5356, 0.479, -9.62)}


def deemph_biquad(waveform: Tensor, sample_rate: int) -> Tensor:
    """Undo the emphasis of high frequencies that some compact discs are recorded with (ISO 908).

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: 44100 or 48000 Hz.

    Returns:
        Same shape and dtype.

    Raises:
        ValueError: another sample rate.
    """
    if sample_rate not in _DEEMPHASIS:
        raise ValueError(f"deemph_biquad: sample_rate is {sample_rate}, expected 44100 (CD) or 48000 (DAT).")
    frequency, steepness, gain = _DEEMPHASIS[sample_rate]
    angle, amplitude = 2 * math.pi * frequency / sample_rate, 10 ** (gain / 40)
    alpha = math.sin(angle) / 2 * math.sqrt((amplitude + 1 / amplitude) * (1 / steepness - 1) + 2)
    return _filter(waveform, *shelf_coefficients(math.cos(angle), amplitude, 2 * math.sqrt(amplitude) * alpha, -1.0))


# Zeros and poles of the playback curve of records (3180, 318 and 75 us), by sample rate.
_RIAA = {
    44100: ((-0.2014898, 0.9233820), (0.7083149, 0.9924091)),
    48000: ((-0.1766069, 0.9321590), (0.7396325, 0.9931330)),
    88200: ((-0.1168735, 0.9648312), (0.8590646, 0.9964002)),
    96000: ((-0.1141486, 0.9676817), (0.8699137, 0.9966946)),
}


def riaa_biquad(waveform: Tensor, sample_rate: int) -> Tensor:
    """Equalise the sound of a record as the RIAA's playback curve asks; 0 dB at 1 kHz.

    Args:
        waveform: (..., time), in [-1, 1]; the result is cut to that range.
        sample_rate: 44100, 48000, 88200 or 96000 Hz.

    Returns:
        Same shape and dtype.

    Raises:
        ValueError: another sample rate.
    """
    if sample_rate not in _RIAA:
        raise ValueError(f"riaa_biquad: sample_rate is {sample_rate}, expected one of {', '.join(map(str, _RIAA))}.")
    b, a = ((1.0, -sum(roots), math.prod(roots)) for roots in _RIAA[sample_rate])
    turn = complex(math.cos(2 * math.pi * 1000 / sample_rate), -math.sin(2 * math.pi * 1000 / sample_rate))
    at_1_khz = abs((b[0] + b[1] * turn + b[2] * turn**2) / (a[0] + a[1] * turn + a[2] * turn**2))
    return _filter(waveform, *(value / at_1_khz for value in b), *a)
