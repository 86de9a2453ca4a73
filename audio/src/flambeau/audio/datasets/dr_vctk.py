"""Device-recorded VCTK: clean speech played in an office and recorded by consumer devices.

References:
    Sarfjoo and Yamagishi 2018, Device Recorded VCTK (Small subset version). doi:10.7488/ds/2316
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import (
    Recordings,
    archive,
    chosen,
    fields,
    from_elsewhere,
    read_recording,
    read_sample_rate,
)
from flambeau.core.datasets import DatasetInfo, Field, register_dataset

__all__ = ["DR_VCTK"]

_URL = "https://datashare.ed.ac.uk/bitstream/handle/10283/3038/DR-VCTK.zip"
_SUBSETS = ("train", "test")
_INFO = DatasetInfo(
    name="dr_vctk",
    task="speech-enhancement",
    splits=_SUBSETS,
    files=(
        archive(
            _URL, "781f12f4406ed36ed27ae3bce55da47ba176e2d8bae67319e389e07b2c9bd769", "DR-VCTK/DR-VCTK", into="DR-VCTK"
        ),
    ),
    schema=(
        *fields(Field("waveform_noisy", "waveform", dtype="float32"), Field("sample_rate_noisy", "int")),
        *fields("speaker_id", "utterance_id", "source", Field("channel_id", "int"), waveform=None),
    ),
    license="CC-BY-4.0",
    citation="@misc{Sarfjoo2018DeviceRV, author={Sarfjoo, Seyyed Saeed and Yamagishi, Junichi}, title={Device Recorded "
    "VCTK (Small subset version)}, year={2018}}",
    homepage="https://datashare.ed.ac.uk/handle/10283/3038",
    description="Clean speech of 30 speakers, and what consumer devices recorded of it in an office, 16 kHz.",
)


@register_dataset(info=_INFO)
class DR_VCTK(Recordings):
    """Clean speech of 30 speakers, and what consumer devices recorded of it in an office; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `DR-VCTK`.
        subset: "train" (28 speakers) or "test" (2).
        download: fetch the archive where the folder is not in place.
        url: its address.

    Items are (clean waveform, its sample rate, recorded waveform, its sample rate, speaker, utterance, device,
    channel),
    the last an int.

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "subset"

    def __init__(self, root: str | Path, subset: str = "train", *, download: bool = False, url: str = _URL) -> None:
        self._subset = chosen(subset, "subset", _SUBSETS)
        folder = "DR-VCTK/DR-VCTK"
        self._path = from_elsewhere(_INFO, root, url, folder, download=download, into="DR-VCTK") / folder
        self._config = dict(self._read_config(self._path / "configurations" / f"{subset}_ch_log.txt"))
        self._filename_list = sorted(self._config)

    @staticmethod
    def _read_config(path: Path) -> list[tuple[str, tuple[str, int]]]:
        rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
        # One or two lines of headings come first.
        return [(row[0], (row[1], int(row[2]))) for row in rows if len(row) == 3 and row[2].strip().isdigit()]

    def get_metadata(self, n: int) -> tuple[str, int, str, int, str, str, str, int]:
        """Item `n` with the recordings' paths below the dataset's folder in place of the waveforms."""
        name = self._filename_list[n]
        clean, recorded = (f"{kind}_{self._subset}set_wav_16k/{name}" for kind in ("clean", "device-recorded"))
        rates = (read_sample_rate(self._path / path) for path in (clean, recorded))
        speaker, utterance = name.split(".")[0].split("_")[:2]
        return clean, next(rates), recorded, next(rates), speaker, utterance, *self._config[name]

    def __getitem__(self, n: int) -> tuple[Tensor, int, Tensor, int, str, str, str, int]:
        """(clean, rate, recorded, rate, speaker, utterance, device, channel) number `n`."""
        name = self._filename_list[n]
        speaker, utterance = name.split(".")[0].split("_")[:2]
        clean, recorded = (
            read_recording(self._path / f"{kind}_{self._subset}set_wav_16k" / name)
            for kind in ("clean", "device-recorded")
        )
        return (*clean, *recorded, speaker, utterance, *self._config[name])

    def __len__(self) -> int:
        return len(self._filename_list)
