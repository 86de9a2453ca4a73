"""Changes to waveforms that keep what is said: noise, speed, emphasis of high frequencies."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["add_noise", "deemphasis", "preemphasis", "speed"]


def add_noise(waveform: Tensor, noise: Tensor, snr: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Add noise, scaled to a ratio of energies.

    Args:
        waveform: (..., time), real.
        noise: (..., time), leading dimensions equal or 1.
        snr: (...), wanted energy of `waveform` over that of the added noise, in dB.
        lengths: (...), samples that count of each waveform and its noise when energies are taken; None for all.
            Noise is added to all samples.

    Returns:
        (..., time). A silent waveform stays silent; silent noise changes nothing.

    Raises:
        ValueError: dimensions or lengths that do not go together.
    """
    dims = waveform.dim() - 1
    if not dims == noise.dim() - 1 == snr.dim() or (lengths is not None and lengths.dim() != dims):
        given = None if lengths is None else tuple(lengths.shape)
        raise ValueError(
            f"add_noise: waveform has shape {tuple(waveform.shape)}, noise {tuple(noise.shape)}, snr "
            f"{tuple(snr.shape)}, lengths {given}; expected (..., time) twice and (...) twice, with as many leading "
            "dimensions."
        )
    time = waveform.shape[-1]
    if noise.shape[-1] != time:
        raise ValueError(f"add_noise: noise has {noise.shape[-1]} samples, waveform {time}; cut or repeat the noise.")
    heard, masked = waveform, noise
    if lengths is not None:
        inside = torch.arange(time, device=lengths.device) < lengths.unsqueeze(-1)
        heard, masked = waveform * inside, noise * inside
    signal = torch.linalg.vector_norm(heard, dim=-1)
    disturbance = torch.linalg.vector_norm(masked, dim=-1)
    silent = disturbance == 0
    scale = signal / torch.where(silent, 1.0, disturbance) * 10.0 ** (-snr / 20.0)
    return waveform + torch.where(silent, 0.0, scale).unsqueeze(-1) * noise


def speed(
    waveform: Tensor, orig_freq: int, factor: float, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Play faster or slower, which moves pitch too.

    Args:
        waveform: (..., time), floating point.
        orig_freq: sample rate in Hz.
        factor: > 1 is faster and shorter.
        lengths: (...), valid samples of each waveform; None for all.

    Returns:
        (..., time / factor), and the valid samples of each or None.

    Raises:
        ValueError: `factor` or `orig_freq` is not positive.
    """
    from flambeau.audio.functional.resampling import resample

    source, target = speed_rates(orig_freq, factor)
    return resample(waveform, source, target), speed_lengths(lengths, source, target)


def speed_rates(orig_freq: int, factor: float) -> tuple[int, int]:
    """Rates to resample from and to. Rounded: 1.15 * 16000 is a little less than 18400 and means it."""
    if factor <= 0 or orig_freq <= 0:
        raise ValueError(f"speed: factor is {factor} and orig_freq {orig_freq}; both have to be positive.")
    return max(1, round(factor * orig_freq)), int(orig_freq)


def speed_lengths(lengths: Tensor | None, source: int, target: int) -> Tensor | None:
    """How many samples each waveform has after `resample(waveform, source, target)`."""
    if lengths is None:
        return None
    return torch.ceil(lengths.to(torch.float64) * target / source).to(lengths.dtype)


def preemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """Raise high frequencies: `y[t] = x[t] - coeff * x[t - 1]`, and `y[0] = x[0]`.

    Args:
        waveform: (..., time), any number of samples.
        coeff: usually in [0, 1).

    Returns:
        Like `waveform`.
    """
    return torch.cat([waveform[..., :1], waveform[..., 1:] - coeff * waveform[..., :-1]], -1)


def deemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """Undo `preemphasis`: `y[t] = x[t] + coeff * y[t - 1]`, clamped to [-1, 1].

    Args:
        waveform: (..., time).
        coeff: in [0, 1), else the sum grows without bounds.

    Returns:
        Like `waveform`.
    """
    from flambeau.audio.functional.filtering import lfilter

    feedback = torch.tensor([1.0, -coeff], dtype=waveform.dtype, device=waveform.device)
    feedforward = torch.tensor([1.0, 0.0], dtype=waveform.dtype, device=waveform.device)
    return lfilter(waveform, feedback, feedforward)
