"""QUESST 2014: queries by example in six languages.

References:
    Anguera et al. 2015, QUESST2014: Evaluating Query-by-Example Speech Search in a zero-resource setting with real-life
    queries. ICASSP
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, archive, chosen, fields, read_waveform
from flambeau.core.datasets import DatasetInfo, prepare_dataset, register_dataset

__all__ = ["QUESST14"]

_FOLDER = "quesst14Database"
_LISTS = {"docs": "utterances", "dev": "dev", "eval": "eval"}
_LANGUAGES = ("albanian", "basque", "czech", "nnenglish", "romanian", "slovak")
_INFO = DatasetInfo(
    name="quesst14",
    task="query-by-example",
    splits=tuple(_LISTS),
    files=(
        archive(
            "https://speech.fit.vutbr.cz/files/quesst14Database.tgz",
            "4f869e06bc066bbe9c5dde31dbd3909a0870d70291110ebbb38878dcbc2fc5e4",
            _FOLDER,
        ),
    ),
    schema=fields("file_name"),
    license="research only",
    citation="@inproceedings{Mir2015QUESST2014EQ, author={Anguera, Xavier and others}, title={QUESST2014: Evaluating "
    "Query-by-Example Speech Search in a zero-resource setting with real-life queries}, booktitle={ICASSP}, "
    "year={2015}}",
    homepage="https://speech.fit.vutbr.cz/software/quesst-2014-multilingual-database-query-by-example-keyword-spotting",
    description="23 hours of speech in six languages, and spoken queries, 8 kHz.",
)


@register_dataset(info=_INFO)
class QUESST14(Recordings):
    """23 hours of speech in six languages ("docs"), and spoken queries to find in it ("dev", "eval"); 8 kHz.

    Args:
        root: folder that holds, or shall hold, `quesst14Database`.
        subset: "docs", "dev" or "eval".
        language: "albanian", "basque", "czech", "nnenglish", "romanian" or "slovak"; all when None.
        download: fetch the archive where the folder is not in place.

    Items are (waveform, sample rate, file name).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another subset or language.
    """

    split_argument = "subset"

    def __init__(
        self, root: str | Path, subset: str, language: str | None = "nnenglish", download: bool = False
    ) -> None:
        table = f"language_key_{_LISTS[chosen(subset, 'subset', list(_LISTS))]}.lst"
        if language is not None:
            chosen(language, "language", _LANGUAGES)
        self._path = prepare_dataset(_INFO, root, download=download) / _FOLDER
        rows = (line.split() for line in (self._path / "scoring" / table).read_text(encoding="utf-8").splitlines())
        # The paths in the list begin with the dataset's own folder.
        self.data = [row[0].partition("/")[2] for row in rows if row and (language is None or row[1] == language)]

    def get_metadata(self, n: int) -> tuple[str, int, str]:
        """Item `n` with the recording's path below `quesst14Database` in place of the waveform."""
        path = self.data[n]
        return path, 8000, Path(path).stem

    def __getitem__(self, n: int) -> tuple[Tensor, int, str]:
        """(waveform, sample rate, file name) number `n`."""
        path, sample_rate, name = self.get_metadata(n)
        return read_waveform(self._path / path, sample_rate), sample_rate, name

    def __len__(self) -> int:
        return len(self.data)
