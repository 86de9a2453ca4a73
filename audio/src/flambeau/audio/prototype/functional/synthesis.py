"""Sound from oscillators, envelopes and filters that change over time, as in differentiable synthesizers.

The parts are those of Engel et al. 2020, "DDSP: differentiable digital signal processing", arXiv:2001.04643.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from flambeau.audio.functional.convolution import fftconvolve

__all__ = [
    "adsr_envelope",
    "exp_sigmoid",
    "extend_pitch",
    "filter_waveform",
    "frequency_impulse_response",
    "oscillator_bank",
    "sinc_impulse_response",
]


def oscillator_bank(
    frequencies: Tensor,
    amplitudes: Tensor,
    sample_rate: float,
    reduction: str = "sum",
    dtype: torch.dtype | None = torch.float64,
) -> Tensor:
    """Sum sines whose frequency and amplitude change with every sample.

    Args:
        frequencies: (..., time, oscillators), in Hz. At and above half the sample rate an oscillator is silent, which
            is warned about.
        amplitudes: same shape.
        sample_rate: in Hz.
        reduction: "sum" or "mean" over the oscillators, or "none".
        dtype: of the running phase; None for that of `frequencies`, which loses precision after seconds.

    Returns:
        (..., time), or (..., time, oscillators) without reduction.

    Raises:
        ValueError: shapes that differ, or unknown `reduction`.
    """
    if frequencies.shape != amplitudes.shape:
        raise ValueError(
            f"oscillator_bank: frequencies has shape {tuple(frequencies.shape)}, amplitudes "
            f"{tuple(amplitudes.shape)}; expected the same, (..., time, oscillators)."
        )
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(f"oscillator_bank: reduction is {reduction!r}, expected 'sum', 'mean' or 'none'.")
    too_high = frequencies.abs() >= sample_rate / 2
    if not torch.compiler.is_compiling() and bool(too_high.any()):
        warnings.warn(
            f"oscillator_bank: some frequencies reach {sample_rate / 2} Hz, half the sample rate; they are silenced.",
            stacklevel=2,
        )
    step = frequencies * (2 * math.pi / sample_rate) % (2 * math.pi)
    phase = torch.cumsum(step, -2, dtype=dtype).to(step.dtype)
    waveform = torch.where(too_high, 0.0, amplitudes) * torch.sin(phase)
    if reduction == "none":
        return waveform
    return waveform.sum(-1) if reduction == "sum" else waveform.mean(-1)


def adsr_envelope(
    num_frames: int,
    *,
    attack: float = 0.0,
    hold: float = 0.0,
    decay: float = 0.0,
    sustain: float = 1.0,
    release: float = 0.0,
    n_decay: int = 2,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Make the envelope of a note: up, hold, down to a level, stay, and down to 0.

    Args:
        num_frames: length.
        attack: share of it in which the level goes from 0 to 1, in [0, 1]; as the next ones.
        hold: share in which it stays there.
        decay: share in which it falls to `sustain`.
        sustain: level until the release, in [0, 1].
        release: share at the end in which it falls to 0.
        n_decay: exponent of the decay; 1 is a straight line.
        dtype: of the result.
        device: of the result.

    Returns:
        (num_frames,).

    Raises:
        ValueError: a share or level is outside of [0, 1], or the shares exceed 1 together.
    """
    parts = {"attack": attack, "hold": hold, "decay": decay, "sustain": sustain, "release": release}
    for name, value in parts.items():
        if not 0 <= value <= 1:
            raise ValueError(f"adsr_envelope: {name} is {value}, expected a number in [0, 1].")
    if attack + hold + decay + release > 1:
        total = attack + hold + decay + release
        raise ValueError(f"adsr_envelope: attack, hold, decay and release are {total} together, expected at most 1.")
    steps = num_frames - 1
    up, stay, down, out = (int(steps * share) for share in (attack, hold, decay, release))
    level = torch.full((num_frames,), float(sustain), dtype=dtype, device=device)
    if up > 0:
        level[: up + 1] = torch.linspace(0.0, 1.0, up + 1, dtype=level.dtype, device=device)
    if stay > 0:
        level[up : up + stay + 1] = 1.0
    if down > 0:
        fall = torch.linspace(1.0, 0.0, down + 1, dtype=level.dtype, device=device).pow(n_decay)
        level[up + stay : up + stay + down + 1] = sustain + (1.0 - sustain) * fall
    if out > 0:
        level[-out - 1 :] = torch.linspace(float(sustain), 0.0, out + 1, dtype=level.dtype, device=device)
    return level


def extend_pitch(base: Tensor, pattern: int | list[float] | Tensor) -> Tensor:
    """Make the frequencies of partials from that of the fundamental.

    Args:
        base: (..., time, 1), in Hz.
        pattern: multiples of it; a number stands for as many harmonics, 1, 2, 3 and so on.

    Returns:
        (..., time, partials).
    """
    if isinstance(pattern, Tensor):
        multiples = pattern
    elif isinstance(pattern, int):
        multiples = torch.arange(1, pattern + 1, dtype=base.dtype, device=base.device)
    else:
        multiples = torch.tensor(pattern, dtype=base.dtype, device=base.device)
    return base * multiples


