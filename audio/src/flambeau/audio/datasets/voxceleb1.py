"""VoxCeleb1: 1,251 celebrities in videos of YouTube.

References:
    Nagrani et al. 2017, VoxCeleb: a large-scale speaker identification dataset. arXiv:1706.08612
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, fields, read_waveform
from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, fetch_dataset, register_dataset
from flambeau.core.errors import DatasetMissingError
from flambeau.core.files import replace

__all__ = ["VoxCeleb1", "VoxCeleb1Identification", "VoxCeleb1Verification"]

_SITE = "https://www.robots.ox.ac.uk/~vgg/data/voxceleb"
_BASE = "https://thor.robots.ox.ac.uk/~vgg/data/voxceleb/vox1a"
_PARTS = {
    "vox1_dev_wav_partaa": "21ec6ca843659ebc2fdbe04b530baa4f191ad4b0971912672d92c158f32226a0",
    "vox1_dev_wav_partab": "311d21e0c8cbf33573a4fce6c80e5a279d80736274b381c394319fc557159a04",
    "vox1_dev_wav_partac": "92b64465f2b2a3dc0e4196ae8dd6828cbe9ddd1f089419a11e4cbfe2e1750df0",
    "vox1_dev_wav_partad": "00e6190c770b27f27d2a3dd26ee15596b17066b715ac111906861a7d09a211a5",
}
_TEST = {"vox1_test_wav.zip": "8de57f347fe22b2c24526e9f444f689ecf5096fc2a92018cf420ff6b5b15eaea"}
_FILES = tuple(DatasetFile(url=f"{_BASE}/{name}", sha256=digest) for name, digest in (_PARTS | _TEST).items())
_SUBSETS = {"train": "1", "dev": "2", "test": "3"}
_ABOUT = {
    "license": "CC-BY-4.0",
    "citation": "@inproceedings{nagrani2017voxceleb, author={Nagrani, Arsha and Chung, Joon Son and Zisserman, "
    "Andrew}, "
    "title={VoxCeleb: a large-scale speaker identification dataset}, booktitle={Interspeech}, year={2017}}",
    "homepage": f"{_SITE}/vox1.html",
}
_IDENTIFICATION = DatasetInfo(
    name="voxceleb1identification",
    task="speaker-identification",
    splits=tuple(_SUBSETS),
    files=(*_FILES, DatasetFile(url=f"{_SITE}/meta/iden_split.txt")),
    schema=fields(Field("speaker_id", "int"), "file_id"),
    description="Which of 1,251 celebrities speaks, 16 kHz.",
    **_ABOUT,  # type: ignore[arg-type]
)
_VERIFICATION = DatasetInfo(
    name="voxceleb1verification",
    task="speaker-verification",
    splits=("test",),
    files=(*_FILES, DatasetFile(url=f"{_SITE}/meta/veri_test.txt")),
    schema=(
        *(Field(name, "waveform", shape=("channels", "time"), dtype="float32") for name in ("waveform1", "waveform2")),
        *fields(Field("sample_rate", "int"), Field("label", "int"), "file_id1", "file_id2", waveform=None),
    ),
    description="Whether two recordings are of the same celebrity, 16 kHz.",
    **_ABOUT,  # type: ignore[arg-type]
)


class VoxCeleb1(Recordings):
    """Base of the two tasks: the recordings below `root/wav`, and a list that is fetched where it is not in place."""

    _info: DatasetInfo

    def __init__(self, root: str | Path, meta_url: str, download: bool) -> None:
        folder = Path(root).expanduser()
        self._path = folder / "wav"
        self._list = folder / PurePosixPath(meta_url).name
        if not self._path.is_dir():
            if not download:
                raise DatasetMissingError(
                    f"dataset {self._info.name!r} is not complete in {folder}: wav is missing. Pass download=True to "
                    f"fetch "
                    f"it, or unpack vox1_dev_wav.zip and vox1_test_wav.zip there, from {self._info.homepage}."
                )
            _fetch_recordings(self._info, folder)
        if not self._list.exists():
            listing = DatasetInfo(name=f"{self._info.name}-list", files=(DatasetFile(url=meta_url),))
            fetch_dataset(listing, folder)


def _fetch_recordings(info: DatasetInfo, folder: Path) -> None:
    from flambeau.core.hub import extract_archive

    fetch_dataset(info, folder)
    whole = folder / "vox1_dev_wav.zip"
    joining = whole.with_suffix(".joining")
    with joining.open("wb") as joined:
        for name in _PARTS:
            with (folder / name).open("rb") as part:
                shutil.copyfileobj(part, joined, 1 << 20)
    replace(joining, whole)
    # Last the folder that says that everything is there.
    unpacking = folder / "wav.unpacking"
    extract_archive(whole, unpacking, remove=True)  # of which there are the parts as well
    extract_archive(folder / next(iter(_TEST)), unpacking)
    replace(unpacking / "wav", folder / "wav")
    shutil.rmtree(unpacking)


def _file_id(path: str) -> str:
    return "-".join(PurePosixPath(path).with_suffix("").parts[-3:])


@register_dataset(info=_IDENTIFICATION)
class VoxCeleb1Identification(VoxCeleb1):
    """153,516 recordings of 1,251 celebrities, to tell who speaks; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `wav` and the list.
        subset: "train", "dev" or "test".
        meta_url: address of the list, with lines of the subset's number and a path.
        download: fetch the archives where `wav` is not in place. The list is fetched in any case.

    Items are (waveform, sample rate, speaker's number, "speaker-video-utterance").

    Raises:
        DatasetMissingError: `wav` is missing, and `download` is False.
        ValueError: another subset.
    """

    split_argument = "subset"

    _info = _IDENTIFICATION

    def __init__(
        self,
        root: str | Path,
        subset: str = "train",
        meta_url: str = f"{_SITE}/meta/iden_split.txt",
        download: bool = False,
    ) -> None:
        wanted = _SUBSETS[chosen(subset, "subset", list(_SUBSETS))]
        super().__init__(root, meta_url, download)
        rows = (line.split() for line in self._list.read_text(encoding="utf-8").splitlines())
        self._flist = sorted(row[1] for row in rows if row and row[0] == wanted)

    def get_metadata(self, n: int) -> tuple[str, int, int, str]:
        """Item `n` with the recording's path below `wav` in place of the waveform."""
        path = self._flist[n]
        name = _file_id(path)
        # Upstream: of "id10001" the number is 1.
        return path, 16_000, int(name.split("-")[0][3:]), name

    def __getitem__(self, n: int) -> tuple[Tensor, int, int, str]:
        """(waveform, sample rate, speaker, file id) number `n`."""
        path, sample_rate, speaker, name = self.get_metadata(n)
        return read_waveform(self._path / path, sample_rate), sample_rate, speaker, name

    def __len__(self) -> int:
        return len(self._flist)


@register_dataset(info=_VERIFICATION)
class VoxCeleb1Verification(VoxCeleb1):
    """37,720 pairs of recordings, to tell whether they are of the same celebrity; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `wav` and the list.
        meta_url: address of the list, with lines of a label and two paths.
        download: fetch the archives where `wav` is not in place. The list is fetched in any case.

    Items are (waveform, other waveform, sample rate, 1 for the same speaker else 0, file id, other file id).

    Raises:
        DatasetMissingError: `wav` is missing, and `download` is False.
    """

    _info = _VERIFICATION

    def __init__(self, root: str | Path, meta_url: str = f"{_SITE}/meta/veri_test.txt", download: bool = False) -> None:
        super().__init__(root, meta_url, download)
        rows = (line.split() for line in self._list.read_text(encoding="utf-8").splitlines())
        self._flist = [(int(row[0]), row[1], row[2]) for row in rows if row]

    def get_metadata(self, n: int) -> tuple[str, str, int, int, str, str]:
        """Item `n` with the recordings' paths below `wav` in place of the waveforms."""
        label, one, other = self._flist[n]
        return one, other, 16_000, label, _file_id(one), _file_id(other)

    def __getitem__(self, n: int) -> tuple[Tensor, Tensor, int, int, str, str]:
        """(waveform, other waveform, sample rate, label, file id, other file id) number `n`."""
        one, other, sample_rate, *rest = self.get_metadata(n)
        first, second = (read_waveform(self._path / path, sample_rate) for path in (one, other))
        return (first, second, sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._flist)
