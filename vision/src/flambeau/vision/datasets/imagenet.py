"""ImageNet: the classification task of ILSVRC 2012.

References:
    Russakovsky et al. 2015, ImageNet Large Scale Visual Recognition Challenge. arXiv:1409.0575
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flambeau.core.datasets import DatasetFile, DatasetInfo, Gate, prepare_dataset, register_dataset
from flambeau.core.files import replace
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.folder import ImageFolder
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["ImageNet"]

_ARCHIVES = {
    "train": ("ILSVRC2012_img_train.tar", "1d675b47d978889d74fa0da5fadfb00e"),
    "val": ("ILSVRC2012_img_val.tar", "29b22e2961454d5413ddabcf34fc5622"),
    "devkit": ("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
}
_INFO = DatasetInfo(
    name="imagenet",
    task="image-classification",
    splits=tuple(_ARCHIVES),
    sizes={"train": 1_281_167, "val": 50_000},
    files=tuple(DatasetFile(path=name, md5=md5, splits=(split,)) for split, (name, md5) in _ARCHIVES.items()),
    schema=picture_and_label(1000),
    license="non-commercial research and education",
    citation="@article{russakovsky2015imagenet, author={Russakovsky, Olga and others}, title={ImageNet Large Scale "
    "Visual Recognition Challenge}, journal={IJCV}, year={2015}}",
    homepage="https://image-net.org/challenges/LSVRC/2012/",
    gated=Gate("manual", "https://image-net.org/download-images", "Register there for the archives of ILSVRC 2012."),
    description="Photographs of a thousand classes.",
)
_META = "meta.bin"


@register_dataset(info=_INFO)
class ImageNet(ImageFolder):
    """1,331,167 photographs of a thousand classes. Unpacking needs SciPy.

    The archives of ILSVRC 2012, placed in the root, are unpacked on first use into one folder per class.

    Args:
        root: folder that holds the archives, or `train`, `val` and `meta.bin` made from them.
        split: "train" or "val".
        **kwargs: `transform`, `target_transform`, `loader` and the like, as for `ImageFolder`.

    Attributes:
        wnids: WordNet's ids of the classes.
        wnid_to_idx: WordNet's id -> index.
        classes: names of each class, a tuple.
        class_to_idx: every name -> index.
        Others as `ImageFolder`.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: neither the folders nor intact archives are there.
        MissingReaderError: the development kit has to be read and SciPy is not installed.
    """

    def __init__(self, root: str | Path, split: str = "train", **kwargs: Any) -> None:
        self._root = Path(root).expanduser()
        self.split = verify_str_arg(split, "split", ("train", "val"))
        self.parse_archives()
        wnid_to_classes, _ = _load_meta(self._root)
        super().__init__(self.split_folder, **kwargs)
        self.root = str(self._root)
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx
        names = [tuple(wnid_to_classes[wnid]) for wnid in self.wnids]
        self.classes = names  # type: ignore[assignment]  # upstream: tuples of synonyms stand where names do
        self.class_to_idx = {name: index for index, synonyms in enumerate(names) for name in synonyms}

    @property
    def split_folder(self) -> str:
        """Folder of the split's classes."""
        return str(self._root / self.split)

    def parse_archives(self) -> None:
        """Unpack what is not unpacked: the development kit into `meta.bin`, the split into folders of classes.

        Raises:
            DatasetMissingError: an archive that is needed is missing or damaged.
        """
        if not (self._root / _META).exists():
            prepare_dataset(_INFO, self._root, download=False, splits=("devkit",))
            _unpack_devkit(self._root)
        if not Path(self.split_folder).is_dir():
            prepare_dataset(_INFO, self._root, download=False, splits=(self.split,))
            unpack = {"train": _unpack_train, "val": _unpack_val}[self.split]
            # Made beside its place and renamed, so that what is there is whole.
            with tempfile.TemporaryDirectory(prefix=".flambeau-unpacking-", dir=self._root) as scratch:
                unpack(self._root, Path(scratch) / self.split)
                replace(Path(scratch) / self.split, Path(self.split_folder))

    def extra_repr(self) -> str:
        """The split."""
        return f"Split: {self.split}"


def _load_meta(root: Path) -> tuple[dict[str, Sequence[str]], list[str]]:
    """WordNet's id -> names, and the id of every picture for validation, in the order of their names."""
    wnid_to_classes, val_wnids = torch.load(root / _META, weights_only=True)
    return wnid_to_classes, val_wnids


def _unpack_devkit(root: Path) -> None:
    from flambeau.core.hub import extract_archive

    name = _ARCHIVES["devkit"][0]
    with tempfile.TemporaryDirectory(prefix=".flambeau-unpacking-", dir=root) as scratch:
        extract_archive(root / name, Path(scratch))
        folder = Path(scratch) / name.removesuffix(".tar.gz") / "data"
        synsets = np.atleast_1d(load_mat(folder / "meta.mat", "ImageNet")["synsets"])
        leaves = {int(row["ILSVRC2012_ID"]): row for row in synsets if int(row["num_children"]) == 0}
        truth = (folder / "ILSVRC2012_validation_ground_truth.txt").read_text(encoding="ascii").split()
        names = {str(row["WNID"]): tuple(str(row["words"]).split(", ")) for row in leaves.values()}
        made = Path(scratch) / _META
        torch.save((names, [str(leaves[int(number)]["WNID"]) for number in truth]), made)
        replace(made, root / _META)


def _unpack_train(root: Path, folder: Path) -> None:
    """The archive holds an archive of each class."""
    from flambeau.core.hub import extract_archive

    extract_archive(root / _ARCHIVES["train"][0], folder)
    for archive in sorted(folder.glob("*.tar")):
        extract_archive(archive, folder / archive.stem, remove=True)


def _unpack_val(root: Path, folder: Path) -> None:
    """The archive holds the pictures alone; their classes are in the development kit."""
    from flambeau.core.hub import extract_archive

    extract_archive(root / _ARCHIVES["val"][0], folder)
    pictures = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for picture, wnid in zip(pictures, _load_meta(root)[1], strict=True):
        (folder / wnid).mkdir(exist_ok=True)
        picture.rename(folder / wnid / picture.name)
