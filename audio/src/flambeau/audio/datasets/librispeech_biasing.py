"""LibriSpeech with the rare words of each utterance, to bias a recogniser towards.

References:
    Le et al. 2021, Contextualized Streaming End-to-End Speech Recognition with Trie-Based Deep Biasing and Shallow
    Fusion. arXiv:2104.02194
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from flambeau.audio.datasets import librispeech
from flambeau.audio.datasets._recordings import read_waveform
from flambeau.core.datasets import DatasetInfo, Field, register_dataset

__all__ = ["LibriSpeechBiasing"]

_INFO = DatasetInfo(
    name="librispeechbiasing",
    task="speech-recognition",
    splits=tuple(librispeech.SUBSETS),
    files=tuple(replace(file) for file in librispeech.files()),
    schema=(*librispeech.SCHEMA, Field("biasing_words", "list")),
    license="CC-BY-4.0",
    citation=librispeech.CITATION,
    homepage="https://www.openslr.org/12/",
    description="LibriSpeech, with those words of a list that occur in each utterance.",
)


@register_dataset(info=_INFO)
class LibriSpeechBiasing(librispeech.LIBRISPEECH):
    """LibriSpeech, with those words of a list that occur in each utterance.

    Args:
        root, url, folder_in_archive, download: as `LIBRISPEECH`.
        blist: the words to look for; none when None.

    Items are (waveform, sample rate, transcript, speaker, chapter, utterance, words of the list in the transcript).

    Raises:
        DatasetMissingError, ValueError: as `LIBRISPEECH`.
    """

    def __init__(
        self,
        root: str | Path,
        url: str = "train-clean-100",
        folder_in_archive: str = librispeech.FOLDER,
        download: bool = False,
        blist: list[str] | None = None,
    ) -> None:
        super().__init__(root, url, folder_in_archive, download)
        self.blist = blist or []
        self._wanted = frozenset(self.blist)

    @classmethod
    def _info(cls) -> DatasetInfo:
        return _INFO

    def get_metadata(self, n: int) -> Any:
        """Item `n` with the recording's path below `folder_in_archive` in place of the waveform."""
        metadata = super().get_metadata(n)
        found = dict.fromkeys(word for word in metadata[2].split() if word in self._wanted)
        return (*metadata, list(found))

    def __getitem__(self, n: int) -> Any:
        """(waveform, sample rate, transcript, speaker, chapter, utterance, words) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._archive / path, sample_rate), sample_rate, *rest)
