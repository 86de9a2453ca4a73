"""Modules over spectra: forwards, backwards, from magnitudes alone, and their centre of gravity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.functional import spectral
from flambeau.audio.transforms._windows import make_window

__all__ = ["GriffinLim", "InverseSpectrogram", "SpectralCentroid", "Spectrogram"]


class Spectrogram(nn.Module):
    """Compute the spectrum of each of a waveform's overlapping frames.

    Args:
        n_fft: samples transformed per frame; the result has n_fft // 2 + 1 frequencies.
        win_length: samples of the window; `n_fft` by default.
        hop_length: samples from one frame's start to the next; win_length // 2 by default.
        pad: zeros to add at both ends.
        window_fn: makes the window, `window_fn(win_length, **wkwargs)`.
        power: exponent of the magnitude; None for the complex spectrum.
        normalized: True or "window" divides by the window's norm, "frame_length" by sqrt(n_fft).
        wkwargs: further arguments of `window_fn`.
        center: put frame t's middle at sample t * hop_length.
        pad_mode: how the ends are extended when centring.
        onesided: the frequencies from 0 up, else all.
        return_complex: has no effect; `power` decides.

    Attributes:
        window: (win_length,), a buffer.

    Example:
        >>> Spectrogram(n_fft=512)(torch.zeros(2, 16000)).shape
        torch.Size([2, 257, 63])
    """

    window: Tensor

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        power: float | None = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
        return_complex: bool | None = None,
    ) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", make_window(window_fn, self.win_length, wkwargs))
        self.pad = pad
        self.power = power
        self.normalized = normalized
        self.center = center
        self.pad_mode = pad_mode
        self.onesided = onesided

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., freq, frames)."""
        return spectral.spectrogram(
            waveform,
            self.pad,
            self.window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.power,
            self.normalized,
            self.center,
            self.pad_mode,
            self.onesided,
        )


class InverseSpectrogram(nn.Module):
    """Rebuild the waveform of a complex spectrogram.

    Args:
        n_fft: samples transformed per frame.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        pad: as for `Spectrogram`; zeros to cut off again.
        window_fn: as for `Spectrogram`.
        normalized: as for `Spectrogram`.
        wkwargs: as for `Spectrogram`.
        center: as for `Spectrogram`.
        pad_mode: has no effect.
        onesided: as for `Spectrogram`.

    Attributes:
        window: (win_length,), a buffer.
    """

    window: Tensor

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", make_window(window_fn, self.win_length, wkwargs))
        self.pad = pad
        self.normalized = normalized
        self.center = center
        self.pad_mode = pad_mode
        self.onesided = onesided

    def forward(self, spectrogram: Tensor, length: int | None = None) -> Tensor:
        """(..., freq, frames), complex -> (..., time); `length` samples where it is given."""
        return spectral.inverse_spectrogram(
            spectrogram,
            length,
            self.pad,
            self.window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.normalized,
            self.center,
            self.pad_mode,
            self.onesided,
        )


class GriffinLim(nn.Module):
    """Find a waveform whose spectrogram has the given magnitudes (Perraudin et al. 2013).

    Args:
        n_fft: samples transformed per frame.
        n_iter: rounds.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        window_fn: as for `Spectrogram`.
        power: exponent of the given magnitudes.
        wkwargs: as for `Spectrogram`.
        momentum: how far phases are pushed on in each round, in [0, 1).
        length: samples wanted; None for all that the frames tell.
        rand_init: start from random phases, else from 0.

    Raises:
        ValueError: `momentum` is outside of [0, 1).

    Attributes:
        window: (win_length,), a buffer.
    """

    window: Tensor

    def __init__(
        self,
        n_fft: int = 400,
        n_iter: int = 32,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        power: float = 2.0,
        wkwargs: dict[str, Any] | None = None,
        momentum: float = 0.99,
        length: int | None = None,
        rand_init: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError(f"GriffinLim: momentum is {momentum}, expected a number in [0, 1).")
        self.n_fft = n_fft
        self.n_iter = n_iter
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", make_window(window_fn, self.win_length, wkwargs))
        self.length = length
        self.power = power
        self.momentum = momentum
        self.rand_init = rand_init

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., freq, frames), real and >= 0 -> (..., time)."""
        return spectral.griffinlim(
            specgram,
            self.window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.power,
            self.n_iter,
            self.momentum,
            self.length,
            self.rand_init,
        )


class SpectralCentroid(nn.Module):
    """Compute the mean frequency of each frame, weighted by magnitude.

    Args:
        sample_rate: in Hz.
        n_fft: samples transformed per frame.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        pad: as for `Spectrogram`.
        window_fn: as for `Spectrogram`.
        wkwargs: as for `Spectrogram`.

    Attributes:
        window: (win_length,), a buffer.
    """

    window: Tensor

    def __init__(
        self,
        sample_rate: int,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.sample_rate = sample_rate
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", make_window(window_fn, self.win_length, wkwargs))
        self.pad = pad

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., frames), in Hz."""
        return spectral.spectral_centroid(
            waveform, self.sample_rate, self.pad, self.window, self.n_fft, self.hop_length, self.win_length
        )
