"""The transcribed ten hours of Libri-light, to fine-tune on.

References:
    Kahn et al. 2020, Libri-Light: A Benchmark for ASR with Limited or No Supervision. arXiv:1912.07875
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets import librispeech
from flambeau.audio.datasets._librispeech_files import LibriSpeechFiles
from flambeau.audio.datasets._recordings import Recordings, archive, chosen, read_waveform
from flambeau.core.datasets import DatasetInfo, prepare_dataset, register_dataset

__all__ = ["LibriLightLimited"]

_FOLDER = "librispeech_finetuning"
_SUBSETS = {"10min": ("1h/0",), "1h": ("1h/*",), "10h": ("1h/*", "9h")}
_INFO = DatasetInfo(
    name="librilightlimited",
    task="speech-recognition",
    splits=tuple(_SUBSETS),
    files=(
        archive(
            "https://dl.fbaipublicfiles.com/librilight/data/librispeech_finetuning.tgz",
            "5d1efdc777b548194d7e09ba89126e2188026df9fd57aa57eb14408d2b2342af",
            _FOLDER,
        ),
    ),
    schema=librispeech.SCHEMA,
    license="CC-BY-4.0",
    citation="@inproceedings{librilight, author={Kahn, Jacob and others}, title={Libri-Light: A Benchmark for ASR with "
    "Limited or No Supervision}, booktitle={ICASSP}, year={2020}}",
    homepage="https://github.com/facebookresearch/libri-light",
    description="Ten hours of LibriSpeech, with subsets of ten minutes and an hour, 16 kHz.",
)


@register_dataset(info=_INFO)
class LibriLightLimited(Recordings):
    """Ten hours of LibriSpeech to fine-tune on, with subsets of ten minutes and an hour; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `librispeech_finetuning`.
        subset: "10min", "1h" or "10h".
        download: fetch the archive (0.6 GB) where the folder is not in place.

    Items are (waveform, sample rate, transcript, speaker, chapter, utterance), the last three ints.

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(self, root: str | Path, subset: str = "10min", download: bool = False) -> None:
        folders = _SUBSETS[chosen(subset, "subset", list(_SUBSETS))]
        self._path = prepare_dataset(_INFO, root, download=download) / _FOLDER
        self._files = LibriSpeechFiles(self._path)
        # 1h/0/clean/<speaker>/<chapter>/<recording>; 9h/clean/...
        found = (path for folder in folders for path in self._path.glob(f"{folder}/*/*/*/*.flac"))
        self._walker = sorted((path.parents[2].relative_to(self._path).as_posix(), path.stem) for path in found)

    def get_metadata(self, n: int) -> tuple[str, int, str, int, int, int]:
        """Item `n` with the recording's path below `librispeech_finetuning` in place of the waveform."""
        return self._files.metadata(*self._walker[n])

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, int, int, int]:
        """(waveform, sample rate, transcript, speaker, chapter, utterance) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._path / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._walker)
