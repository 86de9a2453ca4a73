"""Sets of books read aloud: LibriSpeech and what is made of it, LJ Speech."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio._miniatures.files import lines, recording

__all__ = ["WRITERS"]


def _chapter(folder: Path, speaker: int, chapter: int, *texts: str) -> None:
    place = folder / str(speaker) / str(chapter)
    names = [f"{speaker}-{chapter}-{number:04d}" for number in range(len(texts))]
    for name in names:
        recording(place / f"{name}.flac")
    lines(
        place / f"{speaker}-{chapter}.trans.txt", *(f"{name} {text}" for name, text in zip(names, texts, strict=True))
    )


def librispeech(root: Path) -> dict[str, Any]:
    """Three utterances of two chapters."""
    _chapter(root / "LibriSpeech" / "dev-clean", 84, 121123, "GO DO YOU HEAR", "BUT IN LESS THAN FIVE MINUTES")
    _chapter(root / "LibriSpeech" / "dev-clean", 174, 50561, "FORGOTTEN TOO THE NAME OF GILLIAN")
    return {"url": "dev-clean"}


def librispeech_biasing(root: Path) -> dict[str, Any]:
    """The same with a list of three words."""
    return {**librispeech(root), "blist": ["GILLIAN", "MINUTES", "ZEBRA"]}


def librilight_limited(root: Path) -> None:
    """An utterance in each of the three folders."""
    folder = root / "librispeech_finetuning"
    for number, part in enumerate(("1h/0/clean", "1h/1/other", "9h/clean")):
        _chapter(folder / part, 100 + number, 7, f"TEXT {number}", "ANOTHER")


def libritts(root: Path) -> dict[str, Any]:
    """Two utterances."""
    for number, text in enumerate(("Mr. Brown said 3.", "“Go!”")):
        name = f"84_121123_000007_{number:06d}"
        place = root / "LibriTTS" / "dev-clean" / "84" / "121123"
        recording(place / f"{name}.wav", 24_000)
        lines(place / f"{name}.original.txt", text)
        lines(place / f"{name}.normalized.txt", text.replace("Mr.", "Mister").replace("3", "three"))
    return {"url": "dev-clean"}


def ljspeech(root: Path) -> None:
    """Two passages, one with a quotation mark."""
    folder = root / "LJSpeech-1.1"
    for name in ("LJ001-0001", "LJ001-0002"):
        recording(folder / "wavs" / f"{name}.wav", 22_050)
    lines(
        folder / "metadata.csv",
        "LJ001-0001|Printing, in 1455|Printing, in fourteen fifty-five",
        'LJ001-0002|in being "modern|in being "modern',
    )


WRITERS = {
    "librilightlimited": librilight_limited,
    "librispeech": librispeech,
    "librispeechbiasing": librispeech_biasing,
    "libritts": libritts,
    "ljspeech": ljspeech,
}
