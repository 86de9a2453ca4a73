"""Features of the streaming transducers: log-mel spectrograms, normalized by statistics of the training data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.pipelines.rnnt_pipeline import FeatureExtractor

__all__ = ["Features", "FrameFeatures", "log_mel"]

# From full scale 1 to that of 16 bits, as power.
_GAIN = 10 ** (0.05 * 2 * 20 * math.log10(32767))


def _piecewise_log(x: Tensor) -> Tensor:
    """The logarithm above e and a line below it, which meet there."""
    return torch.where(x > math.e, x.clamp(min=math.e).log(), x / math.e)


def log_mel(mel: Tensor) -> Tensor:
    """What is normalized: the piecewise logarithm of a mel spectrogram.

    Args:
        mel: (..., bands, frames), power, of a waveform of full scale [-1, 1].

    Returns:
        (..., frames, bands).
    """
    return _piecewise_log(mel.transpose(-1, -2) * _GAIN)


class Features(nn.Module, FeatureExtractor):
    """Mel spectrogram, piecewise logarithm, normalization, padding for the right context.

    Args:
        global_stats: JSON file with `mean` and `invstddev` per band: a path, or its name on upstream's server.
        right_padding: frames of zeros behind, 0 for streams.
        sample_rate: Hz.
        n_fft: samples of a window.
        n_mels: bands.
        hop_length: samples from one frame to the next.
    """

    mean: Tensor
    invstddev: Tensor

    def __init__(
        self,
        *,
        global_stats: str,
        right_padding: int = 0,
        sample_rate: int = 16000,
        n_fft: int = 400,
        n_mels: int = 80,
        hop_length: int = 160,
    ) -> None:
        super().__init__()
        from flambeau.audio.pipelines._files import asset
        from flambeau.audio.transforms import MelSpectrogram

        statistics: dict[str, Any] = json.loads(Path(asset(global_stats)).read_text(encoding="utf-8"))
        self.spectrogram = MelSpectrogram(sample_rate, n_fft=n_fft, n_mels=n_mels, hop_length=hop_length)
        self.register_buffer("mean", torch.tensor(statistics["mean"]))
        self.register_buffer("invstddev", torch.tensor(statistics["invstddev"]))
        self.right_padding = right_padding

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Compute.

        Args:
            input: (time,), float, full scale [-1, 1].

        Returns:
            (frames + right_padding, n_mels), and the number of these as (1,).
        """
        normed = (log_mel(self.spectrogram(input)) - self.mean) * self.invstddev
        features = F.pad(normed, (0, 0, 0, self.right_padding))
        return features, torch.tensor([features.shape[0]], device=features.device)


class FrameFeatures(Features):
    """The same frame by frame, as `flambeau.audio.recognition.Recognizer` wants them: streams give those of the whole.

    Frames do not reach beyond the recording's ends: the first one is centred at half a window, not at 0.

    Args:
        global_stats: as of `Features`, like all others.
        sample_rate: Hz.
        n_fft: samples of a window.
        n_mels: bands.
        hop_length: samples from one frame to the next.
    """

    mean: Tensor
    invstddev: Tensor

    def __init__(
        self,
        *,
        global_stats: str,
        sample_rate: int = 16000,
        n_fft: int = 400,
        n_mels: int = 80,
        hop_length: int = 160,
    ) -> None:
        super().__init__(
            global_stats=global_stats, sample_rate=sample_rate, n_fft=n_fft, n_mels=n_mels, hop_length=hop_length
        )
        self.sample_rate, self.n_fft, self.n_mels, self.hop_length = sample_rate, n_fft, n_mels, hop_length
        self.spectrogram.spectrogram.center = False

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        """Map (time,) to (frames, n_mels); frames = (time - n_fft) // hop_length + 1, none below `n_fft`."""
        if len(input) < self.n_fft:
            return input.new_zeros(0, self.n_mels)
        return super().forward(input)[0]
