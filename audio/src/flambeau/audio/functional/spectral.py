"""Short-time spectra: forwards, backwards, from magnitudes alone, and their centre of gravity."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.audio.functional import _spectra

__all__ = ["griffinlim", "inverse_spectrogram", "spectral_centroid", "spectrogram"]


def spectrogram(
    waveform: Tensor,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float | None,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
    return_complex: bool | None = None,
) -> Tensor:
    """Compute the spectrum of each of a waveform's overlapping frames.

    Args:
        waveform: (..., time), real; complex with `onesided=False`.
        pad: zeros to add at both ends first.
        window: (win_length,), what each frame is multiplied by.
        n_fft: samples transformed per frame; a shorter window is centred in it.
        hop_length: samples from one frame's start to the next, > 0.
        win_length: length of `window`, in [1, n_fft].
        power: exponent of the magnitude: 1 for magnitudes, 2 for power; None for the complex spectrum.
        normalized: True or "window" divides by the window's Euclidean norm, "frame_length" by sqrt(n_fft).
        center: put frame t's middle at sample t * hop_length, extending the ends by n_fft // 2.
        pad_mode: how the ends are extended when centring; one of `torch.nn.functional.pad`.
        onesided: the n_fft // 2 + 1 frequencies from 0 up, which say all of a real waveform; else all n_fft.
        return_complex: has no effect; `power` decides.

    Returns:
        (..., freq, frames), real, or complex when `power` is None.

    Raises:
        ValueError: `normalized` is another string.
        RuntimeError: sizes that do not fit, such as a waveform too short to reflect.
    """
    by_window, by_frame = _normalization(normalized)
    if pad > 0:
        waveform = torch.nn.functional.pad(waveform, (pad, pad))
    if onesided and power in (1.0, 2.0) and _spectra.transformable(n_fft) and _spectra.served(waveform, window):
        powers = _powers(waveform, window, n_fft, hop_length, win_length, power == 1.0, center, pad_mode)
        if powers is not None:
            if by_window:
                norm: Tensor = torch.linalg.vector_norm(window) ** power
                return powers / norm
            return powers * n_fft ** (-power / 2) if by_frame else powers
    spectrum = torch.stft(
        waveform.reshape(-1, waveform.shape[-1]),
        n_fft,
        hop_length,
        win_length,
        window,
        center,
        pad_mode,
        by_frame,
        onesided,
        return_complex=True,
    )
    spectrum = spectrum.reshape(waveform.shape[:-1] + spectrum.shape[-2:])
    if by_window:
        spectrum = spectrum / torch.linalg.vector_norm(window)
    if power is None:
        return spectrum
    if power == 2.0:
        # Without the root, which costs time and has no derivative at 0.
        return spectrum.real.square().addcmul(spectrum.imag, spectrum.imag)
    magnitude = spectrum.abs()
    return magnitude if power == 1.0 else magnitude.pow(power)


def inverse_spectrogram(
    spectrogram: Tensor,
    length: int | None,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Tensor:
    """Rebuild the waveform of a complex spectrogram, as the least-squares solution where frames overlap.

    Args:
        spectrogram: (..., freq, frames), complex.
        length: samples wanted, not counting `pad`; None for all that the frames tell.
        pad: zeros that were added at both ends; cut off again when `length` is given.
        window: (win_length,), the window of the analysis. Overlapping squares of it must not vanish anywhere.
        n_fft: samples transformed per frame.
        hop_length: samples from one frame's start to the next.
        win_length: length of `window`.
        normalized: what `spectrogram` was given.
        center: what `spectrogram` was given.
        pad_mode: has no effect; the extension is cut off.
        onesided: what `spectrogram` was given.

    Returns:
        (..., time), real.

    Raises:
        ValueError: `spectrogram` is real, or `normalized` an unknown string.
        RuntimeError: the window leaves samples that no frame tells.
    """
    by_window, by_frame = _normalization(normalized)
    if not spectrogram.is_complex():
        raise ValueError(
            f"inverse_spectrogram: spectrogram is {spectrogram.dtype}, expected complex; `griffinlim` finds phases."
        )
    if by_window:
        spectrogram = spectrogram * torch.linalg.vector_norm(window)
    leading = spectrogram.shape[:-2]
    waveform = torch.istft(
        spectrogram.reshape(-1, *spectrogram.shape[-2:]),
        n_fft,
        hop_length,
        win_length,
        window,
        center,
        by_frame,
        onesided,
        None if length is None else length + 2 * pad,
    )
    if length is not None and pad > 0:
        waveform = waveform[:, pad:-pad]
    return waveform.reshape(leading + waveform.shape[-1:])


def griffinlim(
    specgram: Tensor,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float,
    n_iter: int,
    momentum: float,
    length: int | None,
    rand_init: bool,
) -> Tensor:
    """Find a waveform whose spectrogram has the given magnitudes.

    Each round makes a waveform and takes the phases of its spectrum, pushed on in the direction they moved.

    Args:
        specgram: (..., freq, frames), real, >= 0; freq = n_fft // 2 + 1.
        window: (win_length,).
        n_fft: samples transformed per frame.
        hop_length: samples from one frame's start to the next.
        win_length: length of `window`.
        power: exponent that the magnitudes in `specgram` were raised to.
        n_iter: rounds, >= 0.
        momentum: how far phases are pushed on, in [0, 1); 0 is the method of Griffin and Lim 1984.
        length: samples wanted; None for all that the frames tell.
        rand_init: start from random phases, else from 0.

    Returns:
        (..., time), real.

    Raises:
        ValueError: `momentum` is outside of [0, 1).

    References:
        Perraudin, Balazs, Sondergaard 2013, "A fast Griffin-Lim algorithm".
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"griffinlim: momentum is {momentum}, expected a number in [0, 1).")
    leading = specgram.shape[:-2]
    magnitude = specgram.reshape(-1, *specgram.shape[-2:]).pow(1 / power)
    push = momentum / (1 + momentum)
    if rand_init:
        spectrum = magnitude * torch.view_as_complex(magnitude.new_empty(*magnitude.shape, 2).uniform_())
    else:
        spectrum = torch.complex(magnitude, torch.zeros_like(magnitude))
    previous: Tensor | None = None
    for _ in range(n_iter):
        waveform = torch.istft(spectrum, n_fft, hop_length, win_length, window, length=length)
        rebuilt = torch.stft(waveform, n_fft, hop_length, win_length, window, return_complex=True)
        pushed = rebuilt if previous is None or not push else rebuilt - push * previous
        spectrum = pushed * (magnitude / (pushed.abs() + 1e-16))
        previous = rebuilt
    waveform = torch.istft(spectrum, n_fft, hop_length, win_length, window, length=length)
    return waveform.reshape(leading + waveform.shape[-1:])


