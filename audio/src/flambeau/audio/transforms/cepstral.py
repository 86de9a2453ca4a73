"""Modules of cepstral coefficients: the cosine transform of log filter energies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.functional._spectra import filtered
from flambeau.audio.functional.filterbanks import create_dct, linear_fbanks
from flambeau.audio.transforms.amplitude import AmplitudeToDB
from flambeau.audio.transforms.mel import MelSpectrogram, check_range
from flambeau.audio.transforms.spectral import Spectrogram

__all__ = ["LFCC", "MFCC"]

_TOP_DB = 80.0
_LOG_OFFSET = 1e-6


class MFCC(nn.Module):
    """Compute mel-frequency cepstral coefficients.

    Args:
        sample_rate: in Hz.
        n_mfcc: coefficients to keep, at most `n_mels`.
        dct_type: 2, the only one there is.
        norm: "ortho" or None, see `functional.create_dct`.
        log_mels: logarithms of `mel + 1e-6`, else decibels at most 80 below the loudest.
        melkwargs: arguments of `MelSpectrogram`.

    Raises:
        ValueError: `dct_type` or `norm` is unknown, or `n_mfcc` above `n_mels`.

    Attributes:
        MelSpectrogram: the module that filters.
        dct_mat: (n_mels, n_mfcc), a buffer.
    """

    dct_mat: Tensor

    def __init__(
        self,
        sample_rate: int = 16000,
        n_mfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_mels: bool = False,
        melkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_dct("MFCC", dct_type)
        self.sample_rate = sample_rate
        self.n_mfcc = n_mfcc
        self.dct_type = dct_type
        self.norm = norm
        self.top_db = _TOP_DB
        self.amplitude_to_DB = AmplitudeToDB("power", self.top_db)
        self.MelSpectrogram = MelSpectrogram(sample_rate=sample_rate, **(melkwargs or {}))
        if n_mfcc > self.MelSpectrogram.n_mels:
            raise ValueError(
                f"MFCC: n_mfcc is {n_mfcc} and n_mels {self.MelSpectrogram.n_mels}; raise n_mels or lower n_mfcc."
            )
        self.register_buffer("dct_mat", create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))
        self.log_mels = log_mels

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., n_mfcc, frames)."""
        mel = self.MelSpectrogram(waveform)
        level = torch.log(mel + _LOG_OFFSET) if self.log_mels else self.amplitude_to_DB(mel)
        return torch.matmul(level.transpose(-1, -2), self.dct_mat).transpose(-1, -2)


class LFCC(nn.Module):
    """Compute linear-frequency cepstral coefficients.

    Args:
        sample_rate: in Hz.
        n_filter: number of filters, equally wide.
        f_min: lower end, in Hz.
        f_max: upper end, in Hz; half the sample rate by default.
        n_lfcc: coefficients to keep.
        dct_type: 2, the only one there is.
        norm: "ortho" or None, see `functional.create_dct`.
        log_lf: logarithms of `energy + 1e-6`, else decibels at most 80 below the loudest.
        speckwargs: arguments of `Spectrogram`.

    Raises:
        ValueError: `dct_type` or `norm` is unknown, `f_min` above `f_max`, or `n_lfcc` above the frequencies there are.

    Attributes:
        Spectrogram: the module that transforms.
        filter_mat: (n_fft // 2 + 1, n_filter), a buffer.
        dct_mat: (n_filter, n_lfcc), a buffer.
    """

    filter_mat: Tensor
    dct_mat: Tensor

    def __init__(
        self,
        sample_rate: int = 16000,
        n_filter: int = 128,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_lfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_lf: bool = False,
        speckwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_dct("LFCC", dct_type)
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        check_range("LFCC", self.f_min, self.f_max)
        self.n_filter = n_filter
        self.n_lfcc = n_lfcc
        self.dct_type = dct_type
        self.norm = norm
        self.top_db = _TOP_DB
        self.amplitude_to_DB = AmplitudeToDB("power", self.top_db)
        self.Spectrogram = Spectrogram(**(speckwargs or {}))
        if n_lfcc > self.Spectrogram.n_fft:
            raise ValueError(f"LFCC: n_lfcc is {n_lfcc} and n_fft {self.Spectrogram.n_fft}; lower n_lfcc.")
        n_freqs = self.Spectrogram.n_fft // 2 + 1
        self.register_buffer("filter_mat", linear_fbanks(n_freqs, self.f_min, self.f_max, n_filter, sample_rate))
        self.register_buffer("dct_mat", create_dct(n_lfcc, n_filter, norm))
        self.log_lf = log_lf

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> (..., n_lfcc, frames)."""
        energy = filtered(self.Spectrogram(waveform), self.filter_mat)
        level = torch.log(energy + _LOG_OFFSET) if self.log_lf else self.amplitude_to_DB(energy)
        return torch.matmul(level.transpose(-1, -2), self.dct_mat).transpose(-1, -2)


def _check_dct(name: str, dct_type: int) -> None:
    if dct_type != 2:
        raise ValueError(f"{name}: dct_type is {dct_type}, expected 2.")