def sinc_impulse_response(cutoff: Tensor, window_size: int = 513, high_pass: bool = False) -> Tensor:
    """Make filters that pass what lies below (or above) a frequency, by a sinc in a Hamming window.

    Args:
        cutoff: (...), shares of half the sample rate, in [0, 1].
        window_size: taps, odd.
        high_pass: pass what lies above.

    Returns:
        (..., window_size).

    Raises:
        ValueError: `window_size` is even.
    """
    if window_size % 2 == 0:
        raise ValueError(f"sinc_impulse_response: window_size is {window_size}, expected an odd number.")
    half = window_size // 2
    place = torch.arange(-half, half + 1, dtype=cutoff.dtype, device=cutoff.device)
    window = torch.hamming_window(window_size, periodic=False, dtype=cutoff.dtype, device=cutoff.device)
    # The middle is 1 whatever the cutoff; torch.sinc has no second derivative there.
    middle = place == 0
    taps = torch.where(middle, 1.0, torch.sinc(cutoff.unsqueeze(-1) * torch.where(middle, 1.0, place))) * window
    taps = taps / taps.sum(-1, keepdim=True).abs()
    return middle.to(taps.dtype) - taps if high_pass else taps


def frequency_impulse_response(magnitudes: Tensor) -> Tensor:
    """Make filters of given magnitudes and linear phase.

    Args:
        magnitudes: (..., freq), >= 0, from 0 to half the sample rate. Negative ones are warned about.

    Returns:
        (..., 2 * (freq - 1)), the middle tap being the strongest.
    """
    if not torch.compiler.is_compiling() and bool((magnitudes < 0).any()):
        message = "frequency_impulse_response: magnitudes below 0 turn the phase; take their absolute."
        warnings.warn(message, stacklevel=2)
    taps: Tensor = torch.fft.fftshift(torch.fft.irfft(magnitudes), -1)
    return taps * torch.hann_window(taps.shape[-1], periodic=False, dtype=taps.dtype, device=taps.device)


def filter_waveform(waveform: Tensor, kernels: Tensor, delay_compensation: int = -1) -> Tensor:
    """Filter a waveform's stretches each with taps of its own, and add the tails.

    Args:
        waveform: (..., time).
        kernels: (..., filters, taps), or (filters, taps) for all. The waveform is cut into as many equal stretches.
        delay_compensation: samples to cut off at the start; half of the taps by default.

    Returns:
        Like `waveform`.

    Raises:
        ValueError: dimensions that do not go together, more filters than samples, or too much to cut off.
    """
    filters, taps = kernels.shape[-2:]
    time = waveform.shape[-1]
    if kernels.dim() not in (2, waveform.dim() + 1):
        raise ValueError(
            f"filter_waveform: kernels has shape {tuple(kernels.shape)} and waveform {tuple(waveform.shape)}; "
            "expected (filters, taps), or one dimension more than the waveform."
        )
    if filters > time:
        raise ValueError(f"filter_waveform: {filters} filters for {time} samples; use fewer.")
    start = delay_compensation if delay_compensation >= 0 else taps // 2
    if start > taps - 1:
        raise ValueError(f"filter_waveform: delay_compensation is {start}, expected at most {taps - 1}, taps - 1.")
    length = -(-time // filters)
    stretches = torch.nn.functional.pad(waveform, (0, length * filters - time)).unflatten(-1, (filters, length))
    if kernels.dim() == 2:
        kernels = kernels.expand(*waveform.shape[:-1], -1, -1)
    tails = fftconvolve(stretches, kernels)
    return _overlap(tails, length).narrow(-1, start, time)


def _overlap(stretches: Tensor, step: int) -> Tensor:
    """Add (..., count, length) up, each `step` later than the one before."""
    count, length = stretches.shape[-2:]
    columns = stretches.reshape(-1, count, length).mT
    total = (1, (count - 1) * step + length)
    added = torch.nn.functional.fold(columns, total, (1, length), stride=(1, step))
    return added.reshape(*stretches.shape[:-2], total[1])


def exp_sigmoid(input: Tensor, exponent: float = 10.0, max_value: float = 2.0, threshold: float = 1e-7) -> Tensor:
    """Squeeze numbers so that amplitudes follow them as loudness is heard.

    ::

        max_value * sigmoid(x) ** log(exponent) + threshold

    Args:
        input: any shape.
        exponent: ratio that steps of the result have where `input` is low.
        max_value: upper bound.
        threshold: lower bound.

    Returns:
        Like `input`.
    """
    return max_value * torch.sigmoid(input) ** math.log(exponent) + threshold
