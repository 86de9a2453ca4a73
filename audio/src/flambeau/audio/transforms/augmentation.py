"""Modules that change waveforms and keep what is said."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.audio.functional import augmentation, convolution

__all__ = ["AddNoise", "Convolve", "Deemphasis", "FFTConvolve", "Preemphasis"]


class AddNoise(nn.Module):
    """Add noise, scaled to a ratio of energies."""

    def forward(self, waveform: Tensor, noise: Tensor, snr: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(..., time) twice and (...) in dB, as for `functional.add_noise` -> (..., time)."""
        return augmentation.add_noise(waveform, noise, snr, lengths)


class Convolve(nn.Module):
    """Convolve along time by direct summation.

    Args:
        mode: "full", "valid" or "same".

    Raises:
        ValueError: another mode.
    """

    def __init__(self, mode: str = "full") -> None:
        super().__init__()
        convolution.check_mode("Convolve", mode)
        self.mode = mode

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(..., N) and (..., M) -> (..., samples)."""
        return convolution.convolve(x, y, self.mode)


class FFTConvolve(nn.Module):
    """Convolve along time by multiplying spectra.

    Args:
        mode: "full", "valid" or "same".

    Raises:
        ValueError: another mode.
    """

    def __init__(self, mode: str = "full") -> None:
        super().__init__()
        convolution.check_mode("FFTConvolve", mode)
        self.mode = mode

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(..., N) and (..., M) -> (..., samples)."""
        return convolution.fftconvolve(x, y, self.mode)


class Preemphasis(nn.Module):
    """Raise high frequencies: `y[t] = x[t] - coeff * x[t - 1]`.

    Args:
        coeff: usually in [0, 1).
    """

    def __init__(self, coeff: float = 0.97) -> None:
        super().__init__()
        self.coeff = coeff

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> likewise."""
        return augmentation.preemphasis(waveform, self.coeff)


class Deemphasis(nn.Module):
    """Undo `Preemphasis`.

    Args:
        coeff: in [0, 1).
    """

    def __init__(self, coeff: float = 0.97) -> None:
        super().__init__()
        self.coeff = coeff

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> likewise, in [-1, 1]."""
        return augmentation.deemphasis(waveform, self.coeff)
