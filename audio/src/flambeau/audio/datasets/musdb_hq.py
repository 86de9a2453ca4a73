"""MUSDB18-HQ: 150 songs with their stems.

References:
    Rafii et al. 2019, MUSDB18-HQ - an uncompressed version of MUSDB18. doi:10.5281/zenodo.3338373
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, archive, chosen, read_recording
from flambeau.core.datasets import DatasetInfo, Field, prepare_dataset, register_dataset

__all__ = ["MUSDB_HQ"]

_FOLDER = "musdb18hq"
_SOURCES = ("bass", "drums", "other", "mixture", "vocals")
_INFO = DatasetInfo(
    name="musdb_hq",
    task="source-separation",
    sizes={"train": 100, "test": 50},
    files=(
        archive(
            "https://zenodo.org/record/3338373/files/musdb18hq.zip",
            "baac80d0483c61d74b2e5f3be75fa557eec52898339e6aa45c1fa48833c5d21d",
            f"{_FOLDER}/train",
            into=_FOLDER,
        ),
    ),
    schema=(
        Field("waveforms", "waveform", shape=("sources", "channels", "time"), dtype="float32"),
        Field("sample_rate", "int"),
        Field("num_frames", "int"),
        Field("track", "text"),
    ),
    license="various, for education; see the site",
    citation="@misc{MUSDB18HQ, author={Rafii, Zafar and others}, title={MUSDB18-HQ - an uncompressed version of "
    "MUSDB18}, "
    "year={2019}, doi={10.5281/zenodo.3338373}}",
    homepage="https://zenodo.org/record/3338373",
    description="150 songs with their stems, ten hours, stereo, 44.1 kHz.",
)
_VALIDATION = frozenset(
    """
Actions - One Minute Smile
Clara Berry And Wooldog - Waltz For My Victims
Johnny Lokke - Promises & Lies
Patrick Talbot - A Reason To Leave
Triviul - Angelsaint
Alexander Ross - Goodbye Bolero
Fergessen - Nos Palpitants
Leaf - Summerghost
Skelpolu - Human Mistakes
Young Griffo - Pennies
ANiMAL - Rockshow
James May - On The Line
Meaxic - Take A Step
Traffic Experiment - Sirens
    """.strip().splitlines()
)


@register_dataset(info=_INFO)
class MUSDB_HQ(Recordings):
    """150 songs with their stems (bass, drums, vocals, all other) and mixture: ten hours, stereo, 44.1 kHz.

    Args:
        root: folder that holds, or shall hold, `musdb18hq`.
        subset: "train" (100 songs) or "test" (50).
        sources: which of "bass", "drums", "other", "mixture" and "vocals"; all when None.
        split: of the subset "train" the part for "train" (86) or "validation" (14); both when None.
        download: fetch the archive (23 GB) where the folder is not in place.

    Items are (waveforms (sources, channels, time), sample rate, number of frames, name of the song).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: one of the arguments is another, or a song's files differ in length or rate.
    """

    def __init__(
        self,
        root: str | Path,
        subset: str,
        sources: list[str] | None = None,
        split: str | None = None,
        download: bool = False,
    ) -> None:
        self.subset = chosen(subset, "subset", ("train", "test"))
        self.sources = [chosen(source, "a source", _SOURCES) for source in sources or _SOURCES]
        if split is not None and subset == "test":
            raise ValueError(f"split is {split!r}, but only the subset 'train' is split; leave it out for 'test'.")
        self.split = split if split is None else chosen(split, "split", ("train", "validation"))
        self._path = prepare_dataset(_INFO, root, download=download) / _FOLDER
        names = sorted(path.name for path in (self._path / subset).iterdir() if path.is_dir())
        self.names = [name for name in names if split is None or (name in _VALIDATION) == (split == "validation")]

    def get_metadata(self, n: int) -> tuple[list[str], int, int, str]:
        """Item `n` with the recordings' paths below the dataset's folder in place of the waveforms."""
        from flambeau.audio import info

        name = self.names[n]
        paths = [f"{self.subset}/{name}/{source}.wav" for source in self.sources]
        return paths, 44_100, info(str(self._path / paths[0])).num_frames, name

    def __getitem__(self, n: int) -> tuple[Tensor, int, int, str]:
        """(waveforms, sample rate, number of frames, song) number `n`."""
        name = self.names[n]
        waveforms: list[Tensor] = []
        for source in self.sources:
            waveform, sample_rate = read_recording(self._path / self.subset / name / f"{source}.wav")
            if sample_rate != 44_100:
                raise ValueError(f"{name}: {source} has {sample_rate} samples per second, expected 44100.")
            if waveforms and waveform.shape != waveforms[0].shape:
                raise ValueError(
                    f"{name}: {source} is {tuple(waveform.shape)} and {self.sources[0]} {tuple(waveforms[0].shape)}; "
                    "expected stems of one length, as they come out of the archive."
                )
            waveforms.append(waveform)
        return torch.stack(waveforms), 44_100, waveforms[0].shape[-1], name

    def __len__(self) -> int:
        return len(self.names)
