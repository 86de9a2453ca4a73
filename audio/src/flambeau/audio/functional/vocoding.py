"""Time and pitch, changed apart from each other (Flanagan and Golden 1966; Laroche and Dolson 1999)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["phase_vocoder", "pitch_shift"]


def phase_vocoder(complex_specgrams: Tensor, rate: float, phase_advance: Tensor) -> Tensor:
    """Stretch a spectrogram in time without moving its pitch.

    Magnitudes between two frames are interpolated; from one result to the next, phases go on by what they go on
    between the frames there.

    Args:
        complex_specgrams: (..., freq, frames), complex.
        rate: > 0; 2 plays twice as fast.
        phase_advance: (freq, 1), the phase that each bin's frequency gains in one hop. It decides between phases that
            differ by whole turns, which are the same numbers: the result does not depend on it.

    Returns:
        (..., freq, ceil(frames / rate)), complex. The input itself when `rate` is 1.

    Raises:
        ValueError: `complex_specgrams` is real, `rate` not positive, or `phase_advance` of other frequencies.
    """
    if not complex_specgrams.is_complex():
        raise ValueError(f"phase_vocoder: complex_specgrams is {complex_specgrams.dtype}, expected complex.")
    if rate <= 0:
        raise ValueError(f"phase_vocoder: rate is {rate}, expected a positive number.")
    if rate == 1.0:
        return complex_specgrams
    if phase_advance.shape[-2:-1] not in ((1,), complex_specgrams.shape[-2:-1]):
        raise ValueError(
            f"phase_vocoder: phase_advance has shape {tuple(phase_advance.shape)}, expected "
            f"({complex_specgrams.shape[-2]}, 1): a phase for each frequency of complex_specgrams."
        )
    frames = complex_specgrams.shape[-1]
    real = complex_specgrams.real.dtype
    # Upstream: in the spectrogram's own precision, which decides between neighbours where a step hits a frame.
    step = torch.arange(0, frames, rate, device=complex_specgrams.device, dtype=real)
    here = step.to(torch.int64)
    extended = torch.nn.functional.pad(complex_specgrams, (0, 2))
    before, after = extended.index_select(-1, here), extended.index_select(-1, here + 1)
    share = step - here
    magnitude = torch.lerp(before.abs(), after.abs(), share)
    turn = after.angle() - before.angle()
    turn = turn - 2 * math.pi * torch.round(turn / (2 * math.pi))  # small numbers lose less when summed
    phase = torch.cat([complex_specgrams[..., :1].angle(), turn[..., :-1]], -1).cumsum(-1)
    return torch.polar(magnitude, phase)


def pitch_shift(
    waveform: Tensor,
    sample_rate: int,
    n_steps: int,
    bins_per_octave: int = 12,
    n_fft: int = 512,
    win_length: int | None = None,
    hop_length: int | None = None,
    window: Tensor | None = None,
) -> Tensor:
    """Move the pitch without changing the duration: stretch, then play at another rate.

    Args:
        waveform: (..., time), real.
        sample_rate: in Hz.
        n_steps: steps to move by, up if positive.
        bins_per_octave: steps in an octave.
        n_fft: samples transformed per frame.
        win_length: length of `window`; `n_fft` by default.
        hop_length: samples from one frame's start to the next; n_fft // 4 by default.
        window: (win_length,); a Hann window by default.

    Returns:
        Like `waveform`.
    """
    from flambeau.audio.functional.resampling import resample

    rate = 2.0 ** (-float(n_steps) / bins_per_octave)
    stretched = stretch(waveform, rate, n_fft, win_length or n_fft, hop_length or n_fft // 4, window)
    return fit(resample(stretched, int(sample_rate / rate), sample_rate), waveform.shape[-1])


def stretch(
    waveform: Tensor, rate: float, n_fft: int, win_length: int, hop_length: int, window: Tensor | None
) -> Tensor:  # fmt: skip
    """A waveform of round(time / rate) samples and unmoved pitch."""
    if waveform.dtype in (torch.float16, torch.bfloat16):  # torch has no such transforms on most devices
        wide = stretch(
            waveform.float(), rate, n_fft, win_length, hop_length, None if window is None else window.float()
        )
        return wide.to(waveform.dtype)
    if window is None:
        window = torch.hann_window(win_length, device=waveform.device, dtype=waveform.dtype)
    flat = waveform.reshape(-1, waveform.shape[-1])
    spectrum = torch.stft(flat, n_fft, hop_length, win_length, window, return_complex=True)
    advance = torch.linspace(0, math.pi * hop_length, spectrum.shape[-2], device=spectrum.device).unsqueeze(-1)
    length = round(waveform.shape[-1] / rate)
    spectrum = phase_vocoder(spectrum, rate, advance)
    stretched = torch.istft(spectrum, n_fft, hop_length, win_length, window, length=length)
    return stretched.reshape(waveform.shape[:-1] + stretched.shape[-1:])


def fit(waveform: Tensor, length: int) -> Tensor:
    """Cut the end off, or add zeros there."""
    missing = length - waveform.shape[-1]
    return torch.nn.functional.pad(waveform, (0, missing)) if missing > 0 else waveform[..., :length]
