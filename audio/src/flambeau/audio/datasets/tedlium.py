"""TED-LIUM: transcribed talks of TED.

References:
    Rousseau et al. 2012, TED-LIUM: an Automatic Speech Recognition dedicated corpus. LREC
    Hernandez et al. 2018, TED-LIUM 3: twice as much data and corpus repartition for experiments on speaker adaptation.
    arXiv:1805.04699
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, archive, chosen, fields, read_recording, read_sample_rate
from flambeau.core.datasets import DatasetInfo, prepare_dataset, register_dataset

__all__ = ["TEDLIUM"]


class _Release(NamedTuple):
    folder: str
    url: str
    sha256: str
    dictionary: str


_RELEASES = {
    "release1": _Release(
        "TEDLIUM_release1",
        "http://www.openslr.org/resources/7/TEDLIUM_release1.tar.gz",
        "30301975fd8c5cac4040c261c0852f57cfa8adbbad2ce78e77e4986957445f27",
        "TEDLIUM.150K.dic",
    ),
    "release2": _Release(
        "TEDLIUM_release2",
        "http://www.openslr.org/resources/19/TEDLIUM_release2.tar.gz",
        "93281b5fcaaae5c88671c9d000b443cb3c7ea3499ad12010b3934ca41a7b9c58",
        "TEDLIUM.152k.dic",
    ),
    "release3": _Release(
        "TEDLIUM_release-3",
        "http://www.openslr.org/resources/51/TEDLIUM_release-3.tgz",
        "ad1e454d14d1ad550bc2564c462d87c7a7ec83d4dc2b9210f22ab4973b9eccdb",
        "TEDLIUM.152k.dic",
    ),
}
_SUBSETS = ("train", "test", "dev")
_INFO = DatasetInfo(
    name="tedlium",
    task="speech-recognition",
    splits=tuple(_RELEASES),
    files=tuple(
        archive(release.url, release.sha256, release.folder, splits=[name]) for name, release in _RELEASES.items()
    ),
    schema=fields("transcript", "talk_id", "speaker_id", "identifier"),
    license="CC-BY-NC-ND-3.0",
    citation="@inproceedings{rousseau2012tedlium, author={Rousseau, Anthony and others}, title={TED-LIUM: an Automatic "
    "Speech Recognition dedicated corpus}, booktitle={LREC}, year={2012}}",
    homepage="https://www.openslr.org/51/",
    description="118, 207 or 452 hours of talks with transcripts, 16 kHz.",
)


class _Segment(NamedTuple):
    talk: str
    speaker: str
    start_s: float
    end_s: float
    identifier: str
    transcript: str


@register_dataset(info=_INFO)
class TEDLIUM(Recordings):
    """118 (release 1), 207 (2) or 452 hours (3) of English talks, cut into sentences; 16 kHz.

    Args:
        root: folder that holds, or shall hold, the release's.
        release: "release1", "release2" or "release3".
        subset: "train", "test" or "dev".
        download: fetch the release's archive (21 to 54 GB) where its folder is not in place.
        audio_ext: suffix of the recordings, where they were converted.

    Items are (waveform, sample rate, transcript, talk, speaker, identifier).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another release or subset.
    """

    split_argument = "subset"

    def __init__(
        self,
        root: str | Path,
        release: str = "release1",
        subset: str = "train",
        download: bool = False,
        audio_ext: str = ".sph",
    ) -> None:
        self._release = _RELEASES[chosen(release, "release", list(_RELEASES))]
        chosen(subset, "subset", _SUBSETS)
        self._ext_audio = audio_ext
        folder = prepare_dataset(_INFO, root, download=download, splits=(release,)) / self._release.folder
        self._dict_path = folder / self._release.dictionary
        if release == "release3":
            self._path = folder / "data" if subset == "train" else folder / "legacy" / subset
        else:
            self._path = folder / subset
        self._segments = [
            (path.stem, _segment(line))
            for path in sorted((self._path / "stm").glob("*.stm"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        self._phoneme_dict: dict[str, tuple[str, ...]] | None = None

    def get_metadata(self, n: int) -> tuple[str, int, str, str, str, str]:
        """Item `n` with the path of the talk's recording below the subset's folder in place of the waveform."""
        name, segment = self._segments[n]
        path = f"sph/{name}{self._ext_audio}"
        rate = read_sample_rate(self._path / path)
        return path, rate, segment.transcript, segment.talk, segment.speaker, segment.identifier

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, str, str]:
        """(waveform, sample rate, transcript, talk, speaker, identifier) number `n`."""
        name, segment = self._segments[n]
        begin, end = (int(time * 16_000) for time in (segment.start_s, segment.end_s))
        path = self._path / "sph" / f"{name}{self._ext_audio}"
        waveform, sample_rate = read_recording(path, offset=begin, frames=end - begin)
        return waveform, sample_rate, segment.transcript, segment.talk, segment.speaker, segment.identifier

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def phoneme_dict(self) -> dict[str, tuple[str, ...]]:
        """Word -> phones, from the release's dictionary; some words have none."""
        if self._phoneme_dict is None:
            lines = self._dict_path.read_text(encoding="utf-8").splitlines()
            self._phoneme_dict = {word: tuple(phones) for word, *phones in map(str.split, filter(str.strip, lines))}
        return dict(self._phoneme_dict)


def _segment(line: str) -> _Segment:
    talk, _, speaker, start, end, identifier, transcript = line.split(" ", 6)
    return _Segment(talk, speaker, float(start), float(end), identifier, transcript)
