"""Semeion: digits in black and white.

References:
    Buscema and Terzi 1994, Semeion Handwritten Digit. UCI Machine Learning Repository. doi:10.24432/C5SC8V
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["SEMEION"]

_INFO = DatasetInfo(
    name="semeion",
    task="image-classification",
    sizes={"all": 1_593},
    files=(
        DatasetFile(
            url="http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data",
            md5="cb545d371d2ce14ec121470795a77432",
        ),
    ),
    schema=picture_and_label(10, image=Field("image", "image", shape=(1, 16, 16), dtype="uint8")),
    license="CC-BY-4.0",
    citation="@misc{semeion, author={Buscema, Massimo and Terzi, Stefano}, title={Semeion Handwritten Digit}, "
    "publisher={UCI Machine Learning Repository}, year={1994}}",
    homepage="https://archive.ics.uci.edu/dataset/178/semeion+handwritten+digit",
    description="Handwritten digits of 16x16 pixels, black and white.",
)


@register_dataset(info=_INFO)
class SEMEION(VisionDataset):
    """1,593 handwritten digits of 16x16 pixels that are either black or white.

    Args:
        root: folder that holds, or shall hold, `semeion.data`.
        transform: called with the picture.
        target_transform: called with the digit.
        download: fetch the file where it is not in place. Upstream: this is the default here.

    Attributes:
        data: [items, 16, 16], uint8, 0 or 255.
        labels: [items], the digits.

    Items are (PIL image of mode L, digit).

    Raises:
        DatasetMissingError: the file is missing or damaged, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = True,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        folder = prepare_dataset(_INFO, root, download=download)
        table = np.loadtxt(folder / "semeion.data", ndmin=2)
        self.data: NDArray[np.uint8] = (table[:, :256] * 255).astype(np.uint8).reshape(-1, 16, 16)
        self.labels: NDArray[np.int64] = table[:, 256:].argmax(1)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, digit) number `index`, transformed."""
        return self._transformed(Image.fromarray(self.data[index]), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch the file where it is not in place."""
        prepare_dataset(_INFO, self.root, download=True)
