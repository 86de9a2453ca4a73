"""Modules of the Bark scale: spectra filtered to it and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.prototype.functional.filterbanks import barkscale_fbanks
from flambeau.audio.transforms.mel import check_range
from flambeau.audio.transforms.spectral import Spectrogram

__all__ = ["BarkScale", "BarkSpectrogram", "InverseBarkScale"]


class BarkScale(nn.Module):
    """Sum a spectrogram's frequencies under triangles on the Bark scale.

    Args:
        n_barks: number of filters.
        sample_rate: in Hz.
        f_min: lower end, in Hz.
        f_max: upper end, in Hz; half the sample rate by default.
        n_stft: frequencies of the spectrogram, n_fft // 2 + 1.
        bark_scale: "traunmuller", "schroeder" or "wang".

    Raises:
        ValueError: `f_min` is above `f_max`, or `bark_scale` is unknown.

    Attributes:
        fb: (n_stft, n_barks), a buffer.
    """

    fb: Tensor

    def __init__(
        self,
        n_barks: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        bark_scale: str = "traunmuller",
    ) -> None:
        super().__init__()
        self.n_barks = n_barks
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        self.bark_scale = bark_scale
        check_range("BarkScale", self.f_min, self.f_max)
        bank = barkscale_fbanks(n_stft, self.f_min, self.f_max, n_barks, sample_rate, bark_scale)
        self.register_buffer("fb", bank)

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., n_stft, frames) -> (..., n_barks, frames)."""
        return torch.matmul(specgram.transpose(-1, -2), self.fb).transpose(-1, -2)


class InverseBarkScale(nn.Module):
    """Find a spectrogram whose Bark spectrogram is the given one: the least squares solution, cut off below 0.

    Upstream searches for it by gradient descent from random numbers; the solution of least norm is found directly
    here, and the arguments of the search have no effect.

    Args:
        n_stft: frequencies of the wanted spectrogram, n_fft // 2 + 1.
        n_barks: number of filters.
        sample_rate: as for `BarkScale`.
        f_min: as for `BarkScale`.
        f_max: as for `BarkScale`.
        max_iter: has no effect.
        tolerance_loss: has no effect.
        tolerance_change: has no effect.
        sgdargs: has no effect.
        bark_scale: as for `BarkScale`.

    Raises:
        ValueError: `f_min` is above `f_max`, or `bark_scale` is unknown.

    Attributes:
        fb: (n_stft, n_barks), a buffer.
    """

    fb: Tensor

    def __init__(
        self,
        n_stft: int,
        n_barks: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        max_iter: int = 100000,
        tolerance_loss: float = 1e-5,
        tolerance_change: float = 1e-8,
        sgdargs: dict[str, Any] | None = None,
        bark_scale: str = "traunmuller",
    ) -> None:
        super().__init__()
        self.n_barks = n_barks
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        self.max_iter = max_iter
        self.tolerance_loss = tolerance_loss
        self.tolerance_change = tolerance_change
        self.sgdargs = sgdargs or {"lr": 0.1, "momentum": 0.9}
        check_range("InverseBarkScale", self.f_min, self.f_max)
        bank = barkscale_fbanks(n_stft, self.f_min, self.f_max, n_barks, sample_rate, bark_scale)
        self.register_buffer("fb", bank)

    def forward(self, barkspec: Tensor) -> Tensor:
        """(..., n_barks, frames) -> (..., n_stft, frames), >= 0.

        Raises:
            ValueError: another number of barks.
        """
        if barkspec.shape[-2] != self.n_barks:
            raise ValueError(
                f"InverseBarkScale: barkspec has shape {tuple(barkspec.shape)}, expected (..., {self.n_barks}, frames)."
            )
        return torch.relu(torch.linalg.pinv(self.fb.mT) @ barkspec)


class BarkSpectrogram(nn.Module):
    """Compute spectra of overlapping frames on the Bark scale.

    Args:
        sample_rate: in Hz.
        n_fft: samples transformed per frame.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        f_min: as for `BarkScale`.
        f_max: as for `BarkScale`.
        pad: as for `Spectrogram`.
        n_barks: number of filters.
        window_fn: as for `Spectrogram`.
        power: exponent of the magnitude, 1 or 2.
        normalized: as for `Spectrogram`.
        wkwargs: as for `Spectrogram`.
        center: as for `Spectrogram`.
        pad_mode: as for `Spectrogram`.
        bark_scale: as for `BarkScale`.

    Attributes:
        spectrogram: a `Spectrogram`.
        bark_scale: a `BarkScale`.
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        pad: int = 0,
        n_barks: int = 128,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        bark_scale: str = "traunmuller",
    ) -> None:
        super().__init__()
        self.sample_rate = sample_rate
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.pad = pad
        self.power = power
        self.normalized = normalized
        self.n_barks = n_barks
        self.f_max = f_max
        self.f_min = f_min
        self.spectrogram = Spectrogram(
            n_fft,
            self.win_length,
            self.hop_length,
            pad,
            window_fn,
            power,
            normalized,
            wkwargs,
            center,
            pad_mode,
        )
        self.bark_scale = BarkScale(n_barks, sample_rate, f_min, f_max, n_fft // 2 + 1, bark_scale)

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., n_barks, frames)."""
        bark: Tensor = self.bark_scale(self.spectrogram(waveform))
        return bark
