"""Speech Commands: 35 words, said once each by thousands of people.

References:
    Warden 2018, Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition. arXiv:1804.03209
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, archive, chosen, fields, from_elsewhere, read_waveform
from flambeau.core.datasets import DatasetInfo, Field, register_dataset

__all__ = ["SPEECHCOMMANDS"]

_FOLDER = "SpeechCommands"
_VERSIONS = {
    "speech_commands_v0.01": "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
    "speech_commands_v0.02": "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
}
_SUBSETS = ("training", "validation", "testing")


def _address(version: str) -> str:
    return f"http://download.tensorflow.org/data/{version}.tar.gz"


_INFO = DatasetInfo(
    name="speechcommands",
    task="keyword-spotting",
    splits=tuple(_VERSIONS),
    files=tuple(
        archive(_address(version), digest, f"{_FOLDER}/{version}", into=f"{_FOLDER}/{version}", splits=[version])
        for version, digest in _VERSIONS.items()
    ),
    schema=fields("label", "speaker_id", Field("utterance_number", "int")),
    license="CC-BY-4.0",
    citation="@article{speechcommandsv2, author={Warden, Pete}, title={Speech Commands: A Dataset for "
    "Limited-Vocabulary "
    "Speech Recognition}, year={2018}, eprint={1804.03209}}",
    homepage="https://www.tensorflow.org/datasets/catalog/speech_commands",
    description="105,829 recordings of 35 words, a second each, 16 kHz.",
)


@register_dataset(info=_INFO)
class SPEECHCOMMANDS(Recordings):
    """105,829 recordings of 35 words, a second each, by 2,618 speakers; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `folder_in_archive`.
        url: the version, "speech_commands_v0.01" or "speech_commands_v0.02", or the address of an archive.
        folder_in_archive: folder below the root that the versions' folders are in.
        download: fetch the archive (1.5 or 2.4 GB) where its folder is not in place.
        subset: "training" (84,843 of version 0.02), "validation" (9,981) or "testing" (11,005); all when None. "
        "Background
            noises are in none.

    Items are (waveform, sample rate, word, speaker, number of the speaker's recording of it).

    Raises:
        DatasetMissingError: the version's folder is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(
        self,
        root: str | Path,
        url: str = "speech_commands_v0.02",
        folder_in_archive: str = _FOLDER,
        download: bool = False,
        subset: str | None = None,
    ) -> None:
        if subset is not None:
            chosen(subset, "subset", _SUBSETS)
        location = _address(url) if url in _VERSIONS else url
        folder = f"{folder_in_archive}/{PurePosixPath(location).name.rsplit('.', 2)[0]}"
        self._archive = (
            from_elsewhere(_INFO, root, location, folder, download=download, into=folder) / folder_in_archive
        )
        self._path = self._archive / folder.rpartition("/")[2]
        self._walker = self._present(subset)

    def _present(self, subset: str | None) -> list[Path]:
        if subset in ("validation", "testing"):
            return self._listed(subset)
        found = sorted(self._path.glob("*/*.wav"))
        kept = [path for path in found if "_nohash_" in path.name and path.parent.name != "_background_noise_"]
        if subset is None:
            return kept
        others = {*self._listed("validation"), *self._listed("testing")}
        return [path for path in kept if path not in others]

    def _listed(self, subset: str) -> list[Path]:
        lines = (self._path / f"{subset}_list.txt").read_text(encoding="utf-8").split()
        return [self._path / line for line in lines]

    def get_metadata(self, n: int) -> tuple[str, int, str, str, int]:
        """Item `n` with the recording's path below `folder_in_archive` in place of the waveform."""
        path = self._walker[n]
        # In the separate archives of test sets some names end in ".wav.wav".
        speaker, _, number = path.name.split(".")[0].partition("_nohash_")
        return path.relative_to(self._archive).as_posix(), 16_000, path.parent.name, speaker, int(number)

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, int]:
        """(waveform, sample rate, word, speaker, number) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._archive / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._walker)
