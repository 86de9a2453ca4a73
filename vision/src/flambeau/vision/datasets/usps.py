"""USPS: digits from envelopes.

References:
    Hull 1994, A database for handwritten text recognition research. doi:10.1109/34.291440
"""

from __future__ import annotations

import bz2
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets._split_names import by_split_name
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["USPS"]

_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_FILES = {
    "train": ("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
    "test": ("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
}
_INFO = DatasetInfo(
    name="usps",
    task="image-classification",
    sizes={"train": 7_291, "test": 2_007},
    files=tuple(
        DatasetFile(url=_URL + name, path=name, md5=md5, splits=(split,)) for split, (name, md5) in _FILES.items()
    ),
    schema=picture_and_label(10, image=Field("image", "image", shape=(1, 16, 16), dtype="uint8")),
    license="unknown; cite the paper",
    citation="@article{hull1994database, author={Hull, Jonathan J.}, title={A database for handwritten text "
    "recognition research}, journal={IEEE TPAMI}, year={1994}}",
    homepage="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    description="Handwritten digits from envelopes, 16x16 pixels.",
)


class USPS(VisionDataset):
    """9,298 handwritten digits of 16x16 pixels, scanned from envelopes.

    Args:
        root: folder that holds, or shall hold, the two files.
        train: the 7,291 digits for training, otherwise the 2,007 for testing.
        transform: called with the picture.
        target_transform: called with the digit.
        download: fetch the part's file where it is not in place.

    Attributes:
        data: [items, 16, 16], uint8.
        targets: digit of every item.

    Items are (PIL image of mode L, digit).

    Raises:
        DatasetMissingError: the file is missing or damaged, and `download` is False.
    """

    split_list: ClassVar[dict[str, list[str]]] = {
        split: [_URL + name, name, md5] for split, (name, md5) in _FILES.items()
    }

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = "train" if train else "test"
        folder = prepare_dataset(_INFO, root, download=download, splits=(self._split,))
        with bz2.open(folder / _FILES[self._split][0], "rt", encoding="ascii") as file:
            rows = [line.split() for line in file if line.strip()]
        values = np.zeros((len(rows), 256), np.float32)  # Upstream: in double precision some pixels are one level less
        for item, (_, *pairs) in enumerate(rows):
            for position, value in (pair.split(":") for pair in pairs):
                values[item, int(position) - 1] = float(value)
        self.data: NDArray[np.uint8] = ((values + 1) / 2 * 255).astype(np.uint8).reshape(-1, 16, 16)
        self.targets = [int(row[0]) - 1 for row in rows]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, digit) number `index`, transformed."""
        return self._transformed(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Which of the two parts this is."""
        return f"Split: {self._split}"


_usps = register_dataset(info=_INFO)(by_split_name(USPS, "_usps"))
