"""COCO's annotation file, indexed by picture."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.core.errors import DatasetMissingError, FlambeauError
from flambeau.vision.datasets._segmentations import segmentation_to_mask

__all__ = ["CocoFormatError", "CocoIndex"]


class CocoFormatError(FlambeauError, ValueError):
    """A file that holds no annotations in COCO's format."""


class CocoIndex:
    """The records of an annotation file; method names are those of COCO's own tools.

    Args:
        path: the JSON file.

    Attributes:
        imgs, anns, cats: record by id.
        imgToAnns: id of a picture -> its annotations, in the order of the file.

    Raises:
        DatasetMissingError: there is no such file.
        CocoFormatError: it is no JSON, or holds no list of pictures.
    """

    def __init__(self, path: str | Path) -> None:
        file = Path(path).expanduser()
        if not file.is_file():
            raise DatasetMissingError(
                f"{file} is missing. Annotations are in annotations_trainval2017.zip from "
                "https://cocodataset.org/#download; unpack it and pass the path of one of its files."
            )
        try:
            self.dataset: dict[str, Any] = json.loads(file.read_bytes())
        except ValueError as error:
            raise CocoFormatError(f"{file} is no JSON ({error}); fetch it again.") from error
        if not isinstance(self.dataset, dict) or "images" not in self.dataset:
            raise CocoFormatError(f"{file} has no list 'images', which every annotation file of COCO has.")
        self.imgs: dict[Any, dict[str, Any]] = {record["id"]: record for record in self.dataset["images"]}
        annotations = self.dataset.get("annotations", [])
        self.anns: dict[Any, dict[str, Any]] = {record["id"]: record for record in annotations}
        self.cats: dict[Any, dict[str, Any]] = {record["id"]: record for record in self.dataset.get("categories", [])}
        self.imgToAnns: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)
        for record in annotations:
            self.imgToAnns[record["image_id"]].append(record)

    def getAnnIds(self, imgIds: Any = ()) -> list[Any]:
        """Ids of the annotations of one or several pictures; of all without an argument."""
        wanted = imgIds if isinstance(imgIds, list | tuple) else [imgIds]
        return (
            [record["id"] for image in wanted for record in self.imgToAnns.get(image, ())] if wanted else [*self.anns]
        )

    def loadAnns(self, ids: Any) -> list[dict[str, Any]]:
        """Annotations by id."""
        return [self.anns[number] for number in _listed(ids)]

    def loadImgs(self, ids: Any) -> list[dict[str, Any]]:
        """Records of pictures by id."""
        return [self.imgs[number] for number in _listed(ids)]

    def loadCats(self, ids: Any) -> list[dict[str, Any]]:
        """Categories by id."""
        return [self.cats[number] for number in _listed(ids)]

    def getImgIds(self) -> list[Any]:
        """Ids of all pictures."""
        return [*self.imgs]

    def getCatIds(self) -> list[Any]:
        """Ids of all categories."""
        return [*self.cats]

    def annToMask(self, ann: dict[str, Any]) -> NDArray[np.uint8]:
        """The mask of an annotation: [height, width], uint8, of 0 and 1."""
        image = self.imgs[ann["image_id"]]
        return segmentation_to_mask(ann["segmentation"], image["height"], image["width"])


def _listed(ids: Any) -> Iterable[Any]:
    return ids if isinstance(ids, list | tuple) else [ids]
