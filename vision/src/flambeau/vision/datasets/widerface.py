"""WIDER FACE: faces in crowds.

References:
    Yang, Luo, Loy and Tang 2016, WIDER FACE: A Face Detection Benchmark. arXiv:1511.06523
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._google_drive import drive_url
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["WIDERFace"]

_FOLDER = "widerface"
_ARCHIVES = {
    "train": ("15hGDLhsx8bLgLcIRD5DhYt5iBxnjNF1M", "3fedf70df600953d25982bcd13d91ba2"),
    "val": ("1GUCogbp16PMGa39thoMMeWxp7Rp5oM8Q", "dfa7d7e790efa35df3788964cf0bbaea"),
    "test": ("1HIfDbVEWKmsYKJZm4lchTBDLW5N7dY5T", "e5d8f4248ed24c334bbd12f49c29dd40"),
}
_INFO = DatasetInfo(
    name="widerface",
    task="object-detection",
    sizes={"train": 12_880, "val": 3_226, "test": 16_097},
    files=(
        *(
            DatasetFile(
                url=drive_url(file_id),
                path=f"{_FOLDER}/WIDER_{split}.zip",
                md5=md5,
                extract=True,
                contents=(Content(f"{_FOLDER}/WIDER_{split}/images"),),
                splits=(split,),
            )
            for split, (file_id, md5) in _ARCHIVES.items()
        ),
        DatasetFile(
            url="http://shuoyang1213.me/WIDERFACE/support/bbx_annotation/wider_face_split.zip",
            path=f"{_FOLDER}/wider_face_split.zip",
            md5="0e3767bcf0e326556d407bf5bff5d27c",
            extract=True,
            contents=(Content(f"{_FOLDER}/wider_face_split"),),
        ),
    ),
    schema=(IMAGE, Field("faces", "mapping", optional=True)),
    license="CC-BY-NC-ND-4.0",
    citation="@inproceedings{yang2016wider, author={Yang, Shuo and Luo, Ping and Loy, Chen Change and Tang, Xiaoou}, "
    "title={WIDER FACE: A Face Detection Benchmark}, booktitle={CVPR}, year={2016}}",
    homepage="http://shuoyang1213.me/WIDERFACE/",
    description="Photographs with boxes around 393,703 faces.",
)
# The columns of a line, after the box; the names are upstream's keys.
_COLUMNS = ("blur", "expression", "illumination", "occlusion", "pose", "invalid")
_ORDER = (4, 5, 6, 8, 9, 7)


@register_dataset(info=_INFO)
class WIDERFace(VisionDataset):
    """32,203 photographs with boxes around 393,703 faces of all sizes and poses.

    Args:
        root: folder that holds, or shall hold, `widerface`.
        split: "train", "val" or "test".
        transform: called with the picture.
        target_transform: called with the faces.
        download: fetch the archives where the files are not in place (from Google Drive, which may refuse over its
            quota; they can be placed by hand).

    Items are (PIL image in RGB, dict of int64 tensors): `bbox` [n, 4] (x, y, width, height), and [n] each of `blur` (0
    to 2), `expression`, `illumination`, `occlusion` (0 to 2), `pose` and `invalid`; n may be 0. The dict is None for
    "test".

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    BASE_FOLDER = _FOLDER

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", _ARCHIVES)
        self._folder = prepare_dataset(_INFO, root, download=download, splits=(split,)) / _FOLDER
        self.img_info: list[dict[str, Any]] = []
        if split == "test":
            self.parse_test_annotations_file()
        else:
            self.parse_train_val_annotations_file()

    def parse_train_val_annotations_file(self) -> None:
        """Fill `img_info` from the list with boxes: a name, the number of boxes, a line for each."""
        path = self._folder / "wider_face_split" / f"wider_face_{self.split}_bbx_gt.txt"
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        self.img_info = []
        at = 0
        while at < len(lines):
            name, count = lines[at].strip(), int(lines[at + 1])
            rows = [[int(value) for value in line.split()] for line in lines[at + 2 : at + 2 + count]]
            self.img_info.append({"img_path": str(self._picture(name)), "annotations": _faces(rows)})
            at += 2 + max(count, 1)  # a picture without faces has a line of zeros

    def parse_test_annotations_file(self) -> None:
        """Fill `img_info` from the list of names."""
        names = (self._folder / "wider_face_split" / "wider_face_test_filelist.txt").read_text(encoding="utf-8").split()
        self.img_info = [{"img_path": str(self._picture(name))} for name in names]

    def _picture(self, name: str) -> Path:
        return self._folder / f"WIDER_{self.split}" / "images" / name

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, faces) number `index`, transformed."""
        entry = self.img_info[index]
        return self._transformed(
            opened(entry["img_path"], default_loader, transformed=self._transforms_pictures), entry.get("annotations")
        )

    def __len__(self) -> int:
        return len(self.img_info)

    def download(self) -> None:
        """Fetch and unpack what is not in place of this split."""
        prepare_dataset(_INFO, self.root, download=True, splits=(self.split,))

    def extra_repr(self) -> str:
        """The split."""
        return f"Split: {self.split}"


def _faces(rows: list[list[int]]) -> dict[str, Tensor]:
    table = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), -1 if rows else 10)
    return {
        "bbox": table[:, :4].clone(),
        **{name: table[:, at].clone() for name, at in zip(_COLUMNS, _ORDER, strict=True)},
    }
