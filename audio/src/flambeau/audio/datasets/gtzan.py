"""GTZAN: a thousand excerpts of music in ten genres.

References:
    Tzanetakis and Cook 2002, Musical genre classification of audio signals. doi:10.1109/TSA.2002.800560
    Kereliuk et al. 2015, Deep Learning and Music Adversaries. arXiv:1507.04761 (the filtered split)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from flambeau.audio.datasets._gtzan_split import GENRES, SPLIT
from flambeau.audio.datasets._recordings import Listed, archive, chosen, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, register_dataset

__all__ = ["GTZAN"]

_URL = "http://opihi.cs.uvic.ca/sound/genres.tar.gz"
_INFO = DatasetInfo(
    name="gtzan",
    task="music-classification",
    sizes={subset: len(names) for subset, names in SPLIT.items()},
    files=(archive(_URL, "24347e0223d2ba798e0a558c4c172d9d4a19c00bb7963fe055d183dadb4ef2c6", "genres"),),
    schema=fields("label"),
    license="unknown",
    citation="@article{tzanetakis_essl_cook_2001, author={Tzanetakis, George and Cook, Perry}, title={Musical genre "
    "classification of audio signals}, journal={IEEE Transactions on Speech and Audio Processing}, year={2002}}",
    homepage="http://marsyas.info/downloads/datasets.html",
    description="1,000 excerpts of 30 s in ten genres of music, 22.05 kHz.",
)
_NAME = re.compile(r"([a-z]+)\.\d{5}")


@register_dataset(info=_INFO)
class GTZAN(Listed):
    """1,000 excerpts of music of 30 s in ten genres, 22.05 kHz; or the 930 of the fault-filtered split.

    Args:
        root: folder that holds, or shall hold, `folder_in_archive`.
        url: address of the archive (1.2 GB).
        folder_in_archive: folder below the root that the genres' folders are in.
        download: fetch the archive where the folder is not in place.
        subset: "training" (443), "validation" (197) or "testing" (290); None takes every recording in place.

    Items are (waveform, sample rate, genre).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(
        self,
        root: str | Path,
        url: str = _URL,
        folder_in_archive: str = "genres",
        download: bool = False,
        subset: str | None = None,
    ) -> None:
        self.subset = subset if subset is None else chosen(subset, "subset", list(SPLIT))
        self._path = from_elsewhere(_INFO, root, url, folder_in_archive, download=download) / folder_in_archive
        self._walker = self._present() if subset is None else list(SPLIT[subset])

    def _present(self) -> list[str]:
        found = (path.stem for genre in GENRES for path in sorted((self._path / genre).glob("*.wav")))
        return [name for name in found if (match := _NAME.fullmatch(name)) and match[1] in GENRES]

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        name = self._walker[n]
        genre = name.split(".")[0]
        return self._path / genre / f"{name}.wav", (genre,)

    def __len__(self) -> int:
        return len(self._walker)
