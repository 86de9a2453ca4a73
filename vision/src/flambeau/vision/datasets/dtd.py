"""Describable Textures Dataset.

References:
    Cimpoi et al. 2014, Describing Textures in the Wild. arXiv:1311.3618
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["DTD"]

_FOLDER = "dtd/dtd"
_INFO = DatasetInfo(
    name="dtd",
    task="image-classification",
    sizes={"train": 1_880, "val": 1_880, "test": 1_880},
    files=(
        DatasetFile(
            url="https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
            path="dtd/dtd-r1.0.1.tar.gz",
            md5="fff73e5086ae6bdbea199a49dfb8a4c1",
            extract=True,
            contents=(Content(f"{_FOLDER}/images"), Content(f"{_FOLDER}/labels")),
        ),
    ),
    schema=picture_and_label(47),
    license="research use",
    citation="@inproceedings{cimpoi2014describing, author={Cimpoi, Mircea and others}, title={Describing Textures in "
    "the Wild}, booktitle={CVPR}, year={2014}}",
    homepage="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
    description="Textures with 47 words that describe them.",
)
_PARTITIONS = range(1, 11)


@register_dataset(info=_INFO)
class DTD(PictureDataset):
    """5,640 textures, from banded to zigzagged; each of ten partitions divides them into three equal splits.

    Args:
        root: folder that holds, or shall hold, `dtd`.
        split: "train", "val" or "test".
        partition: 1 to 10.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (600 MB) where the files are not in place.
        loader: opens a picture by path.

    Attributes:
        classes: the 47 words, sorted.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        ValueError: there is no such split or partition.
        TypeError: `partition` is no integer.
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        partition: int = 1,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        if not isinstance(partition, int):
            raise TypeError(f"partition is {partition!r}, expected an integer from 1 to 10.")
        if partition not in _PARTITIONS:
            raise ValueError(f"partition is {partition!r}, expected an integer from 1 to 10.")
        self._partition = partition
        folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        names = (folder / "labels" / f"{split}{partition}.txt").read_text(encoding="utf-8").split()
        labels = [name.partition("/")[0] for name in names]
        self.classes = sorted(set(labels))
        self.class_to_idx = index_of(self.classes)
        samples = [(folder / "images" / n, self.class_to_idx[label]) for n, label in zip(names, labels, strict=True)]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self) -> str:
        """Split and partition."""
        return f"split={self._split}, partition={self._partition}"
