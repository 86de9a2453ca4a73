"""What the network hears: statistics of the training data, and masks over it while it trains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flambeau.audio.pipelines.rnnt_features import log_mel
from flambeau.audio.transforms import FrequencyMasking, MelSpectrogram, TimeMasking
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

from .corpus import HOP_LENGTH, Batch, Utterance

_LEAST_DEVIATION = 1e-3  # of a band that never changes


class _Sums(Dataset[Tensor]):
    """Frames, sums and sums of squares of each utterance's bands: (3, 80) float64."""

    def __init__(self, corpus: Sequence[Utterance]) -> None:
        self.corpus = corpus
        self.spectrogram = MelSpectrogram(16_000, n_fft=400, n_mels=80, hop_length=HOP_LENGTH)

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, index: int) -> Tensor:
        mel = log_mel(self.spectrogram(self.corpus[index].waveform())).double()
        return torch.stack([torch.full_like(mel[0], len(mel)), mel.sum(0), mel.square().sum(0)])


def write_statistics(corpus: Sequence[Utterance], path: Path, *, most: int = 10_000, workers: int = 0) -> None:
    """Write mean and inverse standard deviation of each band, as the bundles' features read them.

    Args:
        corpus: utterances of the training data.
        path: JSON file with the lists `mean` and `invstddev`.
        most: as many utterances, evenly spread over the corpus, are listened to.
        workers: processes that read.
    """
    chosen = corpus[:: -(-len(corpus) // most)]
    total = torch.zeros(3, 80, dtype=torch.float64)
    with progress("statistics", len(chosen)) as advance:
        for sums in DataLoader(_Sums(chosen), batch_size=None, num_workers=workers):
            total += sums
            advance(1)
    count, mean = total[0], total[1] / total[0]
    deviation = (total[2] / count - mean.square()).clamp(min=0).sqrt().clamp(min=_LEAST_DEVIATION)
    write_atomic(path, json.dumps({"mean": mean.tolist(), "invstddev": (1 / deviation).tolist()}))


class Augmentation(nn.Module):
    """SpecAugment (Park et al. 2019, arXiv:1904.08779), anew for each utterance.

    Two stretches of up to 27 bands, and two of up to 100 frames but not more than a fifth of the utterance, become 0,
    which is the mean.
    """

    def __init__(self) -> None:
        super().__init__()
        self.masks = nn.Sequential(
            FrequencyMasking(27), FrequencyMasking(27), TimeMasking(100, p=0.2), TimeMasking(100, p=0.2)
        )

    def forward(self, batch: Batch) -> Batch:
        """A batch with masked features; the argument stays as it is."""
        features = batch.features.clone()
        for row, frames in zip(features, batch.frames.tolist(), strict=True):
            row[:frames] = self.masks(row[:frames].T.unsqueeze(0))[0].T
        return batch._replace(features=features)
