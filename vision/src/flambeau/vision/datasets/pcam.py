"""PatchCamelyon: is there tumour tissue in the middle of a patch?

References:
    Veeling et al. 2018, Rotation Equivariant CNNs for Digital Pathology. arXiv:1806.03962
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._google_drive import drive_url
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets._readers import reader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["PCAM"]

# split -> the split's name in the files, then Drive's id and the MD5 of pictures and of targets.
_PARTS = {
    "train": (
        "train",
        ("1Ka0XfEMiwgCYPdTI-vv6eUElOBnKFKQ2", "1571f514728f59376b705fc836ff4b63"),
        ("1269yhu3pZDP8UYFQs-NYs3FPwuK-nGSG", "35c2d7259d906cfc8143347bb8e05be7"),
    ),
    "val": (
        "valid",
        ("1hgshYGWK8V-eGRy8LToWJJgDU_rXWVJ3", "d5b63470df7cfa627aeec8b9dc0c066e"),
        ("1bH8ZRbhSVAhScTS0p9-ZzGnX91cHT3uO", "2b85f58b927af9964a4c15b8f7e8f179"),
    ),
    "test": (
        "test",
        ("1qV65ZqZvWzuIVthK8eVDhIwrbnsJdbg_", "d8c2d60d490dbd479f8199bdfa0cf6ec"),
        ("17BHrSrwWKjYsOgTMmoqrIjDy6Fa2o_gP", "60a7035772fbdb7f34eb86d4420cf66a"),
    ),
}


def _path(split: str, letter: str) -> str:
    return f"pcam/camelyonpatch_level_2_split_{_PARTS[split][0]}_{letter}.h5"


_INFO = DatasetInfo(
    name="pcam",
    task="image-classification",
    sizes={"train": 262_144, "val": 32_768, "test": 32_768},
    files=tuple(
        DatasetFile(url=drive_url(file_id), path=_path(split, letter), md5=md5, splits=(split,))
        for split, (_, *pair) in _PARTS.items()
        for letter, (file_id, md5) in zip("xy", pair, strict=True)
    ),
    schema=picture_and_label(2, image=Field("image", "image", shape=(3, 96, 96), dtype="uint8")),
    license="CC0-1.0",
    citation="@inproceedings{veeling2018rotation, author={Veeling, Bastiaan and others}, title={Rotation Equivariant "
    "CNNs for Digital Pathology}, booktitle={MICCAI}, year={2018}}",
    homepage="https://github.com/basveeling/pcam",
    description="Patches of 96x96 pixels from lymph nodes, with or without tumour in the middle.",
)


@register_dataset(info=_INFO)
class PCAM(VisionDataset):
    """327,680 patches of 96x96 pixels from sections of lymph nodes; 1 where the middle 32x32 holds tumour. Needs h5py.

    Args:
        root: folder that holds, or shall hold, `pcam`.
        split: "train", "val" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the split's two files where they are not in place.

    Items are (PIL image in RGB, class index). Each process opens the files once.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        MissingReaderError: h5py is not installed.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        self._h5py = reader("h5py", "PCAM")
        self._split = verify_str_arg(split, "split", _PARTS)
        super().__init__(root, transform=transform, target_transform=target_transform)
        folder = prepare_dataset(_INFO, root, download=download, splits=(split,))
        self._pictures = folder / _path(split, "x")
        self._opened: tuple[int, Any] | None = None
        with self._h5py.File(folder / _path(split, "y")) as file:
            self._targets = [int(value) for value in file["y"][:].reshape(-1)]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(patch, class index) number `index`, transformed."""
        target = self._targets[index]
        pixels = self._open()["x"][index % len(self)]
        return self._transformed(Image.fromarray(pixels).convert("RGB"), target)

    def __len__(self) -> int:
        return len(self._targets)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_h5py": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _h5py=reader("h5py", "PCAM"))

    def _open(self) -> Any:
        """The file of pictures; another process must not share the handle that it got by a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), self._h5py.File(self._pictures))
        return self._opened[1]

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
