"""Common Voice: sentences that volunteers read in many languages.

References:
    Ardila et al. 2020, Common Voice: A Massively-Multilingual Speech Corpus. arXiv:1912.06670
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from flambeau.audio.datasets._recordings import Listed, fields, require_folder
from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset

__all__ = ["COMMONVOICE"]

_INFO = DatasetInfo(
    name="commonvoice",
    task="speech-recognition",
    schema=fields(Field("row", "mapping")),
    license="CC0-1.0",
    citation="@inproceedings{ardila2020common, author={Ardila, Rosana and others}, title={Common Voice: A "
    "Massively-Multilingual Speech Corpus}, booktitle={LREC}, year={2020}}",
    homepage="https://commonvoice.mozilla.org/en/datasets",
    gated=Gate("form", "https://commonvoice.mozilla.org/en/datasets", "Unpack one language's archive to the root."),
    description="Sentences read by volunteers, in many languages.",
)


@register_dataset(info=_INFO)
class COMMONVOICE(Listed):
    """Sentences read by volunteers in one language.

    Args:
        root: folder of one language, with its tables and `clips`. It is obtained by hand from Mozilla.
        tsv: the table: "train.tsv", "dev.tsv", "test.tsv", "validated.tsv", "invalidated.tsv" or "other.tsv".

    Items are (waveform, sample rate, dictionary of the table's row: client_id, path, sentence, ...).

    Raises:
        DatasetMissingError: the table is missing.
        ValueError: it is no table of Common Voice.
    """

    def __init__(self, root: str | Path, tsv: str = "train.tsv") -> None:
        self._path = require_folder(_INFO, root, tsv)
        with (self._path / tsv).open(encoding="utf-8", newline="") as file:
            self._header, *self._walker = csv.reader(file, delimiter="\t")
        if self._header[1:2] != ["path"]:
            raise ValueError(f"{self._path / tsv} has {self._header[1:2]} for column 1, expected 'path'.")

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        line = self._walker[n]
        name = line[1] if line[1].endswith(".mp3") else f"{line[1]}.mp3"
        return self._path / "clips" / name, (dict(zip(self._header, line, strict=False)),)

    def __len__(self) -> int:
        return len(self._walker)
