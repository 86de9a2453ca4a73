"""LibriTTS: LibriSpeech's readers for speech synthesis.

References:
    Zen et al. 2019, LibriTTS: A Corpus Derived from LibriSpeech for Text-to-Speech. arXiv:1904.02882
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from flambeau.audio.datasets._recordings import Listed, archive, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, Field, register_dataset

__all__ = ["LIBRITTS"]

_FOLDER = "LibriTTS"
_SUBSETS = {
    "dev-clean": "da0864e1bd26debed35da8a869dd5c04dfc27682921936de7cff9c8a254dbe1a",
    "dev-other": "d413eda26f3a152ac7c9cf3658ef85504dfb1b625296e5fa83727f5186cca79c",
    "test-clean": "234ea5b25859102a87024a4b9b86641f5b5aaaf1197335c95090cde04fe9a4f5",
    "test-other": "33a5342094f3bba7ccc2e0500b9e72d558f72eb99328ac8debe1d9080402f10d",
    "train-clean-100": "c5608bf1ef74bb621935382b8399c5cdd51cd3ee47cec51f00f885a64c6c7f6b",
    "train-clean-360": "ce7cff44dcac46009d18379f37ef36551123a1dc4e5c8e4eb73ae57260de4886",
    "train-other-500": "e35f7e34deeb2e2bdfe4403d88c8fdd5fbf64865cae41f027a185a6965f0a5df",
}


def _address(subset: str) -> str:
    return f"http://www.openslr.org/resources/60/{subset}.tar.gz"


_INFO = DatasetInfo(
    name="libritts",
    task="speech-synthesis",
    splits=tuple(_SUBSETS),
    files=tuple(
        archive(_address(subset), digest, f"{_FOLDER}/{subset}", splits=[subset]) for subset, digest in _SUBSETS.items()
    ),
    schema=fields(
        "original_text", "normalized_text", Field("speaker_id", "int"), Field("chapter_id", "int"), "utterance_id"
    ),
    license="CC-BY-4.0",
    citation="@inproceedings{Zen2019LibriTTSAC, author={Zen, Heiga and others}, title={LibriTTS: A Corpus Derived from "
    "LibriSpeech for Text-to-Speech}, booktitle={Interspeech}, year={2019}}",
    homepage="https://www.openslr.org/60/",
    description="585 hours of English books read aloud, cut at sentences, 24 kHz.",
)


@register_dataset(info=_INFO)
class LIBRITTS(Listed):
    """585 hours of English books read aloud, cut at sentences, 24 kHz, in seven subsets.

    Args:
        root: folder that holds, or shall hold, `folder_in_archive`.
        url: the subset, such as "train-clean-100", or the address of an archive.
        folder_in_archive: folder below the root that the subsets' folders are in.
        download: fetch the subset's archive (1 to 44 GB) where its folder is not in place.

    Items are (waveform, sample rate, text as printed, normalised text, speaker, chapter, utterance id), speaker and
    chapter ints.

    Raises:
        DatasetMissingError: the subset's folder is missing, and `download` is False.
    """

    split_argument = "url"

    def __init__(
        self, root: str | Path, url: str = "train-clean-100", folder_in_archive: str = _FOLDER, download: bool = False
    ) -> None:
        location = _address(url) if url in _SUBSETS else url
        folder = f"{folder_in_archive}/{PurePosixPath(location).name.split('.')[0]}"
        self._path = from_elsewhere(_INFO, root, location, folder, download=download) / folder
        self._walker = sorted(path.stem for path in self._path.glob("*/*/*.wav"))

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        name = self._walker[n]
        speaker, chapter, *_ = name.split("_")
        folder = self._path / speaker / chapter
        original, normalized = (
            (folder / f"{name}.{kind}.txt").read_text(encoding="utf-8").partition("\n")[0]
            for kind in ("original", "normalized")
        )
        return folder / f"{name}.wav", (original, normalized, int(speaker), int(chapter), name)

    def __len__(self) -> int:
        return len(self._walker)
