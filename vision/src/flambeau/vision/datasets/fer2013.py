"""FER2013: facial expressions.

References:
    Goodfellow et al. 2013, Challenges in Representation Learning: A report on three machine learning contests.
    arXiv:1307.0414
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, Gate, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["FER2013"]

_INFO = DatasetInfo(
    name="fer2013",
    task="image-classification",
    splits=("train", "test", "fer2013", "icml_face_data"),
    sizes={"train": 28_709, "test": 7_178},
    files=(
        DatasetFile(path="fer2013/train.csv", md5="3f0dfb3d3fd99c811a1299cb947e3131", splits=("train",)),
        DatasetFile(path="fer2013/test.csv", md5="b02c2298636a634e8c2faabbf3ea9a23", splits=("test",)),
        DatasetFile(path="fer2013/fer2013.csv", md5="f8428a1edbd21e88f42c73edd2a14f95", splits=("fer2013",)),
        DatasetFile(
            path="fer2013/icml_face_data.csv", md5="b114b9e04e6949e5fe8b6a98b3892b1d", splits=("icml_face_data",)
        ),
    ),
    schema=picture_and_label(7, image=Field("image", "image", shape=(1, 48, 48), dtype="uint8"), optional=True),
    license="rules of the Kaggle competition",
    citation="@inproceedings{goodfellow2013challenges, author={Goodfellow, Ian and others}, title={Challenges in "
    "Representation Learning: A report on three machine learning contests}, booktitle={ICONIP}, year={2013}}",
    homepage="https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
    gated=Gate(
        "manual",
        "https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
        "Any of fer2013.csv, icml_face_data.csv, or train.csv and test.csv will do; only the first two label the test.",
    ),
    description="Faces of 48x48 pixels with seven expressions.",
)
# The files that hold everything in one table, by preference, and how each calls its columns.
_TABLES = {
    "fer2013": ("emotion", "pixels", "Usage"),
    "icml_face_data": ("emotion", " pixels", " Usage"),
}
_USAGES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


@register_dataset(info=_INFO)
class FER2013(VisionDataset):
    """35,887 grey faces of 48x48 pixels: angry, disgusted, afraid, happy, sad, surprised, neutral.

    Args:
        root: folder that holds `fer2013` with the tables from Kaggle: fer2013.csv, icml_face_data.csv, or train.csv
            and test.csv; the first of these that is there is read.
        split: "train" or "test" (the contest's public and private test together).
        transform: called with the picture.
        target_transform: called with the class index.

    Items are (PIL image of mode L, class index); the index is None where test.csv is read, which has no labels.

    Raises:
        DatasetMissingError: the table is missing or damaged.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "test"))
        super().__init__(root, transform=transform, target_transform=target_transform)
        folder = Path(root).expanduser() / "fer2013"
        table = next((name for name in _TABLES if (folder / f"{name}.csv").exists()), split)
        prepare_dataset(_INFO, root, download=False, splits=(table,))
        self._samples = list(_rows(folder / f"{table}.csv", _TABLES.get(table), _USAGES[split]))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(face, class index) number `index`, transformed."""
        pixels, target = self._samples[index]
        return self._transformed(Image.fromarray(pixels), target)

    def __len__(self) -> int:
        return len(self._samples)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"


def _rows(
    path: Path, columns: tuple[str, str, str] | None, usages: tuple[str, ...]
) -> Iterator[tuple[NDArray[np.uint8], int | None]]:
    emotion, pixels, usage = columns or ("emotion", "pixels", "")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not usage or row[usage] in usages:
                face = np.array(row[pixels].split(), dtype=np.uint8).reshape(48, 48)
                yield face, int(row[emotion]) if emotion in row else None
