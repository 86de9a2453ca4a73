"""Corpora of speakers and talks: CMU ARCTIC, CMUdict, Common Voice, VCTK, TED-LIUM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio._miniatures.files import lines, recording

__all__ = ["WRITERS"]


def cmuarctic(root: Path) -> None:
    """Two sentences of one speaker."""
    folder = root / "ARCTIC" / "cmu_us_aew_arctic"
    for name in ("arctic_a0001", "arctic_a0002"):
        recording(folder / "wav" / f"{name}.wav")
    lines(
        folder / "etc" / "txt.done.data",
        '( arctic_a0001 "Author of the danger trail, Philip Steels, etc." )',
        '( arctic_a0002 "Not at this particular case, Tom, apologized Whittemore." )',
    )


def cmudict(root: Path) -> None:
    """Words with one pronunciation and two, and marks."""
    root.mkdir(parents=True, exist_ok=True)
    entries = (
        ";;; # CMUdict",
        "!EXCLAMATION-POINT  EH2 K S K L AH0 M EY1 SH AH0 N P OY2 N T",
        ";SEMI-COLON(1)  S EH1 M IY0 K OW1 L AH0 N",
        "...ELLIPSIS  IH2 L IH1 P S IH0 S",
        "'BOUT  B AW1 T",
        "DATAPOINTS  D EY1 T AH0 P OY2 N T S",
        "DATAPOINTS(1)  D AE1 T AH0 P OY2 N T S",
        "D\u00c9J\u00c0  D EY2 ZH AA1",
    )
    (root / "cmudict-0.7b").write_bytes("".join(f"{entry}\n" for entry in entries).encode("latin-1"))
    lines(root / "cmudict-0.7b.symbols", "AA", "AA0", "AW1", "T")


def commonvoice(root: Path) -> None:
    """Two clips, one of them named without suffix."""
    lines(
        root / "train.tsv",
        "client_id\tpath\tsentence\tup_votes",
        "9d16c5d9\tcommon_voice_tr_17343551.mp3\tBirinci\t2",
        '75d7a5d6\tcommon_voice_tr_17346025\tPirin sözleri "hâlâ"\t2',
    )
    for name in ("common_voice_tr_17343551", "common_voice_tr_17346025"):
        recording(root / "clips" / f"{name}.mp3", 48_000, 4800)


def vctk(root: Path) -> None:
    """Three sentences, of one of which a microphone is missing, and a speaker without texts."""
    folder = root / "VCTK-Corpus-0.92"
    for speaker, name in (("p225", "001"), ("p225", "002"), ("p362", "001")):
        lines(folder / "txt" / speaker / f"{speaker}_{name}.txt", f"Please call Stella {name}.")
        for microphone in ("mic1", "mic2") if speaker == "p225" else ("mic1",):
            recording(folder / "wav48_silence_trimmed" / speaker / f"{speaker}_{name}_{microphone}.flac", 48_000)
    recording(folder / "wav48_silence_trimmed" / "p315" / "p315_001_mic2.flac", 48_000)


def _talk(folder: Path, talk: str) -> None:
    recording(folder / "sph" / f"{talk}.sph", frames=1600)
    lines(
        folder / "stm" / f"{talk}.stm",
        f"{talk} 1 {talk} 0.01 0.03 <o,f0,female> the first sentence",
        f"{talk} 1 {talk} 0.05 0.1 <o,f0,female> the second one",
    )


def tedlium(root: Path) -> dict[str, Any]:
    """Two sentences in each subset of the third release."""
    folder = root / "TEDLIUM_release-3"
    _talk(folder / "data", "AaronHuey_2010X")
    for subset in ("test", "dev"):
        _talk(folder / "legacy" / subset, f"Talk_{subset}")
    lines(folder / "TEDLIUM.152k.dic", "a AH", "a(2) EY", "uh")
    return {"release": "release3"}


WRITERS = {
    "cmuarctic": cmuarctic,
    "cmudict": cmudict,
    "commonvoice": commonvoice,
    "tedlium": tedlium,
    "vctk_092": vctk,
}
