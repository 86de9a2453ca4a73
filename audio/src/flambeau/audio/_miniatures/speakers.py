"""Sets for telling speakers and emotions: VoxCeleb1, IEMOCAP."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from flambeau.audio._miniatures.files import lines, recording

__all__ = ["WRITERS"]

_PATHS = ("id10001/1zcIwhmdeo4/00001.wav", "id10001/7gWzIy6yIIk/00002.wav", "id10270/x6uYqmx31kE/00001.wav")


def _voxceleb1(root: Path) -> None:
    for number, path in enumerate(_PATHS):
        recording(root / "wav" / path, frames=160 + number)
    # The larger archive is published in four parts.
    whole = root / "vox1_dev_wav.zip"
    _pack(whole, root, _PATHS[:2])
    data = whole.read_bytes()
    whole.unlink()
    size = len(data) // 4 + 1
    for number, letter in enumerate("abcd"):
        (root / f"vox1_dev_wav_parta{letter}").write_bytes(data[number * size : (number + 1) * size])
    _pack(root / "vox1_test_wav.zip", root, _PATHS[2:])


def _pack(archive: Path, root: Path, paths: Sequence[str]) -> None:
    with zipfile.ZipFile(archive, "w") as packed:
        for path in paths:
            packed.write(root / "wav" / path, f"wav/{path}")


def identification(root: Path) -> None:
    """Three recordings, one of them for testing."""
    _voxceleb1(root)
    lines(root / "iden_split.txt", f"1 {_PATHS[1]}", f"1 {_PATHS[0]}", f"3 {_PATHS[2]}")


def verification(root: Path) -> None:
    """Two pairs."""
    _voxceleb1(root)
    lines(root / "veri_test.txt", f"1 {_PATHS[0]} {_PATHS[1]}", f"0 {_PATHS[0]} {_PATHS[2]}")


def iemocap(root: Path) -> None:
    """Three utterances of two dialogues, one of which has an emotion that does not count."""
    folder = root / "IEMOCAP" / "Session1"
    dialogues = {
        "Ses01F_impro01": (("F000", "neu"), ("M000", "xxx")),
        "Ses01F_script01_1": (("F000", "ang"),),
    }
    for dialogue, turns in dialogues.items():
        rows = ["% [START_TIME - END_TIME] TURN_NAME EMOTION [V, A, D]", ""]
        for turn, label in turns:
            recording(folder / "sentences" / "wav" / dialogue / f"{dialogue}_{turn}.wav")
            rows.append(f"[6.2901 - 8.2357]\t{dialogue}_{turn}\t{label}\t[2.5000, 2.5000, 2.5000]")
        lines(folder / "dialog" / "EmoEvaluation" / f"{dialogue}.txt", *rows)


WRITERS = {"iemocap": iemocap, "voxceleb1identification": identification, "voxceleb1verification": verification}
