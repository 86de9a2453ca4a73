"""Cityscapes: streets of fifty cities.

References:
    Cordts et al. 2016, The Cityscapes Dataset for Semantic Urban Scene Understanding. arXiv:1604.01685
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from PIL import Image

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import list_dir, list_files, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["Cityscapes"]

_INFO = DatasetInfo(
    name="cityscapes",
    task="semantic-segmentation",
    splits=("train", "val", "test", "train_extra"),
    sizes={"train": 2_975, "val": 500, "test": 1_525, "train_extra": 19_998},
    schema=(IMAGE, Field("target", "any")),
    license="non-commercial use, after registration",
    citation="@inproceedings{cordts2016cityscapes, author={Cordts, Marius and others}, title={The Cityscapes Dataset "
    "for Semantic Urban Scene Understanding}, booktitle={CVPR}, year={2016}}",
    homepage="https://www.cityscapes-dataset.com/",
    gated=Gate(
        "form",
        "https://www.cityscapes-dataset.com/downloads/",
        "Register there; archives that are placed in the root are unpacked.",
    ),
    description="Photographs of streets with the class and instance of every pixel.",
)
_SUFFIXES = {
    "instance": "instanceIds.png",
    "semantic": "labelIds.png",
    "color": "color.png",
    "polygon": "polygons.json",
}


class CityscapesClass(NamedTuple):
    """A class: its name, number, number for training (255 and -1: left out), group, and colour."""

    name: str
    id: int
    train_id: int
    category: str
    category_id: int
    has_instances: bool
    ignore_in_eval: bool
    color: tuple[int, int, int]


_Row = CityscapesClass  # as an attribute of the dataset the name is no type
_CLASSES = (
    ("unlabeled", 0, 255, "void", 0, False, True, (0, 0, 0)),
    ("ego vehicle", 1, 255, "void", 0, False, True, (0, 0, 0)),
    ("rectification border", 2, 255, "void", 0, False, True, (0, 0, 0)),
    ("out of roi", 3, 255, "void", 0, False, True, (0, 0, 0)),
    ("static", 4, 255, "void", 0, False, True, (0, 0, 0)),
    ("dynamic", 5, 255, "void", 0, False, True, (111, 74, 0)),
    ("ground", 6, 255, "void", 0, False, True, (81, 0, 81)),
    ("road", 7, 0, "flat", 1, False, False, (128, 64, 128)),
    ("sidewalk", 8, 1, "flat", 1, False, False, (244, 35, 232)),
    ("parking", 9, 255, "flat", 1, False, True, (250, 170, 160)),
    ("rail track", 10, 255, "flat", 1, False, True, (230, 150, 140)),
    ("building", 11, 2, "construction", 2, False, False, (70, 70, 70)),
    ("wall", 12, 3, "construction", 2, False, False, (102, 102, 156)),
    ("fence", 13, 4, "construction", 2, False, False, (190, 153, 153)),
    ("guard rail", 14, 255, "construction", 2, False, True, (180, 165, 180)),
    ("bridge", 15, 255, "construction", 2, False, True, (150, 100, 100)),
    ("tunnel", 16, 255, "construction", 2, False, True, (150, 120, 90)),
    ("pole", 17, 5, "object", 3, False, False, (153, 153, 153)),
    ("polegroup", 18, 255, "object", 3, False, True, (153, 153, 153)),
    ("traffic light", 19, 6, "object", 3, False, False, (250, 170, 30)),
    ("traffic sign", 20, 7, "object", 3, False, False, (220, 220, 0)),
    ("vegetation", 21, 8, "nature", 4, False, False, (107, 142, 35)),
    ("terrain", 22, 9, "nature", 4, False, False, (152, 251, 152)),
    ("sky", 23, 10, "sky", 5, False, False, (70, 130, 180)),
    ("person", 24, 11, "human", 6, True, False, (220, 20, 60)),
    ("rider", 25, 12, "human", 6, True, False, (255, 0, 0)),
    ("car", 26, 13, "vehicle", 7, True, False, (0, 0, 142)),
    ("truck", 27, 14, "vehicle", 7, True, False, (0, 0, 70)),
    ("bus", 28, 15, "vehicle", 7, True, False, (0, 60, 100)),
    ("caravan", 29, 255, "vehicle", 7, True, True, (0, 0, 90)),
    ("trailer", 30, 255, "vehicle", 7, True, True, (0, 0, 110)),
    ("train", 31, 16, "vehicle", 7, True, False, (0, 80, 100)),
    ("motorcycle", 32, 17, "vehicle", 7, True, False, (0, 0, 230)),
    ("bicycle", 33, 18, "vehicle", 7, True, False, (119, 11, 32)),
    ("license plate", -1, -1, "vehicle", 7, False, True, (0, 0, 142)),
)


@register_dataset(info=_INFO)
class Cityscapes(VisionDataset):
    """5,000 photographs of streets, 2048x1024 pixels, finely annotated, and 20,000 coarsely.

    Args:
        root: folder that holds `leftImg8bit` and `gtFine` or `gtCoarse`, or the archives with them.
        split: "train", "val", or "test" (fine) or "train_extra" (coarse).
        mode: "fine" or "coarse".
        target_type: "instance", "semantic" or "color" (PIL images), "polygon" (dict), or a list of them.
        transform: called with the picture.
        target_transform: called with the target.
        transforms: called with both; excludes the other two.

    Attributes:
        classes: all 35 classes, each a tuple with `name`, `id`, `train_id`, `category`, `category_id`,
            `has_instances`, `ignore_in_eval` and `color`.
        images: path of every item, sorted by city and name.
        targets: paths of every item's targets.

    Items are (PIL image in RGB, target); several target types make a tuple.

    Raises:
        DatasetMissingError: neither the folders nor the archives are there.
        ValueError: the mode has no such split.
    """

    CityscapesClass = CityscapesClass
    classes: ClassVar[list[_Row]] = [_Row(*row) for row in _CLASSES]

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        mode: str = "fine",
        target_type: list[str] | str = "instance",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        fine = verify_str_arg(mode, "mode", ("fine", "coarse")) == "fine"
        self.mode = "gtFine" if fine else "gtCoarse"
        self.split = verify_str_arg(split, "split", ("train", "test" if fine else "train_extra", "val"))
        wanted = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [verify_str_arg(kind, "target_type", _SUFFIXES) for kind in wanted]
        base = _unpacked(Path(root).expanduser(), self.mode, self.split)
        self.images_dir = str(base / "leftImg8bit" / self.split)
        self.targets_dir = str(base / self.mode / self.split)
        self.images: list[str] = []
        self.targets: list[list[str]] = []
        for city in list_dir(self.images_dir):
            for path in list_files(Path(self.images_dir) / city, ".png", prefix=True):
                name = Path(path).name.removesuffix("_leftImg8bit.png")
                names = [f"{name}_{self.mode}_{_SUFFIXES[kind]}" for kind in self.target_type]
                self.images.append(path)
                self.targets.append([str(Path(self.targets_dir) / city / target) for target in names])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        targets = tuple(_target(path) for path in self.targets[index])
        return self._transformed(
            opened(self.images[index], default_loader, transformed=self._transforms_pictures),
            targets[0] if len(targets) == 1 else targets,
        )

    def __len__(self) -> int:
        return len(self.images)

    def extra_repr(self) -> str:
        """Split, mode and target types."""
        return f"Split: {self.split}\nMode: {self.mode}\nType: {self.target_type}"


def _target(path: str) -> Any:
    if path.endswith(".json"):
        return json.loads(Path(path).read_text(encoding="utf-8"))
    with Image.open(path) as picture:
        picture.load()
        return picture


def _unpacked(root: Path, mode: str, split: str) -> Path:
    """The root, after the archives that are there have been unpacked where a folder is missing."""
    from flambeau.core.hub import extract_archive

    part = "trainextra" if split == "train_extra" else "trainvaltest"
    targets = "gtCoarse.zip" if mode == "gtCoarse" else "gtFine_trainvaltest.zip"
    for folder, archive in (("leftImg8bit", f"leftImg8bit_{part}.zip"), (mode, targets)):
        if not (root / folder / split).is_dir() and (root / archive).is_file():
            extract_archive(root / archive, root)
    return require_placed(_INFO, root, f"leftImg8bit/{split}", f"{mode}/{split}")
