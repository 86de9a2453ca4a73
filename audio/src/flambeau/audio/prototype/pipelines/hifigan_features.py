"""Mel spectrograms as HiFi-GAN was trained on (Kong et al. 2020, arXiv:2010.05646, and the authors' code)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MelTransform"]


class MelTransform(nn.Module):
    """Reflection by half of what a window overlaps, amplitudes, mel bands, logarithm.

    Args:
        hop_size: samples from one frame to the next.
        n_fft: samples of a transform.
        win_length: samples of a window.
        f_min: Hz, where the bands begin.
        f_max: Hz, where they end.
        sample_rate: Hz.
        n_mels: bands.
    """

    def __init__(
        self,
        hop_size: int = 256,
        n_fft: int = 1024,
        win_length: int = 1024,
        f_min: float = 0,
        f_max: float | None = 8000,
        sample_rate: int = 22050,
        n_mels: int = 80,
    ) -> None:
        super().__init__()
        from flambeau.audio.transforms import MelSpectrogram

        self.mel_transform = MelSpectrogram(
            sample_rate,
            n_fft=n_fft,
            win_length=win_length,
            hop_length=hop_size,
            f_min=f_min,
            f_max=f_max,
            n_mels=n_mels,
            mel_scale="slaney",
            norm="slaney",
            center=False,
        )
        self.pad_size = (n_fft - hop_size) // 2

    def forward(self, waveform: Tensor) -> Tensor:
        """(batch, time) -> natural logarithms (batch, n_mels, frames)."""
        padded = F.pad(waveform.unsqueeze(1), (self.pad_size, self.pad_size), mode="reflect").squeeze(1)
        amplitudes = (self.mel_transform.spectrogram(padded) + 1e-9).sqrt()
        return self.mel_transform.mel_scale(amplitudes).clamp(min=1e-5).log()  # type: ignore[no-any-return]
