"""LJ Speech: one woman reads from seven books.

References:
    Ito and Johnson 2017, The LJ Speech Dataset. https://keithito.com/LJ-Speech-Dataset/
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from flambeau.audio.datasets._recordings import Listed, archive, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, register_dataset

__all__ = ["LJSPEECH"]

_URL = "https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2"
_INFO = DatasetInfo(
    name="ljspeech",
    task="speech-synthesis",
    sizes={"all": 13_100},
    files=(archive(_URL, "be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5", "LJSpeech-1.1"),),
    schema=fields("transcript", "normalized_transcript"),
    license="public domain",
    citation="@misc{ljspeech17, author={Ito, Keith and Johnson, Linda}, title={The LJ Speech Dataset}, year={2017}, "
    "howpublished={https://keithito.com/LJ-Speech-Dataset/}}",
    homepage="https://keithito.com/LJ-Speech-Dataset/",
    description="13,100 short passages read by one woman, 24 hours, 22.05 kHz.",
)


@register_dataset(info=_INFO)
class LJSPEECH(Listed):
    """13,100 short passages from seven books, read by one woman: 24 hours, 22.05 kHz.

    Args:
        root: folder that holds, or shall hold, `LJSpeech-1.1`.
        url: address of the archive (2.6 GB).
        folder_in_archive: folder of the recordings below `LJSpeech-1.1`.
        download: fetch the archive where the folder is not in place.

    Items are (waveform, sample rate, transcript, transcript with numbers and abbreviations spelled out).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
    """

    def __init__(
        self, root: str | Path, url: str = _URL, folder_in_archive: str = "wavs", download: bool = False
    ) -> None:
        name = PurePosixPath(url).name.split(".tar.bz2")[0]
        folder = from_elsewhere(_INFO, root, url, name, download=download) / name
        self._path = folder / folder_in_archive
        # No quoting: a quotation mark belongs to the text.
        lines = (folder / "metadata.csv").read_text(encoding="utf-8").splitlines()
        self._flist = [line.split("|") for line in lines if line]

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        name, transcript, normalized_transcript = self._flist[n]
        return self._path / f"{name}.wav", (transcript, normalized_transcript)

    def __len__(self) -> int:
        return len(self._flist)
