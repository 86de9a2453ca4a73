"""MUSAN: music, speech and noise, to train detectors and to mix in.

References:
    Snyder et al. 2015, MUSAN: A Music, Speech, and Noise Corpus. arXiv:1510.08484
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, fields, read_waveform, require_folder
from flambeau.core.datasets import DatasetInfo, Gate, register_dataset

__all__ = ["Musan"]

_SUBSETS = ("music", "noise", "speech")
_INFO = DatasetInfo(
    name="musan",
    task="audio-classification",
    splits=_SUBSETS,
    schema=fields("file_name"),
    license="CC-BY-4.0",
    citation="@misc{musan2015, author={Snyder, David and Chen, Guoguo and Povey, Daniel}, title={MUSAN: A Music, "
    "Speech, "
    "and Noise Corpus}, year={2015}, eprint={1510.08484}}",
    homepage="https://www.openslr.org/17/",
    gated=Gate("manual", "https://www.openslr.org/17/", "Unpack musan.tar.gz there."),
    description="109 hours of music, speech and noise, 16 kHz.",
)


@register_dataset(info=_INFO)
class Musan(Recordings):
    """42 hours of music, 60 of speech, and 6 of noise; 16 kHz.

    Args:
        root: the folder `musan`, or the one that holds it. It is obtained by hand.
        subset: "music", "noise" or "speech".

    Items are (waveform, sample rate, file name).

    Raises:
        DatasetMissingError: the subset's folder is missing.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(self, root: str | Path, subset: str) -> None:
        chosen(subset, "subset", _SUBSETS)
        folder = Path(root).expanduser()
        if not (folder / subset).is_dir():
            folder = require_folder(_INFO, root, f"musan/{subset}") / "musan"
        self._walker = sorted(str(path) for path in (folder / subset).glob("*/*.wav"))

    def get_metadata(self, n: int) -> tuple[str, int, str]:
        """Item `n` with the recording's path in place of the waveform."""
        path = self._walker[n]
        return path, 16_000, Path(path).name

    def __getitem__(self, n: int) -> tuple[Tensor, int, str]:
        """(waveform, sample rate, file name) number `n`."""
        path, sample_rate, name = self.get_metadata(n)
        return read_waveform(path, sample_rate), sample_rate, name

    def __len__(self) -> int:
        return len(self._walker)
