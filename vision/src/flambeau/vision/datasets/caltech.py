"""Caltech 101 and Caltech 256: objects.

References:
    Li, Andreeto, Ranzato and Perona 2022, Caltech 101. doi:10.22002/D1.20086
    Griffin, Holub and Perona 2007, Caltech-256 Object Category Dataset. doi:10.22002/D1.20087
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.utils import list_dir, list_files, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["Caltech101", "Caltech256"]

_IMAGE = Field("image", "image", shape=("C", "H", "W"), dtype="uint8")  # a few pictures are grey
_INFO_101 = DatasetInfo(
    name="caltech101",
    task="image-classification",
    sizes={"all": 8_677},
    files=(
        DatasetFile(
            url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
            path="caltech101/caltech-101.zip",
            md5="3138e1922a9193bfa496528edbbc45d0",
            extract=True,
            contents=(Content("caltech101/caltech-101"),),
        ),
    ),
    schema=picture_and_label(101, image=_IMAGE),
    license="CC-BY-4.0",
    citation="@misc{li2022caltech, author={Li, Fei-Fei and Andreeto, Marco and Ranzato, Marc'Aurelio and Perona, "
    "Pietro}, title={Caltech 101}, publisher={CaltechDATA}, year={2022}}",
    homepage="https://data.caltech.edu/records/mzrjq-6wc02",
    description="Pictures of 101 kinds of objects, with their outlines.",
)
_INFO_256 = DatasetInfo(
    name="caltech256",
    task="image-classification",
    sizes={"all": 30_607},
    files=(
        DatasetFile(
            url="https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
            path="caltech256/256_ObjectCategories.tar",
            md5="67b4f42ca05d46448c6bb8ecd2220f6d",
            extract=True,
            contents=(Content("caltech256/256_ObjectCategories"),),
        ),
    ),
    schema=picture_and_label(257, image=_IMAGE),
    license="unknown; stated where it is fetched",
    citation="@misc{griffin2022caltech, author={Griffin, Gregory and Holub, Alex and Perona, Pietro}, title={Caltech "
    "256}, publisher={CaltechDATA}, year={2022}}",
    homepage="https://data.caltech.edu/records/nyy15-4j048",
    description="Pictures of 256 kinds of objects, and clutter.",
)
# The outlines lie in folders of other names for these.
_OUTLINES = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}


@register_dataset(info=_INFO_101)
class Caltech101(VisionDataset):
    """8,677 pictures of 101 kinds of objects, about 300x200 pixels, with the outline of the object.

    Args:
        root: folder that holds, or shall hold, `caltech101`.
        target_type: "category" (class index), "annotation" (outline: [2, points], float64, x and y; needs SciPy), or
            a list of them.
        transform: called with the picture.
        target_transform: called with the target.
        download: fetch the archive (137 MB) where the files are not in place.

    Attributes:
        categories: class names, sorted, without the clutter of BACKGROUND_Google.

    Items are (PIL image of its own mode, target); several target types make a tuple.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        target_type: list[str] | str = "category",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        wanted = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [verify_str_arg(kind, "target_type", ("category", "annotation")) for kind in wanted]
        self._folder = _unpacked_101(root, download, self.target_type)
        pictures = self._folder / "101_ObjectCategories"
        self.categories = [name for name in list_dir(pictures) if name != "BACKGROUND_Google"]
        self.annotation_categories = [_OUTLINES.get(name, name) for name in self.categories]
        self._samples = [
            (pictures / name / file, label)
            for label, name in enumerate(self.categories)
            for file in list_files(pictures / name, ".jpg")
        ]
        self.y = [label for _, label in self._samples]
        self.index = [int(path.stem.rpartition("_")[2]) for path, _ in self._samples]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        path, label = self._samples[index]
        targets = tuple(label if kind == "category" else self._outline(path, label) for kind in self.target_type)
        return self._transformed(_as_stored(path), targets[0] if len(targets) == 1 else targets)

    def _outline(self, path: Path, label: int) -> NDArray[np.float64]:
        number = path.stem.rpartition("_")[2]  # image_0001 -> annotation_0001
        folder = self._folder / "Annotations" / self.annotation_categories[label]
        outline: NDArray[np.float64] = load_mat(folder / f"annotation_{number}.mat", "Caltech101")["obj_contour"]
        return outline

    def __len__(self) -> int:
        return len(self._samples)

    def download(self) -> None:
        """Fetch and unpack the archive where its files are not in place."""
        _unpacked_101(str(self.root), True, self.target_type)

    def extra_repr(self) -> str:
        """What a target is."""
        return f"Target type: {self.target_type}"


def _unpacked_101(root: str | Path, download: bool, target_type: list[str]) -> Path:
    """The folder with the pictures; the published archive holds an archive of each of its two parts."""
    from flambeau.core.hub import extract_archive

    folder = Path(root).expanduser() / "caltech101"
    needed = ["101_ObjectCategories", *(["Annotations"] if "annotation" in target_type else [])]
    unpacked = all((folder / name).is_dir() for name in needed)
    if not unpacked or (folder / "caltech-101.zip").exists():
        prepare_dataset(_INFO_101, root, download=download)
    if not unpacked:
        for archive in sorted((folder / "caltech-101").glob("*.tar*")):
            extract_archive(archive, folder)
    return folder


@register_dataset(info=_INFO_256)
class Caltech256(PictureDataset):
    """30,607 pictures of 256 kinds of objects, and of clutter (the last class).

    Args:
        root: folder that holds, or shall hold, `caltech256`.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (1.2 GB) where the files are not in place.

    Attributes:
        categories: class names such as "001.ak47", sorted.
        y: class index of every item.
        index: number of every item within its class, from 1.

    Items are (PIL image of its own mode, class index).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        folder = prepare_dataset(_INFO_256, root, download=download) / "caltech256" / "256_ObjectCategories"
        self.categories = list_dir(folder)
        samples = [
            (path, label)
            for label, name in enumerate(self.categories)
            for path in list_files(folder / name, ".jpg", prefix=True)
        ]
        super().__init__(root, samples, transform, target_transform, _as_stored)
        self.y = [label for _, label in samples]
        self.index = [number for label in range(len(self.categories)) for number in range(1, self.y.count(label) + 1)]

    def download(self) -> None:
        """Fetch and unpack the archive where its files are not in place."""
        prepare_dataset(_INFO_256, self.root, download=True)


def _as_stored(path: str | Path) -> Image.Image:
    with Image.open(path) as image:
        image.load()
        return image
