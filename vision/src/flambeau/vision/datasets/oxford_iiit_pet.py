"""Oxford-IIIT Pet: cats and dogs by breed, with trimaps.

References:
    Parkhi et al. 2012, Cats and Dogs. CVPR. doi:10.1109/CVPR.2012.6248092
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import index_of, picture_and_label
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["OxfordIIITPet"]

_FOLDER = "oxford-iiit-pet"
_URL = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"
_INFO = DatasetInfo(
    name="oxfordiiitpet",
    task="image-classification",
    sizes={"trainval": 3_680, "test": 3_669},
    files=tuple(
        DatasetFile(
            url=f"{_URL}{name}.tar.gz",
            path=f"{_FOLDER}/{name}.tar.gz",
            md5=md5,
            extract=True,
            contents=(Content(f"{_FOLDER}/{name}"),),
        )
        for name, md5 in (
            ("images", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
            ("annotations", "95a8c909bbe2e81eed6a22bccdf3f68f"),
        )
    ),
    schema=picture_and_label(37),
    license="CC-BY-SA-4.0",
    citation="@inproceedings{parkhi2012cats, author={Parkhi, Omkar M. and others}, title={Cats and Dogs}, "
    "booktitle={CVPR}, year={2012}}",
    homepage="https://www.robots.ox.ac.uk/~vgg/data/pets/",
    description="Photographs of 37 breeds of cats and dogs, with trimaps.",
)
_TARGET_TYPES = ("category", "binary-category", "segmentation")


@register_dataset(info=_INFO)
class OxfordIIITPet(VisionDataset):
    """7,349 photographs of 12 breeds of cats and 25 of dogs.

    Args:
        root: folder that holds, or shall hold, `oxford-iiit-pet`.
        split: "trainval" or "test".
        target_types: one or several of "category" (breed, 0 to 36), "binary-category" (0 cat, 1 dog) and
            "segmentation" (PIL image: 1 pet, 2 background, 3 border).
        transforms: called with picture and target; excludes the other two.
        transform: called with the picture.
        target_transform: called with the target.
        download: fetch the archives (800 MB) where the files are not in place.

    Attributes:
        classes: the breeds, such as "American Bulldog".
        class_to_idx: breed -> index.
        bin_classes: Cat, Dog.
        bin_class_to_idx: species -> index.

    Items are (PIL image in RGB, target); several target types make a tuple, none makes None.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "trainval",
        target_types: Sequence[str] | str = "category",
        transforms: Callable[..., Any] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("trainval", "test"))
        wanted = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [verify_str_arg(kind, "target_types", _TARGET_TYPES) for kind in wanted]
        super().__init__(root, transforms, transform, target_transform)
        self._folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        lines = (self._folder / "annotations" / f"{split}.txt").read_text(encoding="utf-8").splitlines()
        # "american_bulldog_203 1 2 1": name, breed and species counted from one, number within the species.
        rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
        self._names = [row[0] for row in rows]
        self._labels = [int(row[1]) - 1 for row in rows]
        self._bin_labels = [int(row[2]) - 1 for row in rows]
        breeds = {label: name.rpartition("_")[0] for label, name in zip(self._labels, self._names, strict=True)}
        self.classes = [breeds[label].replace("_", " ").title() for label in sorted(breeds)]
        self.class_to_idx = index_of(self.classes)
        self.bin_classes = ["Cat", "Dog"]
        self.bin_class_to_idx = index_of(self.bin_classes)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        image = Image.open(self._folder / "images" / f"{self._names[index]}.jpg").convert("RGB")
        targets = tuple(self._target(kind, index) for kind in self._target_types)
        return self._transformed(image, targets if len(targets) > 1 else targets[0] if targets else None)

    def _target(self, kind: str, index: int) -> Any:
        if kind == "segmentation":
            trimap = Image.open(self._folder / "annotations" / "trimaps" / f"{self._names[index]}.png")
            trimap.load()
            return trimap
        return (self._labels if kind == "category" else self._bin_labels)[index]

    def __len__(self) -> int:
        return len(self._names)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
