"""Pascal VOC: detection and segmentation of twenty classes.

References:
    Everingham et al. 2010, The Pascal Visual Object Classes (VOC) Challenge. doi:10.1007/s11263-009-0275-4
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from xml.etree.ElementTree import Element

from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._xml import read_xml
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["VOCDetection", "VOCSegmentation"]

_URL = "https://thor.robots.ox.ac.uk/pascal/VOC/"
# year -> archive, MD5, folder. The test of 2007 is an archive of its own.
_ARCHIVES = {
    "2012": ("voc2012/VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", "VOCdevkit/VOC2012"),
    "2011": ("voc2011/VOCtrainval_25-May-2011.tar", "6c3384ef61512963050cb5d687e5bf1e", "TrainVal/VOCdevkit/VOC2011"),
    "2010": ("voc2010/VOCtrainval_03-May-2010.tar", "da459979d0c395079b5c75ee67908abb", "VOCdevkit/VOC2010"),
    "2009": ("voc2009/VOCtrainval_11-May-2009.tar", "a3e00b113cfcfebf17e343f59da3caa1", "VOCdevkit/VOC2009"),
    "2008": ("voc2008/VOCtrainval_14-Jul-2008.tar", "2629fa636546599198acfcfbfcf1904a", "VOCdevkit/VOC2008"),
    "2007": ("voc2007/VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", "VOCdevkit/VOC2007"),
    "2007-test": ("voc2007/VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", "VOCdevkit/VOC2007"),
}
_SETS = ("train", "trainval", "val")


def _facts(name: str, task: str, lists: str, targets: str, sizes: dict[str, int], target: Field) -> DatasetInfo:
    """The facts of one task; a split is a year and an image set."""
    files = []
    for key, (archive, md5, folder) in _ARCHIVES.items():
        year, _, test = key.partition("-")
        sets = (test,) if test else _SETS
        inside = (f"ImageSets/{lists}/{sets[-1]}.txt", "JPEGImages", targets, f"ImageSets/{lists}")
        file = DatasetFile(
            url=_URL + archive,
            md5=md5,
            extract=True,
            contents=tuple(Content(f"{folder}/{path}") for path in inside),
            splits=tuple(f"{year} {image_set}" for image_set in sets),
        )
        files.append(file)
    return DatasetInfo(
        name=name,
        task=task,
        splits=tuple(split for file in files for split in file.splits),
        sizes=sizes,
        files=tuple(files),
        schema=(IMAGE, target),
        license="the pictures are from Flickr and under its terms",
        citation="@article{everingham2010pascal, author={Everingham, Mark and others}, title={The Pascal Visual Object "
        "Classes (VOC) Challenge}, journal={IJCV}, year={2010}}",
        homepage="http://host.robots.ox.ac.uk/pascal/VOC/",
        description=f"Photographs of twenty classes, for {task.removeprefix('semantic-').replace('-', ' ')}.",
    )


class _VOC(VisionDataset):
    """What the two tasks share: years, image sets, and files by the names in a list."""

    _info: ClassVar[DatasetInfo]
    _lists: ClassVar[str]
    _targets: ClassVar[str]
    _suffix: ClassVar[str]

    def __init__(
        self,
        root: str | Path,
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.year = verify_str_arg(year, "year", [key for key in _ARCHIVES if "-" not in key])
        sets = (*_SETS, "test") if year == "2007" else _SETS
        self.image_set = verify_str_arg(image_set, "image_set", sets)
        base = prepare_dataset(self._info, root, download=download, splits=(f"{year} {image_set}",))
        folder = base / _ARCHIVES[year][2]
        names = (folder / "ImageSets" / self._lists / f"{image_set}.txt").read_text(encoding="utf-8").split()
        self.images = [str(folder / "JPEGImages" / f"{name}.jpg") for name in names]
        self.targets = [str(folder / self._targets / f"{name}{self._suffix}") for name in names]

    def __len__(self) -> int:
        return len(self.images)

    def extra_repr(self) -> str:
        """Year and image set."""
        return f"Year: {self.year}\nImage set: {self.image_set}"


_SEGMENTATION = _facts(
    "vocsegmentation",
    "semantic-segmentation",
    "Segmentation",
    "SegmentationClass",
    {"2012 train": 1464, "2012 val": 1449, "2012 trainval": 2913, "2007 train": 209, "2007 val": 213,
     "2007 trainval": 422, "2007 test": 210},
    Field("mask", "mask", shape=(1, "H", "W"), dtype="uint8"),
)  # fmt: skip
_DETECTION = _facts(
    "vocdetection",
    "object-detection",
    "Main",
    "Annotations",
    {"2012 train": 5717, "2012 val": 5823, "2012 trainval": 11540, "2007 train": 2501, "2007 val": 2510,
     "2007 trainval": 5011, "2007 test": 4952},
    Field("annotation", "mapping"),
)  # fmt: skip


@register_dataset(info=_SEGMENTATION)
class VOCSegmentation(_VOC):
    """Photographs with the class of every pixel.

    Args:
        root: folder that holds, or shall hold, `VOCdevkit` (2011: `TrainVal`).
        year: "2007" to "2012".
        image_set: "train", "trainval" or "val"; for 2007 also "test".
        download: fetch the year's archive (0.4 to 2 GB) where its files are not in place.
        transform: called with the picture.
        target_transform: called with the mask.
        transforms: called with both; excludes the other two.

    Attributes:
        images, masks: paths of every item.

    Items are (PIL image in RGB, PIL image with palette: 0 background, 1 to 20, 255 border).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        ValueError: there is no such year or image set.
    """

    _info = _SEGMENTATION
    _lists = "Segmentation"
    _targets = "SegmentationClass"
    _suffix = ".png"

    @property
    def masks(self) -> list[str]:
        """Path of every item's mask."""
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, mask) number `index`, transformed."""
        with Image.open(self.masks[index]) as mask:
            mask.load()
            return self._transformed(
                opened(self.images[index], default_loader, transformed=self._transforms_pictures), mask
            )


@register_dataset(info=_DETECTION)
class VOCDetection(_VOC):
    """Photographs with boxes around things of twenty classes.

    Args:
        root: folder that holds, or shall hold, `VOCdevkit` (2011: `TrainVal`).
        year: "2007" to "2012".
        image_set: "train", "trainval" or "val"; for 2007 also "test".
        download: fetch the year's archive (0.4 to 2 GB) where its files are not in place.
        transform: called with the picture.
        target_transform: called with the annotation.
        transforms: called with both; excludes the other two.

    Attributes:
        images, annotations: paths of every item.

    Items are (PIL image in RGB, dict of the annotation's XML): `target["annotation"]["object"]` is always a list of
    dicts with `name`, `bndbox` and others; a value is text.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        ValueError: there is no such year or image set.
        XmlError: an annotation is no whole XML file, or declares entities; raised by the item.
    """

    _info = _DETECTION
    _lists = "Main"
    _targets = "Annotations"
    _suffix = ".xml"

    @property
    def annotations(self) -> list[str]:
        """Path of every item's annotation."""
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, annotation) number `index`, transformed."""
        annotation = self.parse_voc_xml(read_xml(self.annotations[index]))
        return self._transformed(
            opened(self.images[index], default_loader, transformed=self._transforms_pictures), annotation
        )

    @staticmethod
    def parse_voc_xml(node: Element) -> dict[str, Any]:
        """An element as {tag: value}: stripped text, or a dict of its children, with a list where a tag repeats."""
        children: dict[str, list[Any]] = {}
        for child in node:
            for tag, value in VOCDetection.parse_voc_xml(child).items():
                children.setdefault(tag, []).append(value)
        if node.tag == "annotation":
            children.setdefault("object", [])
        if children:
            always = "object" if node.tag == "annotation" else None
            return {node.tag: {t: v if len(v) != 1 or t == always else v[0] for t, v in children.items()}}
        return {node.tag: node.text.strip()} if node.text else {}
