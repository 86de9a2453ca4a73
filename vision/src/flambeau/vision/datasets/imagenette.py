"""Imagenette: ten easy classes of ImageNet.

References:
    Howard 2019, Imagenette. https://github.com/fastai/imagenette
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets.folder import default_loader, find_classes, make_dataset
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["Imagenette"]

_ARCHIVES = {
    "full": ("imagenette2", "fe2fc210e6bb7c5664d602c3cd71e612"),
    "320px": ("imagenette2-320", "3df6f0d01a2c9592104656642f5e78a3"),
    "160px": ("imagenette2-160", "e793b78cc4c9e9a4ccc0c1155377a412"),
}
_CLASSES = {
    "n01440764": ("tench", "Tinca tinca"),
    "n02102040": ("English springer", "English springer spaniel"),
    "n02979186": ("cassette player",),
    "n03000684": ("chain saw", "chainsaw"),
    "n03028079": ("church", "church building"),
    "n03394916": ("French horn", "horn"),
    "n03417042": ("garbage truck", "dustcart"),
    "n03425413": ("gas pump", "gasoline pump", "petrol pump", "island dispenser"),
    "n03445777": ("golf ball",),
    "n03888257": ("parachute", "chute"),
}
# Sizes of pictures count as splits, since each has an archive of its own.
_INFO = DatasetInfo(
    name="imagenette",
    task="image-classification",
    splits=("train", "val", "320px", "160px"),
    sizes={"train": 9_469, "val": 3_925},
    files=tuple(
        DatasetFile(
            url=f"https://s3.amazonaws.com/fast-ai-imageclas/{folder}.tgz",
            md5=md5,
            extract=True,
            contents=(Content(folder),),
            splits=("train", "val") if size == "full" else (size,),
        )
        for size, (folder, md5) in _ARCHIVES.items()
    ),
    schema=picture_and_label(10),
    license="Apache-2.0; the pictures are from ImageNet",
    citation="@misc{howard2019imagenette, author={Howard, Jeremy}, title={Imagenette}, "
    "url={https://github.com/fastai/imagenette}, year={2019}}",
    homepage="https://github.com/fastai/imagenette",
    description="Photographs of ten classes of ImageNet that are easy to tell apart.",
)


@register_dataset(info=_INFO)
class Imagenette(PictureDataset):
    """13,394 photographs of ten classes of ImageNet.

    Args:
        root: folder that holds, or shall hold, `imagenette2` or its smaller forms.
        split: "train" or "val".
        size: "full", "320px" or "160px", the shorter side.
        download: fetch the size's archive where its files are not in place.
        transform: called with the picture.
        target_transform: called with the class index.
        loader: opens a picture by path.

    Attributes:
        wnids: WordNet's ids of the classes.
        wnid_to_idx: WordNet's id -> index.
        classes: names of each class, a tuple.
        class_to_idx: every name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        size: str = "full",
        download: bool = False,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val"))
        self._size = verify_str_arg(size, "size", _ARCHIVES)
        base = prepare_dataset(_INFO, root, download=download, splits=(split if size == "full" else size,))
        folder = base / _ARCHIVES[size][0] / split
        self.wnids, self.wnid_to_idx = find_classes(folder)
        self.classes = [_CLASSES[wnid] for wnid in self.wnids]
        self.class_to_idx = {name: index for index, names in enumerate(self.classes) for name in names}
        samples = make_dataset(folder, self.wnid_to_idx, extensions=".jpeg")
        super().__init__(root, samples, transform, target_transform, loader)
