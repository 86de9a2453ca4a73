"""Modules over amplitudes: decibels, companding, volume, fades, loudness."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from flambeau.audio.functional import companding, decibels
from flambeau.audio.functional.loudness import loudness

__all__ = ["AmplitudeToDB", "Fade", "Loudness", "MuLawDecoding", "MuLawEncoding", "Vol"]


class AmplitudeToDB(nn.Module):
    """Express a spectrogram in decibels of 1.

    Args:
        stype: what the numbers are, "power" or "magnitude".
        top_db: raise what lies more than so many dB below the largest of its example; None for no limit.

    Raises:
        ValueError: unknown `stype`, or negative `top_db`.
    """

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        if stype not in ("power", "magnitude"):
            raise ValueError(f"AmplitudeToDB: stype is {stype!r}, expected 'power' or 'magnitude'.")
        if top_db is not None and top_db < 0:
            raise ValueError(f"AmplitudeToDB: top_db is {top_db}, expected a positive number or None.")
        self.stype = stype
        self.top_db = top_db
        self.multiplier = 10.0 if stype == "power" else 20.0
        self.amin = 1e-10
        self.ref_value = 1.0
        self.db_multiplier = math.log10(max(self.amin, self.ref_value))

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; with `top_db`, an example is the last three dimensions."""
        return decibels.amplitude_to_DB(x, self.multiplier, self.amin, self.db_multiplier, self.top_db)


class MuLawEncoding(nn.Module):
    """Turn waveforms in [-1, 1] into levels.

    Args:
        quantization_channels: number of levels.
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> int64 of the same shape."""
        return companding.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(nn.Module):
    """Turn levels into waveforms in [-1, 1].

    Args:
        quantization_channels: number of levels.
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x_mu: Tensor) -> Tensor:
        """Any shape -> floating point of the same shape."""
        return companding.mu_law_decoding(x_mu, self.quantization_channels)


class Vol(nn.Module):
    """Change the volume; the result is clamped to [-1, 1].

    Args:
        gain: by how much; see `gain_type`.
        gain_type: "amplitude" (a factor), "power" (a factor of the power) or "db".

    Raises:
        ValueError: unknown `gain_type`, or a factor that is not positive.
    """

    def __init__(self, gain: float, gain_type: str = "amplitude") -> None:
        super().__init__()
        if gain_type not in ("amplitude", "power", "db"):
            raise ValueError(f"Vol: gain_type is {gain_type!r}, expected 'amplitude', 'power' or 'db'.")
        if gain_type in ("amplitude", "power") and gain <= 0:
            raise ValueError(f"Vol: gain is {gain}, expected a positive factor; for decibels pass gain_type='db'.")
        self.gain = gain
        self.gain_type = gain_type

    def forward(self, waveform: Tensor) -> Tensor:
        """Any shape, in [-1, 1] -> likewise."""
        factor = self.gain
        if self.gain_type == "power":
            factor = math.sqrt(self.gain)
        elif self.gain_type == "db":
            factor = 10.0 ** (self.gain / 20.0)
        return torch.clamp(waveform * factor, -1.0, 1.0)


class Fade(nn.Module):
    """Fade in from and out to silence.

    Args:
        fade_in_len: samples of the way in.
        fade_out_len: samples of the way out.
        fade_shape: "linear", "exponential", "logarithmic", "quarter_sine" or "half_sine".

    Raises:
        ValueError: unknown `fade_shape`, negative lengths; at the call, ways longer than the waveform.
    """

    def __init__(self, fade_in_len: int = 0, fade_out_len: int = 0, fade_shape: str = "linear") -> None:
        super().__init__()
        if fade_shape not in _SHAPES:
            raise ValueError(f"Fade: fade_shape is {fade_shape!r}, expected one of {', '.join(_SHAPES)}.")
        if fade_in_len < 0 or fade_out_len < 0:
            raise ValueError(f"Fade: the lengths are {fade_in_len} and {fade_out_len}; expected numbers >= 0.")
        self.fade_in_len = fade_in_len
        self.fade_out_len = fade_out_len
        self.fade_shape = fade_shape

    def forward(self, waveform: Tensor) -> Tensor:
        """(..., time) -> likewise."""
        time = waveform.shape[-1]
        if max(self.fade_in_len, self.fade_out_len) > time:
            raise ValueError(
                f"Fade: the waveform has {time} samples, the fades {self.fade_in_len} and {self.fade_out_len}; "
                "shorten them."
            )
        way_in = self._way(self.fade_in_len, time, waveform)
        way_out = self._way(self.fade_out_len, time, waveform).flip(-1)
        return way_in * way_out * waveform

    def _way(self, length: int, time: int, like: Tensor) -> Tensor:
        """Up from 0 in `length` samples, then 1; (time,)."""
        # Integers become floating point where they fade, as in any product of the two.
        dtype = like.dtype if like.is_floating_point() or like.is_complex() else torch.get_default_dtype()
        place = torch.linspace(0, 1, length, dtype=dtype, device=like.device)
        level = _SHAPES[self.fade_shape](place).clamp(0, 1)
        return torch.cat([level, level.new_ones(time - length)])


def _exponential(place: Tensor) -> Tensor:
    return torch.pow(2.0, place - 1) * place


def _logarithmic(place: Tensor) -> Tensor:
    return torch.log10(0.1 + place) + 1


def _quarter_sine(place: Tensor) -> Tensor:
    return torch.sin(place * (math.pi / 2))


def _half_sine(place: Tensor) -> Tensor:
    return torch.sin(place * math.pi - math.pi / 2) / 2 + 0.5


_SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": torch.clone,
    "exponential": _exponential,
    "logarithmic": _logarithmic,
    "quarter_sine": _quarter_sine,
    "half_sine": _half_sine,
}


class Loudness(nn.Module):
    """Measure loudness after ITU-R BS.1770-4.

    Args:
        sample_rate: in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self.sample_rate = sample_rate

    def forward(self, wavefrom: Tensor) -> Tensor:
        """(..., channel, time), at most 5 channels -> (...), in LKFS."""
        return loudness(wavefrom, self.sample_rate)
