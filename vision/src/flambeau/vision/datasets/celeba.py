"""CelebA: faces with attributes.

References:
    Liu, Luo, Wang and Tang 2015, Deep Learning Face Attributes in the Wild. arXiv:1411.7766
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._google_drive import drive_url
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["CelebA"]

_FOLDER = "celeba"
_PICTURES = f"{_FOLDER}/img_align_celeba"
_TABLES = {
    "list_attr_celeba.txt": ("0B7EVK8r0v71pblRyaVFSWGxPY0U", "75e246fa4810816ffd6ee81facbd244c"),
    "identity_CelebA.txt": ("1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS", "32bd1bd63d3c78cd57e08160ec5ed1e2"),
    "list_bbox_celeba.txt": ("0B7EVK8r0v71pbThiMVRxWXZ4dU0", "00566efa6fedff7a56946cd1c10f1c16"),
    "list_landmarks_align_celeba.txt": ("0B7EVK8r0v71pd0FJY3Blby1HUTQ", "cc24ecafdb5b50baae59b03474781f8c"),
    "list_eval_partition.txt": ("0B7EVK8r0v71pY0NSMzRuSXJEVkk", "d32c9cbf5e040fd4025c592c306e6668"),
}
_INFO = DatasetInfo(
    name="celeba",
    task="image-classification",
    sizes={"train": 162_770, "valid": 19_867, "test": 19_962, "all": 202_599},
    files=(
        DatasetFile(
            url=drive_url("0B7EVK8r0v71pZjFTYXZWM3FlRnM"),
            path=f"{_PICTURES}.zip",
            md5="00d2c5bc6d35e252742224ab0c1e8fcb",
            extract=True,
            contents=(Content(_PICTURES),),
        ),
        *(
            DatasetFile(url=drive_url(file_id), path=f"{_FOLDER}/{name}", md5=md5)
            for name, (file_id, md5) in _TABLES.items()
        ),
    ),
    schema=(
        Field("image", "image", shape=(3, "H", "W"), dtype="uint8"),
        Field("attributes", "tensor", shape=(40,), dtype="int64"),
    ),
    license="non-commercial research use",
    citation="@inproceedings{liu2015deep, author={Liu, Ziwei and Luo, Ping and Wang, Xiaogang and Tang, Xiaoou}, "
    "title={Deep Learning Face Attributes in the Wild}, booktitle={ICCV}, year={2015}}",
    homepage="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    description="Faces of celebrities with forty attributes, identities, boxes and landmarks.",
)
# What a target is -> the table, and how many lines come before its rows.
_TARGETS = {
    "attr": ("list_attr_celeba.txt", 2),
    "identity": ("identity_CelebA.txt", 0),
    "bbox": ("list_bbox_celeba.txt", 2),
    "landmarks": ("list_landmarks_align_celeba.txt", 2),
}
_SPLITS = {"train": 0, "valid": 1, "test": 2, "all": None}


@register_dataset(info=_INFO)
class CelebA(VisionDataset):
    """202,599 faces of 10,177 celebrities, aligned and cut to 178x218 pixels.

    Args:
        root: folder that holds, or shall hold, `celeba`.
        split: "train", "valid", "test" or "all".
        target_type: one or several of "attr" ([40] of 0 and 1), "identity" (a number), "bbox" ([4]: x, y, width,
            height in the picture before it was cut) and "landmarks" ([10]: x and y of eyes, nose and corners of the
            mouth), all int64.
        transform: called with the picture.
        target_transform: called with the target.
        download: fetch the files (1.4 GB) where they are not in place. Google Drive often refuses over its quota: a
            mirror can be named in FLAMBEAU_MIRRORS, or the files be placed by hand.

    Attributes:
        filename, attr, identity, bbox, landmarks_align: of every item; the tensors are int64, one row per item.
        attr_names: names of the attributes.

    Items are (PIL image in RGB, target); several target types make a tuple, none makes None.

    Raises:
        DatasetMissingError: files are missing or damaged, and `download` is False.
    """

    base_folder = _FOLDER

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        target_type: list[str] | str = "attr",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", _SPLITS)
        wanted = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [verify_str_arg(kind, "target_type", _TARGETS) for kind in wanted]
        self._folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        names, partition = _rows(self._folder / "list_eval_partition.txt", 0)
        part = _SPLITS[split]
        chosen = torch.ones(len(names), dtype=torch.bool) if part is None else partition.squeeze(1) == part
        self.filename = [names[index] for index in chosen.nonzero().squeeze(1).tolist()]
        tables = {kind: _rows(self._folder / name, skip)[1][chosen] for kind, (name, skip) in _TARGETS.items()}
        self.attr = torch.div(tables["attr"] + 1, 2, rounding_mode="floor")  # -1 and 1 in the file
        self.identity, self.bbox, self.landmarks_align = tables["identity"], tables["bbox"], tables["landmarks"]
        with (self._folder / "list_attr_celeba.txt").open(encoding="utf-8") as file:
            file.readline()  # the number of rows
            self.attr_names = file.readline().split()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(face, target) number `index`, transformed."""
        path = self._folder / "img_align_celeba" / self.filename[index]
        image = opened(path, default_loader, transformed=self._transforms_pictures)
        targets = tuple(self._target(kind, index) for kind in self.target_type)
        return self._transformed(image, targets if len(targets) > 1 else targets[0] if targets else None)

    def _target(self, kind: str, index: int) -> Tensor:
        if kind == "identity":
            return self.identity[index, 0]
        return {"attr": self.attr, "bbox": self.bbox, "landmarks": self.landmarks_align}[kind][index]

    def __len__(self) -> int:
        return len(self.filename)

    def download(self) -> None:
        """Fetch and unpack what is not in place."""
        prepare_dataset(_INFO, self.root, download=True)

    def extra_repr(self) -> str:
        """What a target is, and the split."""
        return f"Target type: {self.target_type}\nSplit: {self.split}"


def _rows(path: Path, skip: int) -> tuple[list[str], Tensor]:
    """The first column of a table, and the others as [rows, columns], int64."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()[skip:] if line.strip()]
    return [row[0] for row in rows], torch.from_numpy(np.array([row[1:] for row in rows], dtype=np.int64))
