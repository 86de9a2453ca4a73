"""Modules of the mel scale: spectra filtered to it and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.functional._spectra import filtered
from flambeau.audio.functional.filterbanks import melscale_fbanks
from flambeau.audio.transforms.spectral import Spectrogram

__all__ = ["InverseMelScale", "MelScale", "MelSpectrogram"]

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class MelScale(nn.Module):
    """Sum a spectrogram's frequencies under triangles on the mel scale.

    Args:
        n_mels: number of filters.
        sample_rate: in Hz.
        f_min: lower end, in Hz.
        f_max: upper end, in Hz; half the sample rate by default.
        n_stft: frequencies of the spectrogram, n_fft // 2 + 1.
        norm: "slaney" gives every filter the same area, None the same height.
        mel_scale: "htk" or "slaney".

    Raises:
        ValueError: `f_min` is above `f_max`, or `norm` or `mel_scale` is unknown.

    Attributes:
        fb: (n_stft, n_mels), a buffer.
    """

    fb: Tensor

    def __init__(
        self,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.n_mels = n_mels
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        self.n_stft = n_stft
        self.norm = norm
        self.mel_scale = mel_scale
        check_range("MelScale", self.f_min, self.f_max)
        bank = melscale_fbanks(n_stft, self.f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", bank)

    def forward(self, specgram: Tensor) -> Tensor:
        """(..., n_stft, frames) -> (..., n_mels, frames)."""
        return filtered(specgram, self.fb)


class InverseMelScale(nn.Module):
    """Find a spectrogram whose mel spectrogram is the given one: the least squares solution, cut off below 0.

    Where many solutions fit, which is the rule, it is the one of least norm. All of LAPACK's drivers find that one;
    here it is found through the bank's pseudo-inverse, on every device and for filters that depend on each other too.

    Args:
        n_stft: frequencies of the wanted spectrogram, n_fft // 2 + 1.
        n_mels: number of filters.
        sample_rate: as for `MelScale`.
        f_min: as for `MelScale`.
        f_max: as for `MelScale`.
        norm: as for `MelScale`.
        mel_scale: as for `MelScale`.
        driver: "gels", "gelsy", "gelsd" or "gelss"; has no effect.

    Raises:
        ValueError: `f_min` is above `f_max`, or a choice is unknown.

    Attributes:
        fb: (n_stft, n_mels), a buffer.
    """

    fb: Tensor

    def __init__(
        self,
        n_stft: int,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
        driver: str = "gels",
    ) -> None:
        super().__init__()
        self.n_mels = n_mels
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        self.driver = driver
        check_range("InverseMelScale", self.f_min, self.f_max)
        if driver not in _DRIVERS:
            raise ValueError(f"InverseMelScale: driver is {driver!r}, expected one of {', '.join(_DRIVERS)}.")
        bank = melscale_fbanks(n_stft, self.f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", bank)

    def forward(self, melspec: Tensor) -> Tensor:
        """(..., n_mels, frames) -> (..., n_stft, frames), >= 0.

        Raises:
            ValueError: another number of mels.
        """
        if melspec.shape[-2] != self.n_mels:
            raise ValueError(
                f"InverseMelScale: melspec has shape {tuple(melspec.shape)}, expected (..., {self.n_mels}, frames)."
            )
        return torch.relu(torch.linalg.pinv(self.fb.mT) @ melspec)


class MelSpectrogram(nn.Module):
    """Compute spectra of overlapping frames on the mel scale.

    Args:
        sample_rate: in Hz.
        n_fft: samples transformed per frame.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        f_min: as for `MelScale`.
        f_max: as for `MelScale`.
        pad: as for `Spectrogram`.
        n_mels: number of filters.
        window_fn: as for `Spectrogram`.
        power: exponent of the magnitude, 1 or 2.
        normalized: as for `Spectrogram`.
        wkwargs: as for `Spectrogram`.
        center: as for `Spectrogram`.
        pad_mode: as for `Spectrogram`.
        onesided: has no effect.
        norm: as for `MelScale`.
        mel_scale: as for `MelScale`.

    Attributes:
        spectrogram: a `Spectrogram`.
        mel_scale: a `MelScale`.

    Example:
        >>> MelSpectrogram(16000, n_fft=512, hop_length=160, n_mels=80)(torch.zeros(1, 16000)).shape
        torch.Size([1, 80, 101])
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
        n_mels: int = 128,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.sample_rate = sample_rate
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.pad = pad
        self.power = power
        self.normalized = normalized
        self.n_mels = n_mels
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
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale)

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., n_mels, frames)."""
        mel: Tensor = self.mel_scale(self.spectrogram(waveform))
        return mel


def check_range(name: str, f_min: float, f_max: float) -> None:
    """Refuse an empty range of frequencies."""
    if f_min > f_max:
        raise ValueError(f"{name}: f_min is {f_min} and f_max {f_max}; f_min has to be the lower one.")
