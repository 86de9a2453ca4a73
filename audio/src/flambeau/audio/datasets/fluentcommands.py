"""Fluent Speech Commands: what people say to a virtual assistant, with what they want.

References:
    Lugosch et al. 2019, Speech Model Pre-training for End-to-End Spoken Language Understanding. arXiv:1904.03670
"""

from __future__ import annotations

import csv
from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, fields, read_waveform, require_folder
from flambeau.core.datasets import DatasetInfo, Gate, register_dataset

__all__ = ["FluentSpeechCommands"]

_FOLDER = "fluent_speech_commands_dataset"
_SUBSETS = ("train", "valid", "test")
_SITE = "https://fluent.ai/fluent-speech-commands-a-dataset-for-spoken-language-understanding-research/"
_INFO = DatasetInfo(
    name="fluentspeechcommands",
    task="spoken-language-understanding",
    sizes={"train": 23_132, "valid": 3118, "test": 3793},
    schema=fields("file_name", "speaker_id", "transcription", "action", "object", "location"),
    license="Fluent Speech Commands Public License (research only)",
    citation="@inproceedings{fluent, author={Lugosch, Loren and others}, title={Speech Model Pre-training for "
    "End-to-End "
    "Spoken Language Understanding}, booktitle={Interspeech}, year={2019}}",
    homepage=_SITE,
    gated=Gate("form", _SITE, f"Unpack the archive so that {_FOLDER} lies below the root."),
    description="30,043 commands by 97 speakers with action, object and location, 16 kHz.",
)


@register_dataset(info=_INFO)
class FluentSpeechCommands(Recordings):
    """30,043 commands to a virtual assistant by 97 speakers, with what they want; 16 kHz.

    Args:
        root: folder that holds `fluent_speech_commands_dataset`, which is obtained by hand.
        subset: "train", "valid" or "test".

    Items are (waveform, sample rate, file name, speaker, transcription, action, object, location).

    Raises:
        DatasetMissingError: the folder is missing.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(self, root: str | Path, subset: str = "train") -> None:
        table = f"{_FOLDER}/data/{chosen(subset, 'subset', _SUBSETS)}_data.csv"
        self._path = require_folder(_INFO, root, table) / _FOLDER
        with (self._path.parent / table).open(encoding="utf-8", newline="") as file:
            self.header, *self.data = csv.reader(file)

    def get_metadata(self, n: int) -> tuple[str, int, str, str, str, str, str, str]:
        """Item `n` with the recording's path below the dataset's folder in place of the waveform."""
        row = self.data[n]
        name = row[self.header.index("path")].rpartition("/")[2].split(".")[0]
        speaker, transcription, action, thing, location = row[2:]
        return f"wavs/speakers/{speaker}/{name}.wav", 16_000, name, speaker, transcription, action, thing, location

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, str, str, str, str]:
        """(waveform, sample rate, file name, speaker, transcription, action, object, location) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._path / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.data)
