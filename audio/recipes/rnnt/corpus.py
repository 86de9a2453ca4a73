"""Utterances of LibriSpeech, and batches of them that are alike in length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from resumable import by_seconds
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from flambeau.audio import info
from flambeau.audio.datasets import LIBRISPEECH
from flambeau.audio.pipelines.rnnt_features import Features
from flambeau.core.progress import progress

from .text import Tokenizer

HOP_LENGTH = 160
FRAMES_PER_SECOND = 100


class Utterance(NamedTuple):
    """Where a recording is, and what is known of it.

    Attributes:
        subset: the data set.
        number: its place there.
        frames: of its features.
        transcript: what is said.
    """

    subset: LIBRISPEECH
    number: int
    frames: int
    transcript: str

    def waveform(self) -> Tensor:
        """[time], float32 in [-1, 1], 16 kHz."""
        return self.subset[self.number][0].mean(0)


def utterances(root: Path, subsets: Sequence[str], *, download: bool = False) -> list[Utterance]:
    """All utterances of some subsets; the recordings' headers alone are read.

    Args:
        root: folder of the folder `LibriSpeech`.
        subsets: "train-clean-100" and so on.
        download: fetch what is missing.

    Raises:
        DatasetMissingError: a subset is missing, and `download` is False.
    """
    found = []
    for name in subsets:
        subset = LIBRISPEECH(root, name, download=download)
        with progress(f"lengths of {name}", len(subset)) as advance:
            for number in range(len(subset)):
                path, _, transcript, *_ = subset.get_metadata(number)
                samples = info(str(root / "LibriSpeech" / path)).num_frames
                found.append(Utterance(subset, number, samples // HOP_LENGTH + 1, transcript))
                advance(1)
    return found


class Batch(NamedTuple):
    """What a step trains on.

    Attributes:
        features: (batch, frames, 80), normalized; zeros behind the ends.
        frames: (batch,) int32.
        targets: (batch, tokens) int32; zeros behind the ends.
        tokens: (batch,) int32, how many targets count.
    """

    features: Tensor
    frames: Tensor
    targets: Tensor
    tokens: Tensor


class Items:
    """What is heard and said in each utterance, by (number, seed) as `resumable` asks; nothing is drawn at random.

    Args:
        corpus: the utterances.
        features: of whole recordings, without right padding.
        tokenizer: of their transcripts.
    """

    def __init__(self, corpus: Sequence[Utterance], features: Features, tokenizer: Tokenizer) -> None:
        self.corpus, self.features, self.tokenizer = corpus, features, tokenizer

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, list[int]]:
        """(frames, 80), and tokens."""
        one = self.corpus[key[0]]
        with torch.no_grad():
            return self.features(one.waveform())[0], self.tokenizer(one.transcript)


def padded(items: Sequence[tuple[Tensor, list[int]]]) -> tuple[Tensor, ...]:
    """The fields of a `Batch` of items, as a plain tuple, which `resumable` moves to devices."""
    features = [heard for heard, _ in items]
    targets = [torch.tensor(tokens, dtype=torch.int32) for _, tokens in items]
    return (
        pad_sequence(features, batch_first=True),
        torch.tensor([len(one) for one in features], dtype=torch.int32),
        pad_sequence(targets, batch_first=True),
        torch.tensor([len(one) for one in targets], dtype=torch.int32),
    )


def batches(corpus: Sequence[Utterance], most_frames: int, seed: int, epoch: int) -> list[list[int]]:
    """Numbers of each batch's utterances: of like length, with at most so many frames, padding counted."""
    seconds = [one.frames / FRAMES_PER_SECOND for one in corpus]
    return by_seconds(seconds, most_frames / FRAMES_PER_SECOND, seed, epoch)
