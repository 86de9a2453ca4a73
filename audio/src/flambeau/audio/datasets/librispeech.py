"""LibriSpeech: 1,000 hours of books read aloud.

References:
    Panayotov et al. 2015, Librispeech: An ASR corpus based on public domain audio books. ICASSP.
    doi:10.1109/ICASSP.2015.7178964
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._librispeech_files import LibriSpeechFiles
from flambeau.audio.datasets._recordings import Recordings, archive, chosen, fields, from_elsewhere, read_waveform
from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, register_dataset

__all__ = ["FOLDER", "LIBRISPEECH", "SUBSETS", "address"]

FOLDER = "LibriSpeech"
SUBSETS = {
    "dev-clean": "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
    "dev-other": "12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365",
    "test-clean": "39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23",
    "test-other": "d09c181bba5cf717b3dee7d4d592af11a3ee3a09e08ae025c5506f6ebe961c29",
    "train-clean-100": "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",
    "train-clean-360": "146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf",
    "train-other-500": "ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2",
}
SCHEMA = fields("transcript", Field("speaker_id", "int"), Field("chapter_id", "int"), Field("utterance_id", "int"))
CITATION = (
    "@inproceedings{7178964, author={Panayotov, Vassil and Chen, Guoguo and Povey, Daniel and Khudanpur, Sanjeev}, "
    "title={Librispeech: An ASR corpus based on public domain audio books}, booktitle={ICASSP}, year={2015}}"
)


def address(subset: str) -> str:
    """Where the archive of a subset is."""
    return f"http://www.openslr.org/resources/12/{subset}.tar.gz"


def files() -> tuple[DatasetFile, ...]:
    """The archives of all subsets."""
    return tuple(
        archive(address(subset), digest, f"{FOLDER}/{subset}", splits=[subset]) for subset, digest in SUBSETS.items()
    )


_INFO = DatasetInfo(
    name="librispeech",
    task="speech-recognition",
    sizes={
        "dev-clean": 2703, "dev-other": 2864, "test-clean": 2620, "test-other": 2939, "train-clean-100": 28_539,
        "train-clean-360": 104_014, "train-other-500": 148_688,
    },
    files=files(),
    schema=SCHEMA,
    license="CC-BY-4.0",
    citation=CITATION,
    homepage="https://www.openslr.org/12/",
    description="1,000 hours of English books read aloud, 16 kHz.",
)  # fmt: skip


@register_dataset(info=_INFO)
class LIBRISPEECH(Recordings):
    """1,000 hours of English books read aloud, 16 kHz, in seven subsets.

    Args:
        root: folder that holds, or shall hold, `folder_in_archive`.
        url: the subset: "dev-clean", "dev-other", "test-clean", "test-other", "train-clean-100", "train-clean-360" or
            "train-other-500".
        folder_in_archive: folder below the root that the subsets' folders are in.
        download: fetch the subset's archive (0.3 to 30 GB) where its folder is not in place.

    Items are (waveform, sample rate, transcript, speaker, chapter, utterance), the last three ints.

    Raises:
        DatasetMissingError: the subset's folder is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "url"

    def __init__(
        self, root: str | Path, url: str = "train-clean-100", folder_in_archive: str = FOLDER, download: bool = False
    ) -> None:
        self._url = chosen(url, "url", list(SUBSETS))
        folder = f"{folder_in_archive}/{url}"
        self._archive = from_elsewhere(self._info(), root, address(url), folder, download=download) / folder_in_archive
        self._files = LibriSpeechFiles(self._archive)
        self._walker = sorted(path.stem for path in (self._archive / url).glob("*/*/*.flac"))

    @classmethod
    def _info(cls) -> DatasetInfo:
        return _INFO

    def get_metadata(self, n: int) -> tuple[str, int, str, int, int, int]:
        """Item `n` with the recording's path below `folder_in_archive` in place of the waveform."""
        return self._files.metadata(self._url, self._walker[n])

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, int, int, int]:
        """(waveform, sample rate, transcript, speaker, chapter, utterance) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._archive / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._walker)
