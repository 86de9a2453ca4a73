"""Modules of pitch classes: how much of a spectrum belongs to each, whatever the octave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.prototype.functional.filterbanks import chroma_filterbank
from flambeau.audio.transforms.spectral import Spectrogram

__all__ = ["ChromaScale", "ChromaSpectrogram"]


class ChromaScale(nn.Module):
    """Sum a spectrogram's frequencies by pitch class.

    Args:
        sample_rate: in Hz.
        n_freqs: frequencies of the spectrogram, n_fft // 2 + 1.
        n_chroma: pitch classes.
        tuning: deviation from A4 = 440 Hz, in classes.
        ctroct: octave that counts most, A0 being 0.
        octwidth: width of the Gaussian over octaves; None to count all alike.
        norm: order of the norm by which each bin's weights are divided.
        base_c: the first class is C, else A.

    Attributes:
        fb: (n_freqs, n_chroma), a buffer.
    """

    fb: Tensor

    def __init__(
        self,
        sample_rate: int,
        n_freqs: int,
        *,
        n_chroma: int = 12,
        tuning: float = 0.0,
        ctroct: float = 5.0,
        octwidth: float | None = 2.0,
        norm: int = 2,
        base_c: bool = True,
    ) -> None:
        super().__init__()
        bank = chroma_filterbank(
            sample_rate,
            n_freqs,
            n_chroma,
            tuning=tuning,
            ctroct=ctroct,
            octwidth=octwidth,
            norm=norm,
            base_c=base_c,
        )
        self.register_buffer("fb", bank)

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_freqs, frames) -> (..., n_chroma, frames)."""
        return torch.matmul(x.transpose(-1, -2), self.fb).transpose(-1, -2)


class ChromaSpectrogram(nn.Module):
    """Compute how much of overlapping frames belongs to each pitch class.

    Args:
        sample_rate: in Hz.
        n_fft: samples transformed per frame.
        win_length: as for `Spectrogram`.
        hop_length: as for `Spectrogram`.
        pad: as for `Spectrogram`.
        window_fn: as for `Spectrogram`.
        power: exponent of the magnitude.
        normalized: as for `Spectrogram`.
        wkwargs: as for `Spectrogram`.
        center: as for `Spectrogram`.
        pad_mode: as for `Spectrogram`.
        n_chroma: as for `ChromaScale`.
        tuning: as for `ChromaScale`.
        ctroct: as for `ChromaScale`.
        octwidth: as for `ChromaScale`.
        norm: as for `ChromaScale`.
        base_c: as for `ChromaScale`.

    Attributes:
        spectrogram: a `Spectrogram`.
        chroma_scale: a `ChromaScale`.
    """

    def __init__(
        self,
        sample_rate: int,
        n_fft: int,
        *,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Tensor] = torch.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        n_chroma: int = 12,
        tuning: float = 0.0,
        ctroct: float = 5.0,
        octwidth: float | None = 2.0,
        norm: int = 2,
        base_c: bool = True,
    ) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(
            n_fft,
            win_length,
            hop_length,
            pad,
            window_fn,
            power,
            normalized,
            wkwargs,
            center,
            pad_mode,
        )
        self.chroma_scale = ChromaScale(
            sample_rate,
            n_fft // 2 + 1,
            n_chroma=n_chroma,
            tuning=tuning,
            ctroct=ctroct,
            octwidth=octwidth,
            norm=norm,
            base_c=base_c,
        )

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., n_chroma, frames)."""
        chroma: Tensor = self.chroma_scale(self.spectrogram(waveform))
        return chroma
