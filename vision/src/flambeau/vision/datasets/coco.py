"""COCO: common objects in context; detection and captions.

References:
    Lin et al. 2014, Microsoft COCO: Common Objects in Context. arXiv:1405.0312
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.vision.datasets._coco_index import CocoIndex
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["CocoCaptions", "CocoDetection"]

_ABOUT: dict[str, Any] = {
    "sizes": {"train2017": 118_287, "val2017": 5_000},
    "license": "annotations CC-BY-4.0; the pictures are from Flickr and under its terms",
    "citation": "@inproceedings{lin2014microsoft, author={Lin, Tsung-Yi and others}, title={Microsoft COCO: Common "
    "Objects in Context}, booktitle={ECCV}, year={2014}}",
    "homepage": "https://cocodataset.org/",
    "gated": Gate("manual", "https://cocodataset.org/#download", "Unpack the pictures and the annotations."),
}


@register_dataset(
    info=DatasetInfo(
        name="cocodetection",
        task="object-detection",
        schema=(IMAGE, Field("annotations", "list")),
        description="Photographs with boxes and outlines of things of 80 classes.",
        **_ABOUT,
    )
)
class CocoDetection(VisionDataset):
    """Photographs with boxes and outlines of things of 80 classes. Needs no pycocotools.

    Args:
        root: folder of the pictures, such as `train2017`.
        annFile: the annotation file, such as `annotations/instances_train2017.json`.
        transform: called with the picture.
        target_transform: called with the annotations.
        transforms: called with both; excludes the other two.

    Attributes:
        ids: ids of the pictures, sorted.
        coco: the annotation file, indexed (`imgs`, `anns`, `cats`, `loadAnns`, `annToMask` and others).

    Items are (PIL image in RGB, list of dicts with `bbox` [x, y, width, height], `category_id`, `segmentation`,
    `iscrowd`, `area` and others); the list is empty for a picture without annotations.

    Raises:
        DatasetMissingError: the annotation file is missing.
        CocoFormatError: it is not in COCO's format.
    """

    def __init__(
        self,
        root: str | Path,
        annFile: str,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.coco = CocoIndex(annFile)
        self.ids = sorted(self.coco.imgs)

    def _load_image(self, id: Any) -> Any:
        path = Path(str(self.root)) / self.coco.loadImgs(id)[0]["file_name"]
        return opened(path, default_loader, transformed=self._transforms_pictures)

    def _load_target(self, id: Any) -> list[Any]:
        return self.coco.loadAnns(self.coco.getAnnIds(id))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, annotations) number `index`, transformed.

        Raises:
            ValueError: `index` is no integer.
        """
        if not isinstance(index, int):
            raise ValueError(f"index is {index!r}, a {type(index).__name__}; items are numbered by int.")
        id = self.ids[index]
        return self._transformed(self._load_image(id), self._load_target(id))

    def __len__(self) -> int:
        return len(self.ids)


@register_dataset(
    info=DatasetInfo(
        name="cococaptions",
        task="image-captioning",
        schema=(IMAGE, Field("captions", "list")),
        description="Photographs with five captions each.",
        **_ABOUT,
    )
)
class CocoCaptions(CocoDetection):
    """Photographs with about five captions each; `annFile` is such as `annotations/captions_train2017.json`.

    Items are (PIL image in RGB, list of captions). Arguments, attributes and errors as `CocoDetection`.
    """

    def _load_target(self, id: Any) -> list[Any]:
        return [record["caption"] for record in super()._load_target(id)]
