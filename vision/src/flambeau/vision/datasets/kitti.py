"""KITTI: objects in traffic.

References:
    Geiger, Lenz and Urtasun 2012, Are we ready for Autonomous Driving? The KITTI Vision Benchmark Suite. CVPR.
    doi:10.1109/CVPR.2012.6248074
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._split_names import by_split_name
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import list_files
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["Kitti"]

_URL = "https://s3.eu-central-1.amazonaws.com/avg-kitti/"
_FOLDER = "Kitti/raw"
_INFO = DatasetInfo(
    name="kitti",
    task="object-detection",
    sizes={"train": 7_481, "test": 7_518},
    files=(
        DatasetFile(
            url=_URL + "data_object_image_2.zip",
            path=f"{_FOLDER}/data_object_image_2.zip",
            extract=True,
            contents=(Content(f"{_FOLDER}/training/image_2"), Content(f"{_FOLDER}/testing/image_2")),
        ),
        DatasetFile(
            url=_URL + "data_object_label_2.zip",
            path=f"{_FOLDER}/data_object_label_2.zip",
            extract=True,
            contents=(Content(f"{_FOLDER}/training/label_2"),),
            splits=("train",),
        ),
    ),
    schema=(IMAGE, Field("objects", "list", optional=True)),
    license="CC-BY-NC-SA-3.0",
    citation="@inproceedings{geiger2012ready, author={Geiger, Andreas and Lenz, Philip and Urtasun, Raquel}, title="
    "{Are we ready for Autonomous Driving? The KITTI Vision Benchmark Suite}, booktitle={CVPR}, year={2012}}",
    homepage="https://www.cvlibs.net/datasets/kitti/eval_object.php?obj_benchmark=2d",
    description="Photographs from a car with boxes around cars, pedestrians and others.",
)


class Kitti(VisionDataset):
    """14,999 photographs from a moving car with boxes around cars, pedestrians, cyclists and others.

    Args:
        root: folder that holds, or shall hold, `Kitti/raw`.
        train: the 7,481 photographs with labels, otherwise the 7,518 without.
        transform: called with the picture.
        target_transform: called with the list of objects.
        transforms: called with both; excludes the other two.
        download: fetch the archives (12 GB) where the files are not in place. Their owner states no checksums.

    Attributes:
        images, targets: paths of every item, sorted; targets are empty for the test.

    Items are (PIL image in RGB, list of dicts): `type`, `truncated` (0 to 1), `occluded` (0 to 3), `alpha` (radians),
    `bbox` (left, top, right, bottom in pixels), `dimensions` (height, width, length in metres), `location` (x, y, z in
    metres, of the camera) and `rotation_y` (radians). The list is None for the test.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    data_url: ClassVar[str] = _URL
    resources: ClassVar[list[str]] = ["data_object_image_2.zip", "data_object_label_2.zip"]
    image_dir_name: ClassVar[str] = "image_2"
    labels_dir_name: ClassVar[str] = "label_2"

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.train = train
        self._split = "train" if train else "test"
        base = prepare_dataset(_INFO, root, download=download, splits=(self._split,)) / _FOLDER
        folder = base / ("training" if train else "testing")
        names = list_files(folder / self.image_dir_name, ".png")
        self.images = [str(folder / self.image_dir_name / name) for name in names]
        labels = [str(folder / self.labels_dir_name / f"{Path(name).stem}.txt") for name in names]
        self.targets = labels if train else []

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, objects) number `index`, transformed."""
        objects = self._parse_target(index) if self.train else None
        return self._transformed(
            opened(self.images[index], default_loader, transformed=self._transforms_pictures), objects
        )

    def _parse_target(self, index: int) -> list[dict[str, Any]]:
        lines = Path(self.targets[index]).read_text(encoding="ascii").splitlines()
        return [_object(line.split()) for line in lines if line.strip()]

    def __len__(self) -> int:
        return len(self.images)

    def download(self) -> None:
        """Fetch and unpack what is not in place of this part."""
        prepare_dataset(_INFO, self.root, download=True, splits=(self._split,))


def _object(fields: list[str]) -> dict[str, Any]:
    numbers = [float(value) for value in fields[1:]]
    return {
        "type": fields[0],
        "truncated": numbers[0],
        "occluded": int(numbers[1]),
        "alpha": numbers[2],
        "bbox": numbers[3:7],
        "dimensions": numbers[7:10],
        "location": numbers[10:13],
        "rotation_y": numbers[13],
    }


_kitti = register_dataset(info=_INFO)(by_split_name(Kitti, "_kitti"))
