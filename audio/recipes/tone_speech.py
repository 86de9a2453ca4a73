"""A language of tones, for trials without recordings: each letter is a tone, and a fixed network reads it.

The network's outputs are those of upstream's recognition bundles, so that whatever decodes or aligns those can be tried
on it; and where each letter begins is known to the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flambeau.audio import save
from flambeau.audio.pipelines import HUBERT_ASR_LARGE

LABELS = HUBERT_ASR_LARGE.get_labels()
RATE = 16_000
HOP, WINDOW = 320, 400  # samples from one frame to the next, and of one, as in wav2vec 2.0
LETTER, PAUSE = 1600, 640  # samples of a letter, and of the silence behind it
SENTENCES = (
    "THE TIDE HAS GONE OUT", "ALL THE STONES ARE WET", "A RED KITE IS IN THE AIR", "NO WIND AT NOON",
    "THE BOAT IS LATE", "SHE READS A LETTER", "RAIN AT NIGHT", "HE LETS THE KITE GO",
)  # fmt: skip


class Spoken(NamedTuple):
    """What a text sounds like.

    Attributes:
        waveform: (time,), float32, 16 kHz.
        words: each word with the samples at which it begins and ends.
    """

    waveform: Tensor
    words: list[tuple[str, int, int]]


def frequency(label: int) -> float:
    """Hz of a label's tone; all are multiples of what a window resolves."""
    return 320.0 + 200.0 * label


def speak(text: str, *, noise: float = 0.0, seed: int = 0) -> Spoken:
    """Say a text.

    Args:
        text: words of the letters in `LABELS`, with one blank between.
        noise: deviation of white noise; a tone has the amplitude 0.5.
        seed: of the noise.
    """
    pieces, words = [torch.zeros(PAUSE)], []
    time = torch.arange(LETTER) / RATE
    ramp = (torch.arange(LETTER).minimum(LETTER - 1 - torch.arange(LETTER)) / 80).clamp(max=1)

    def said(symbol: str) -> None:
        tone = 0.5 * ramp * torch.sin(2 * math.pi * frequency(LABELS.index(symbol)) * time)
        pieces.extend((tone, torch.zeros(PAUSE)))

    for number, word in enumerate(text.split()):
        if number:
            said("|")
        start = sum(len(piece) for piece in pieces)
        for letter in word:
            said(letter)
        words.append((word, start, sum(len(piece) for piece in pieces) - PAUSE))
    waveform = torch.cat(pieces)
    generator = torch.Generator().manual_seed(seed)
    return Spoken(waveform + noise * torch.randn(len(waveform), generator=generator), words)


class ToneReader(nn.Module):
    """Reads tones: the energy at each label's frequency, in frames as wav2vec 2.0 has them. Nothing is trained."""

    def __init__(self) -> None:
        super().__init__()
        angle = 2 * math.pi * torch.arange(WINDOW) / RATE
        rows = [turn(angle * frequency(label)) for label in range(1, len(LABELS)) for turn in (torch.cos, torch.sin)]
        window = torch.hann_window(WINDOW, periodic=False)
        self.register_buffer("basis", torch.stack(rows).mul(window).unsqueeze(1) / window.sum())

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Read.

        Args:
            waveforms: (batch, time).
            lengths: (batch,) valid samples, or None.

        Returns:
            Logits (batch, frames, labels), and (batch,) valid frames.
        """
        parts = nn.functional.conv1d(waveforms.unsqueeze(1), self.basis, stride=HOP)  # type: ignore[arg-type]
        levels = torch.log10(parts.unflatten(1, (-1, 2)).square().sum(2) + 1e-6)
        silence = torch.full_like(levels[:, :1], -3.2)  # a hundredth of a letter's energy
        logits = 6 * torch.cat([silence, levels], 1).transpose(1, 2)
        if lengths is not None:
            lengths = (torch.div(lengths - WINDOW, HOP, rounding_mode="floor") + 1).clamp(min=0)
        return logits, lengths


class ToneBundle:
    """Stands in for a recognition bundle of `flambeau.audio.pipelines`."""

    sample_rate = RATE

    def get_labels(self, *, blank: str = "-") -> tuple[str, ...]:
        """What the outputs stand for."""
        return (blank, *LABELS[1:])

    def get_model(self) -> nn.Module:
        """The network."""
        return ToneReader().eval()


def write_librispeech(
    root: Path, subset: str, texts: Sequence[str] = SENTENCES, *, noise: float = 0.0, folder: str = "LibriSpeech"
) -> None:
    """Say texts in the layout of LibriSpeech: two speakers in turn, a chapter each.

    Args:
        root: folder of `folder`.
        subset: such as "dev-clean".
        texts: what is said.
        noise: see `speak`.
        folder: folder of the subsets.
    """
    for speaker in (84, 174):
        chapter = root / folder / subset / str(speaker) / "7"
        chapter.mkdir(parents=True, exist_ok=True)
        lines = []
        for number, text in enumerate(texts[speaker == 174 :: 2]):
            name = f"{speaker}-7-{number:04d}"
            waveform = speak(text, noise=noise, seed=speaker + number).waveform
            save(str(chapter / f"{name}.flac"), waveform.unsqueeze(0), RATE)
            lines.append(f"{name} {text}\n")
        (chapter / f"{speaker}-7.trans.txt").write_text("".join(lines), encoding="utf-8")
