"""Waveforms of Tacotron 2's spectrograms: by WaveRNN, or by Griffin-Lim."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.audio.models.wavernn import WaveRNN
from flambeau.audio.pipelines.tts_interface import Vocoder

__all__ = ["GriffinLimVocoder", "WaveRNNVocoder", "normalized_decibels"]


def normalized_decibels(min_level_db: float | None = -100) -> nn.Module:
    """A module that makes what WaveRNN was trained on of a logarithmic mel spectrogram.

    Args:
        min_level_db: the level that becomes 0, full scale becoming 1; None leaves decibels.
    """
    return _NormalizedDecibels(min_level_db)


class _NormalizedDecibels(nn.Module):
    def __init__(self, min_level_db: float | None) -> None:
        super().__init__()
        self.min_level_db = min_level_db

    def forward(self, mel_spec: Tensor) -> Tensor:
        """Natural logarithms of amplitudes -> decibels, scaled to [0, 1]; the same shape."""
        decibels = 20 * torch.log10(mel_spec.exp().clamp(min=1e-5))
        if self.min_level_db is None:
            return decibels
        return ((self.min_level_db - decibels) / self.min_level_db).clamp(0, 1)


class WaveRNNVocoder(nn.Module, Vocoder):
    """WaveRNN, fed as it was trained, its mu-law levels expanded.

    Args:
        model: the network.
        min_level_db: see `normalized_decibels`.
    """

    def __init__(self, model: WaveRNN, min_level_db: float | None = -100) -> None:
        super().__init__()
        self._sample_rate = 22050
        self._model = model
        self._levels = _NormalizedDecibels(min_level_db)

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return self._sample_rate

    @torch.no_grad()
    def forward(self, mel_spec: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(batch, bands, frames) of natural logarithms -> (batch, time), and (batch,) valid samples."""
        from flambeau.audio.functional import mu_law_decoding

        waveform, lengths = self._model.infer(self._levels(mel_spec), lengths)
        levels = ((waveform.clamp(-1, 1) + 1.0) * (2**self._model.n_bits - 1) / 2).clamp(0, 2**self._model.n_bits - 1)
        return mu_law_decoding(levels.int(), self._model.n_classes).squeeze(1), lengths


class GriffinLimVocoder(nn.Module, Vocoder):
    """A least-squares spectrogram, and phases by Griffin and Lim."""

    def __init__(self) -> None:
        super().__init__()
        from flambeau.audio.transforms import GriffinLim, InverseMelScale

        self._sample_rate = 22050
        self._inv_mel = InverseMelScale(
            n_stft=513, n_mels=80, sample_rate=22050, f_min=0.0, f_max=8000.0, mel_scale="slaney", norm="slaney"
        )
        self._griffin_lim = GriffinLim(n_fft=1024, power=1, hop_length=256, win_length=1024)

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return self._sample_rate

    @torch.no_grad()
    def forward(self, mel_spec: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(batch, bands, frames) of natural logarithms -> (batch, time), and (batch,) valid samples."""
        waveform = self._griffin_lim(self._inv_mel(mel_spec.exp()))
        # Upstream gives lengths back in frames.
        return waveform, None if lengths is None else (lengths - 1).clamp(min=0) * 256
