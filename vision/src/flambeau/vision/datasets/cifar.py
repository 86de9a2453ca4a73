"""CIFAR-10 and CIFAR-100: tiny photographs of ten and a hundred classes.

References:
    Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images. https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._unpickle import load_arrays
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["CIFAR10", "CIFAR100"]

_CITATION = """@techreport{krizhevsky2009learning,
  author = {Alex Krizhevsky},
  title = {Learning Multiple Layers of Features from Tiny Images},
  institution = {University of Toronto},
  year = {2009}
}"""


class CIFAR10(VisionDataset):
    """60,000 colour photographs of 32x32 pixels in ten classes: airplane, automobile, bird, cat, deer and so on.

    Args:
        root: folder that holds, or shall hold, `cifar-10-batches-py`.
        train: the 50,000 pictures for training, otherwise the 10,000 for testing.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (163 MiB) where the files are not in place.

    Attributes:
        data: [items, 32, 32, 3], uint8.
        targets: class index of every item.
        classes: class names.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing or damaged, and `download` is False (a FileNotFoundError and
            RuntimeError).
    """

    # The published files; a dataset of the same layout overrides these.
    base_folder: ClassVar[str] = "cifar-10-batches-py"
    url: ClassVar[str] = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename: ClassVar[str] = "cifar-10-python.tar.gz"
    tgz_md5: ClassVar[str] = "c58f30108f718f92721af3b95e74349a"
    train_list: ClassVar[list[list[str]]] = [
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list: ClassVar[list[list[str]]] = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta: ClassVar[dict[str, str]] = {
        "filename": "batches.meta",
        "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
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
        self.train = train
        folder = prepare_dataset(self.facts(), root, download=download) / self.base_folder
        batches = [load_arrays(folder / name) for name, _ in (self.train_list if train else self.test_list)]
        planes = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        # [items, channels, height, width] in the file; pictures want the channels last, in one piece.
        self.data: NDArray[np.uint8] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        self.targets: list[int] = [int(label) for batch in batches for label in self._labels(batch)]
        self.classes: list[str] = load_arrays(folder / self.meta["filename"])[self.meta["key"]]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}

    @classmethod
    def facts(cls) -> DatasetInfo:
        """What the registry knows of this dataset, made from the class's attributes."""
        published = [*cls.train_list, *cls.test_list, [cls.meta["filename"], cls.meta["md5"]]]
        classes = 100 if cls.meta["key"] == "fine_label_names" else 10
        return DatasetInfo(
            name=cls.__name__.lower(),
            task="image-classification",
            sizes={"train": 50_000, "test": 10_000},
            files=(
                DatasetFile(
                    url=cls.url,
                    path=cls.filename,
                    md5=cls.tgz_md5,
                    extract=".",
                    contents=tuple(Content(path=f"{cls.base_folder}/{name}", md5=md5) for name, md5 in published),
                ),
            ),
            schema=(
                Field("image", "image", shape=(3, 32, 32), dtype="uint8"),
                Field("label", "label", classes=classes),
            ),
            license="unknown; cite the technical report",
            citation=_CITATION,
            homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
            description=f"60,000 colour photographs of 32x32 pixels in {classes} classes.",
        )

    @staticmethod
    def _labels(batch: dict[str, Any]) -> list[int]:
        labels: list[int] = batch["labels"] if "labels" in batch else batch["fine_labels"]
        return labels

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(image, class index) number `index`, transformed."""
        image: Any = Image.fromarray(self.data[index])
        target: Any = self.targets[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch and unpack the archive where its files are not in place."""
        prepare_dataset(self.facts(), self.root, download=True)

    def extra_repr(self) -> str:
        """Which of the two parts this is."""
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """60,000 colour photographs of 32x32 pixels in a hundred classes; otherwise as `CIFAR10`."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}


@register_dataset("cifar10", info=CIFAR10.facts())
def _cifar10(
    root: str | Path,
    split: Literal["train", "test"] = "train",
    transform: Callable[..., Any] | None = None,
    target_transform: Callable[..., Any] | None = None,
    download: bool = False,
    *,
    train: bool | None = None,
) -> CIFAR10:
    """`CIFAR10` by the name of a split; the class's own argument `train` is understood too, and wins."""
    return CIFAR10(root, _is_train(split, train), transform, target_transform, download)


@register_dataset("cifar100", info=CIFAR100.facts())
def _cifar100(
    root: str | Path,
    split: Literal["train", "test"] = "train",
    transform: Callable[..., Any] | None = None,
    target_transform: Callable[..., Any] | None = None,
    download: bool = False,
    *,
    train: bool | None = None,
) -> CIFAR100:
    """`CIFAR100` by the name of a split; the class's own argument `train` is understood too, and wins."""
    return CIFAR100(root, _is_train(split, train), transform, target_transform, download)


def _is_train(split: str, train: bool | None) -> bool:
    return verify_str_arg(split, "split", ("train", "test")) == "train" if train is None else train
