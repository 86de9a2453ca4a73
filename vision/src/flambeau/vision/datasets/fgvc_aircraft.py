"""FGVC-Aircraft: aircraft by variant, family and manufacturer.

References:
    Maji et al. 2013, Fine-Grained Visual Classification of Aircraft. arXiv:1306.5151
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["FGVCAircraft"]

_FOLDER = "fgvc-aircraft-2013b/data"
_CLASS_FILES = {"variant": "variants.txt", "family": "families.txt", "manufacturer": "manufacturers.txt"}
_INFO = DatasetInfo(
    name="fgvcaircraft",
    task="image-classification",
    sizes={"train": 3_334, "val": 3_333, "trainval": 6_667, "test": 3_333},
    files=(
        DatasetFile(
            url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
            extract=True,
            contents=(Content(_FOLDER),),
        ),
    ),
    schema=picture_and_label(100),
    license="non-commercial research use",
    citation="@techreport{maji2013fine, author={Maji, Subhransu and others}, title={Fine-Grained Visual Classification "
    "of Aircraft}, number={arXiv:1306.5151}, year={2013}}",
    homepage="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
    description="Photographs of aircraft by variant (100), family (70) or manufacturer (41).",
)


@register_dataset(info=_INFO)
class FGVCAircraft(PictureDataset):
    """10,000 photographs of aircraft, a hundred of each variant.

    Args:
        root: folder that holds, or shall hold, `fgvc-aircraft-2013b`.
        split: "train", "val", "trainval" or "test".
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (41).
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (2.8 GB) where the files are not in place. Its owner states no checksum.
        loader: opens a picture by path.

    Attributes:
        classes: names in the order of the owner's list.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "trainval",
        annotation_level: str = "variant",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "trainval", "test"))
        level = verify_str_arg(annotation_level, "annotation_level", _CLASS_FILES)
        folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        self.classes = _lines(folder / _CLASS_FILES[level])
        self.class_to_idx = index_of(self.classes)
        # "1025794 707-320": the picture's number, then the name, which may have blanks.
        pairs = [line.split(" ", 1) for line in _lines(folder / f"images_{level}_{split}.txt")]
        samples = [(folder / "images" / f"{number}.jpg", self.class_to_idx[name]) for number, name in pairs]
        super().__init__(root, samples, transform, target_transform, loader)


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
