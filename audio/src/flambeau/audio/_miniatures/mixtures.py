"""Sets of music, mixtures and noise: GTZAN, MUSDB18-HQ, LibriMix, device-recorded VCTK, MUSAN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio._miniatures.files import lines, recording

__all__ = ["WRITERS"]


def gtzan(root: Path) -> None:
    """Three excerpts, one in each part of the filtered split, and a file that is none."""
    for name in ("blues.00000", "blues.00029", "blues.00012"):
        recording(root / "genres" / "blues" / f"{name}.wav", 22_050)
    recording(root / "genres" / "blues" / "not-an-excerpt.wav", 22_050)


def musdb_hq(root: Path) -> dict[str, Any]:
    """Three songs."""
    songs = {
        "train": ("Actions - South Of The Water", "ANiMAL - Rockshow"),
        "test": ("Arise - Run Run Run",),
    }
    for subset, names in songs.items():
        for name in names:
            for source in ("bass", "drums", "other", "mixture", "vocals"):
                recording(root / "musdb18hq" / subset / name / f"{source}.wav", 44_100, channels=2)
    return {"subset": "train"}


def librimix(root: Path) -> dict[str, Any]:
    """Two mixtures of two speakers."""
    folder = root / "Libri2Mix" / "wav8k" / "min" / "dev"
    for part in ("mix_clean", "mix_both", "mix_single", "s1", "s2"):
        for name in ("1272-128104-0000_2035-147961-0014", "1272-128104-0003_2035-147961-0016"):
            recording(folder / part / f"{name}.wav", 8000)
    return {"subset": "dev"}


def dr_vctk(root: Path) -> None:
    """Two sentences in each subset."""
    folder = root / "DR-VCTK" / "DR-VCTK"
    for subset, speaker in (("train", "p226"), ("test", "p232")):
        names = [f"{speaker}_{number:03d}.wav" for number in (2, 1)]
        for name in names:
            for kind in ("clean", "device-recorded"):
                recording(folder / f"{kind}_{subset}set_wav_16k" / name)
        rows = (f"{name}\tMacBook Pro\t{channel}" for channel, name in enumerate(names))
        heading = (
            ("File name\tDevice\tChannel",) if subset == "test" else ("# of the training set", "File\tDevice\tChannel")
        )
        lines(folder / "configurations" / f"{subset}_ch_log.txt", *heading, *rows)


def musan(root: Path) -> dict[str, Any]:
    """Two noises."""
    for name in ("free-sound/noise-free-sound-0000", "sound-bible/noise-sound-bible-0000"):
        recording(root / "musan" / "noise" / f"{name}.wav")
    return {"subset": "noise"}


WRITERS = {"dr_vctk": dr_vctk, "gtzan": gtzan, "librimix": librimix, "musan": musan, "musdb_hq": musdb_hq}