def spectral_centroid(
    waveform: Tensor, sample_rate: int, pad: int, window: Tensor, n_fft: int, hop_length: int, win_length: int
) -> Tensor:
    """Compute the mean frequency of each frame, weighted by magnitude.

    Args:
        waveform: (..., time), real.
        sample_rate: in Hz.
        pad: zeros to add at both ends.
        window: (win_length,).
        n_fft: samples transformed per frame.
        hop_length: samples from one frame's start to the next.
        win_length: length of `window`.

    Returns:
        (..., frames), in Hz, in [0, sample_rate / 2]; NaN where a frame is silent.
    """
    magnitude = spectrogram(waveform, pad, window, n_fft, hop_length, win_length, power=1.0, normalized=False)
    frequency = torch.linspace(
        0, sample_rate // 2, 1 + n_fft // 2, dtype=magnitude.dtype, device=magnitude.device
    ).unsqueeze(-1)
    return (frequency * magnitude).sum(-2) / magnitude.sum(-2)


def _powers(
    waveform: Tensor,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    root: bool,
    center: bool,
    pad_mode: str,
) -> Tensor | None:
    """Squared magnitudes of a spectrogram, or magnitudes; None for sizes that `torch.stft` has words for."""
    time = waveform.shape[-1] + (n_fft // 2 * 2 if center else 0)
    reflected = pad_mode == "reflect" and waveform.shape[-1] <= n_fft // 2
    if hop_length < 1 or window.shape != (win_length,) or not 0 < win_length <= n_fft or time < n_fft:
        return None
    if waveform.ndim < 1 or waveform.numel() == 0 or (center and reflected):
        return None
    rows = waveform.reshape(-1, waveform.shape[-1])
    if center:
        rows = torch.nn.functional.pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
    if win_length < n_fft:
        before = (n_fft - win_length) // 2
        window = torch.nn.functional.pad(window, (before, n_fft - win_length - before))
    result = _spectra.power_spectrogram(rows, window, n_fft, hop_length, root)
    return result.reshape(waveform.shape[:-1] + result.shape[-2:])


def _normalization(normalized: bool | str) -> tuple[bool, bool]:
    """Whether to divide by the window's norm, and whether by the root of the frame's length."""
    if isinstance(normalized, str):
        if normalized not in ("window", "frame_length"):
            raise ValueError(f"normalized is {normalized!r}, expected a bool, 'window' or 'frame_length'.")
        return normalized == "window", normalized == "frame_length"
    return bool(normalized), False
