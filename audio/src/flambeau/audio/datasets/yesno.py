"""YesNo: one man says eight times yes or no in Hebrew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio.datasets._recordings import Listed, archive, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, Field, register_dataset

__all__ = ["YESNO"]

_URL = "http://www.openslr.org/resources/1/waves_yesno.tar.gz"
_INFO = DatasetInfo(
    name="yesno",
    task="speech-recognition",
    sizes={"all": 60},
    files=(archive(_URL, "c3f49e0cca421f96b75b41640749167b52118f232498667ca7a5f9416aef8e73", "waves_yesno"),),
    schema=fields(Field("labels", "list")),
    license="CC-BY-3.0",
    citation="@misc{yesno, title={YesNo}, author={Povey, Daniel}, howpublished={OpenSLR 1}}",
    homepage="https://www.openslr.org/1/",
    description="Sixty recordings of eight words each, yes or no in Hebrew, 8 kHz.",
)


@register_dataset(info=_INFO)
class YESNO(Listed):
    """Sixty recordings of one man who says "yes" or "no" in Hebrew, eight times each; 8 kHz.

    Args:
        root: folder that holds, or shall hold, the dataset's.
        url: address of the archive (5 MB).
        folder_in_archive: the dataset's folder below the root.
        download: fetch the archive where the folder is not in place.

    Items are (waveform, sample rate, list of eight ints: 1 for yes).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False; a RuntimeError as well.
    """

    def __init__(
        self,
        root: str | Path,
        url: str = _URL,
        folder_in_archive: str = "waves_yesno",
        download: bool = False,
    ) -> None:
        self._path = from_elsewhere(_INFO, root, url, folder_in_archive, download=download) / folder_in_archive
        self._walker = sorted(path.stem for path in self._path.glob("*.wav"))

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        name = self._walker[n]
        return self._path / f"{name}.wav", ([int(label) for label in name.split("_")],)

    def __len__(self) -> int:
        return len(self._walker)
