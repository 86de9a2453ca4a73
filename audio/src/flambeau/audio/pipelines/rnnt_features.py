"""Features of the streaming transducers: log-mel spectrograms, normalized by statistics of the training data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Features"]

# From full scale 1 to that of 16 bits, as power.
_GAIN = 10 ** (0.05 * 2 * 20 * math.log10(32767))


def _piecewise_log(x: Tensor) -> Tensor:
    """The logarithm above e and a line below it, which meet there."""
    return torch.where(x > math.e, x.clamp(min=math.e).log(), x / math.e)


class Features(nn.Module):
    """Mel spectrogram, piecewise logarithm, normalization, padding for the right context.

    Args:
        global_stats: JSON file with `mean` and `invstddev` per band: a path, or its name on upstream's server.
        right_padding: frames of zeros behind, 0 for streams.
        sample_rate: Hz.
        n_fft: samples of a window.
        n_mels: bands.
        hop_length: samples from one frame to the next.
    """

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
        mel = self.spectrogram(input).transpose(-1, -2)
        normed = (_piecewise_log(mel * _GAIN) - self.mean) * self.invstddev
        features = F.pad(normed, (0, 0, 0, self.right_padding))
        return features, torch.tensor([features.shape[0]], device=features.device)
