"""Semantic Boundaries Dataset.

References:
    Hariharan et al. 2011, Semantic Contours from Inverse Detectors. ICCV. doi:10.1109/ICCV.2011.6126343
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["SBDataset"]

_FOLDER = "benchmark_RELEASE/dataset"
_INFO = DatasetInfo(
    name="sbdataset",
    task="semantic-segmentation",
    sizes={"train": 8_498, "val": 2_857, "train_noval": 5_623},
    files=(
        DatasetFile(
            url="https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz",
            md5="82b4d87ceb2ed10f6038a1cba92111cb",
            extract=True,
            contents=tuple(Content(f"{_FOLDER}/{name}") for name in ("img", "cls", "train.txt", "val.txt")),
        ),
        DatasetFile(
            url="https://www.cs.cornell.edu/~bharathh/train_noval.txt",
            md5="79bff800c5f0b1ec6b21080a3c066722",
            splits=("train_noval",),
        ),
    ),
    schema=(IMAGE, Field("boundaries", "tensor", shape=(20, "H", "W"), dtype="uint8")),
    license="unknown; the pictures are from Pascal VOC",
    citation="@inproceedings{hariharan2011semantic, author={Hariharan, Bharath and others}, title={Semantic Contours "
    "from Inverse Detectors}, booktitle={ICCV}, year={2011}}",
    homepage="http://home.bharathh.info/pubs/codes/SBD/download.html",
    description="Photographs of Pascal VOC with boundaries of things of twenty classes.",
)


@register_dataset(info=_INFO)
class SBDataset(VisionDataset):
    """11,355 photographs of Pascal VOC 2011 with boundaries, or areas, of things of twenty classes. Needs SciPy.

    Args:
        root: folder that holds, or shall hold, `img`, `cls` and the lists, or `benchmark_RELEASE` with them.
        image_set: "train", "val", or "train_noval" (nothing of Pascal VOC 2012's val).
        mode: "boundaries" or "segmentation".
        download: fetch the archive (1.4 GB) where the files are not in place.
        transforms: called with picture and target.

    Items are (PIL image in RGB, target): for "boundaries" a NumPy array [20, H, W], uint8, 1 on the boundary; for
    "segmentation" a PIL image: 0 background, 1 to 20.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        MissingReaderError: SciPy is not installed; raised by the item.
    """

    def __init__(
        self,
        root: str | Path,
        image_set: str = "train",
        mode: str = "boundaries",
        download: bool = False,
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms)
        self.num_classes = 20
        self.image_set = verify_str_arg(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = verify_str_arg(mode, "mode", ("segmentation", "boundaries"))
        base = Path(root).expanduser()
        listing = base / f"{image_set}.txt"
        if not ((base / "img").is_dir() and (base / "cls").is_dir() and listing.is_file()):
            prepare_dataset(_INFO, root, download=download, splits=(image_set,))
        folder = base if (base / "img").is_dir() else base / _FOLDER
        names = (listing if listing.is_file() else folder / f"{image_set}.txt").read_text(encoding="utf-8").split()
        self.images = [str(folder / "img" / f"{name}.jpg") for name in names]
        self.masks = [str(folder / "cls" / f"{name}.mat") for name in names]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        content = load_mat(self.masks[index], "SBDataset")["GTcls"]
        target: Any
        if self.mode == "segmentation":
            target = Image.fromarray(content["Segmentation"].item())
        else:
            target = np.stack([plane.toarray() for plane in content["Boundaries"].item()])
        return self._transformed(
            opened(self.images[index], default_loader, transformed=self._transforms_pictures), target
        )

    def __len__(self) -> int:
        return len(self.images)

    def extra_repr(self) -> str:
        """Image set and mode."""
        return f"Image set: {self.image_set}\nMode: {self.mode}"
