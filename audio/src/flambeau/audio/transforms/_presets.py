"""Preprocessing that pretrained models expect; `weights.transforms()` makes one of these."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Music", "Speech"]


def _resampled(waveform: Tensor, rate: int | float, wanted: int) -> Tensor:
    if int(rate) == wanted:
        return waveform
    from flambeau.audio.functional.resampling import resample

    return resample(waveform, int(rate), wanted)


class Speech(nn.Module):
    """Average the channels, resample, and normalize if the network wants that.

    Args:
        sample_rate: Hz, of the network.
        normalize: to zero mean and unit variance over the whole recording.

    Shape:
        (time,) or (channels, time), float, at `rate` Hz -> (time at `sample_rate`,).
    """

    def __init__(self, *, sample_rate: int, normalize: bool) -> None:
        super().__init__()
        self.sample_rate, self.normalize = sample_rate, normalize

    def forward(self, waveform: Tensor, rate: int | float | None = None) -> Tensor:
        """Prepare a recording; a `rate` of None means that it is at the network's already."""
        mono = waveform.mean(0) if waveform.ndim == 2 else waveform
        mono = _resampled(mono, self.sample_rate if rate is None else rate, self.sample_rate)
        return F.layer_norm(mono, mono.shape) if self.normalize else mono

    def extra_repr(self) -> str:
        """The settings."""
        return f"sample_rate={self.sample_rate}, normalize={self.normalize}"


class Music(nn.Module):
    """Bring a recording to the network's number of channels and sample rate.

    Args:
        sample_rate: Hz, of the network.
        channels: of the network; one channel is repeated, several are averaged to one.

    Shape:
        (channels, time), float, at `rate` Hz -> (the network's channels, time at `sample_rate`).
    """

    def __init__(self, *, sample_rate: int, channels: int) -> None:
        super().__init__()
        self.sample_rate, self.channels = sample_rate, channels

    def forward(self, waveform: Tensor, rate: int | float | None = None) -> Tensor:
        """Prepare a recording; a `rate` of None means that it is at the network's already.

        Raises:
            ValueError: several channels, of another number than the network's.
        """
        if waveform.shape[0] != self.channels:
            if self.channels == 1:
                waveform = waveform.mean(0, keepdim=True)
            elif waveform.shape[0] == 1:
                waveform = waveform.expand(self.channels, -1)
            else:
                raise ValueError(
                    f"The recording has {waveform.shape[0]} channels, expected 1 or {self.channels}; mix it down first."
                )
        return _resampled(waveform, self.sample_rate if rate is None else rate, self.sample_rate)

    def extra_repr(self) -> str:
        """The settings."""
        return f"sample_rate={self.sample_rate}, channels={self.channels}"
