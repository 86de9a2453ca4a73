"""STL-10: few labels, many pictures without.

References:
    Coates, Ng and Lee 2011, An Analysis of Single-Layer Networks in Unsupervised Feature Learning. AISTATS.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["STL10"]

_FOLDER = "stl10_binary"
_MD5 = {
    "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
    "train_y.bin": "5a34089d4802c674881badbb80307741",
    "unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4",
    "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
    "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
}
_INFO = DatasetInfo(
    name="stl10",
    task="image-classification",
    splits=("train", "train+unlabeled", "unlabeled", "test"),
    sizes={"train": 5_000, "unlabeled": 100_000, "train+unlabeled": 105_000, "test": 8_000},
    files=(
        DatasetFile(
            url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            md5="91f7769df0f17e558f3565bffb0c7dfb",
            extract=True,
            contents=(
                *(Content(f"{_FOLDER}/{name}", md5=md5) for name, md5 in _MD5.items()),
                Content(f"{_FOLDER}/class_names.txt"),
                Content(f"{_FOLDER}/fold_indices.txt"),
            ),
        ),
    ),
    # Without a label the target is -1, so that no number of classes is stated.
    schema=(Field("image", "image", shape=(3, 96, 96), dtype="uint8"), Field("label", "label")),
    license="unknown; the pictures are from ImageNet",
    citation="@inproceedings{coates2011analysis, author={Coates, Adam and Ng, Andrew and Lee, Honglak}, title={An "
    "Analysis of Single-Layer Networks in Unsupervised Feature Learning}, booktitle={AISTATS}, year={2011}}",
    homepage="https://cs.stanford.edu/~acoates/stl10/",
    description="Photographs of 96x96 pixels in ten classes, most of them without a label.",
)


@register_dataset(info=_INFO)
class STL10(VisionDataset):
    """13,000 photographs of 96x96 pixels in ten classes, and 100,000 without a label.

    Args:
        root: folder that holds, or shall hold, `stl10_binary`.
        split: "train", "train+unlabeled", "unlabeled" or "test".
        folds: 0 to 9: only the thousand pictures of this fold of "train"; None takes all.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (2.6 GB) where the files are not in place.

    Attributes:
        data: [items, 3, 96, 96], uint8.
        labels: [items], uint8; int64 with the unlabeled ones, -1 where there is none.
        classes: class names.

    Items are (PIL image in RGB, class index or -1).

    Raises:
        ValueError: there is no such split or fold.
        DatasetMissingError: files are missing or damaged, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        folds: int | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", _INFO.splits)
        if folds is not None and folds not in range(10):
            raise ValueError(f"folds is {folds!r}, expected None or an integer from 0 to 9.")
        self.folds = folds
        self._folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        parts = [self._part(name) for name in split.split("+")]
        self.data: NDArray[np.uint8] = np.concatenate([pixels for pixels, _ in parts])
        self.labels: NDArray[np.uint8 | np.int64] = np.concatenate([labels for _, labels in parts])
        self.classes = (self._folder / "class_names.txt").read_text(encoding="utf-8").split()

    def _part(self, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8 | np.int64]]:
        columns = np.fromfile(self._folder / f"{name}_X.bin", np.uint8).reshape(-1, 3, 96, 96)
        pixels = columns.transpose(0, 1, 3, 2)  # the file goes down the columns first
        if name == "unlabeled":
            return pixels, np.full(len(pixels), -1, np.int64)
        labels = np.fromfile(self._folder / f"{name}_y.bin", np.uint8) - np.uint8(1)
        if name == "train" and self.folds is not None:
            lines = (self._folder / "fold_indices.txt").read_text(encoding="utf-8").splitlines()
            chosen = np.array(lines[self.folds].split(), dtype=np.int64)
            return pixels[chosen], labels[chosen]
        return pixels, labels

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, class index) number `index`, transformed."""
        pixels = np.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self._transformed(Image.fromarray(pixels), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch and unpack the archive where its files are not in place."""
        prepare_dataset(_INFO, self.root, download=True)

    def extra_repr(self) -> str:
        """The split, and the fold where there is one."""
        return f"Split: {self.split}" + ("" if self.folds is None else f"\nFold: {self.folds}")
