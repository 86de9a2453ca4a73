"""Food-101.

References:
    Bossard et al. 2014, Food-101: Mining Discriminative Components with Random Forests. ECCV.
    doi:10.1007/978-3-319-10599-4_29
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["Food101"]

_INFO = DatasetInfo(
    name="food101",
    task="image-classification",
    sizes={"train": 75_750, "test": 25_250},
    files=(
        DatasetFile(
            url="http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
            md5="85eeb15f3717b99a5da872d97d918f87",
            extract=True,
            contents=(Content("food-101/images"), Content("food-101/meta")),
        ),
    ),
    schema=picture_and_label(101),
    license="research use; the pictures are from Foodspotting",
    citation="@inproceedings{bossard2014food, author={Bossard, Lukas and Guillaumin, Matthieu and Van Gool, Luc}, "
    "title={Food-101: Mining Discriminative Components with Random Forests}, booktitle={ECCV}, year={2014}}",
    homepage="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    description="Photographs of 101 dishes.",
)


@register_dataset(info=_INFO)
class Food101(PictureDataset):
    """101,000 photographs of 101 dishes; those for training have some wrong labels on purpose.

    Args:
        root: folder that holds, or shall hold, `food-101`.
        split: "train" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (5 GB) where the files are not in place.
        loader: opens a picture by path.

    Attributes:
        classes: names such as "apple_pie", sorted.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "test"))
        folder = prepare_dataset(_INFO, root, download=download) / "food-101"
        listing: dict[str, list[str]] = json.loads((folder / "meta" / f"{split}.json").read_text(encoding="utf-8"))
        self.classes = sorted(listing)
        self.class_to_idx = index_of(self.classes)
        samples = [
            (folder / "images" / f"{name}.jpg", self.class_to_idx[label])
            for label, names in listing.items()
            for name in names
        ]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
