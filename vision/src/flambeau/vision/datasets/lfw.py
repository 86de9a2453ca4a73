"""Labeled Faces in the Wild.

References:
    Huang et al. 2007, Labeled Faces in the Wild: A Database for Studying Face Recognition in Unconstrained
    Environments. University of Massachusetts, technical report 07-49.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, Gate, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import IMAGE, PictureDataset, picture_and_label
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["LFWPairs", "LFWPeople"]

_FOLDER = "lfw-py"
# image set -> folder, archive, MD5
_IMAGES = {
    "original": ("lfw", "lfw.tgz", "a17d05bd522c52d84eca14327a23d494"),
    "funneled": ("lfw_funneled", "lfw-funneled.tgz", "1b42dfed7d15c9b2dd63d5e5840c86ad"),
    "deepfunneled": ("lfw-deepfunneled", "lfw-deepfunneled.tgz", "68331da3eb755a505a502b5aacb3c201"),
}
_SUFFIX = {"10fold": "", "train": "DevTrain", "test": "DevTest"}
_MD5 = {
    "pairs.txt": "9f1ba174e4e1c508ff7cdf10ac338a7d",
    "pairsDevTest.txt": "5132f7440eb68cf58910c8a45a2ac10b",
    "pairsDevTrain.txt": "4f27cbf15b2da4a85c1907eb4181ad21",
    "people.txt": "450f0863dd89e85e73936a6d71a3474b",
    "peopleDevTest.txt": "e4bf5be0a43b5dcd9dc5ccfcb8fb19c5",
    "peopleDevTrain.txt": "54eaac34beb6d042ed3a7d883e247a21",
    "lfw-names.txt": "a6d0a479bd074669f656265a6e693f6d",
}


def _facts(view: str, sizes: dict[str, int], schema: tuple[Field, ...]) -> DatasetInfo:
    """The facts of one view; image sets count as splits, since each has files of its own."""
    return DatasetInfo(
        name=f"lfw{view}",
        task="image-classification",
        splits=(*sizes, *_IMAGES),
        sizes=sizes,
        files=(
            *(
                DatasetFile(
                    path=f"{_FOLDER}/{archive}",
                    md5=md5,
                    extract=True,
                    contents=(Content(f"{_FOLDER}/{folder}"),),
                    splits=(image_set,),
                )
                for image_set, (folder, archive, md5) in _IMAGES.items()
            ),
            *(
                DatasetFile(path=f"{_FOLDER}/{(name := f'{view}{suffix}.txt')}", md5=_MD5[name], splits=(split,))
                for split, suffix in _SUFFIX.items()
            ),
            *(DatasetFile(path=f"{_FOLDER}/{name}", md5=_MD5[name]) for name in ("lfw-names.txt",) if view == "people"),
        ),
        schema=schema,
        license="unknown; cite the report",
        citation="@techreport{huang2007labeled, author={Huang, Gary B. and others}, title={Labeled Faces in the Wild: "
        "A Database for Studying Face Recognition in Unconstrained Environments}, number={07-49}, institution="
        "{University of Massachusetts, Amherst}, year={2007}}",
        homepage="http://vis-www.cs.umass.edu/lfw/",
        gated=Gate("manual", "http://vis-www.cs.umass.edu/lfw/", "The owner's site is often gone; archives copy it."),
        description="Photographs of faces of 5,749 people, 250x250 pixels.",
    )


class _LFW(VisionDataset):
    """What the two views share: where pictures are, and lists that come in folds."""

    _info: ClassVar[DatasetInfo]
    _view: ClassVar[str]

    def _open(self, root: str | Path, split: str, image_set: str, download: bool) -> None:
        self.split = verify_str_arg(split, "split", _SUFFIX)
        self.image_set = verify_str_arg(image_set, "image_set", _IMAGES)
        self._base = prepare_dataset(self._info, root, download=download, splits=(split, image_set)) / _FOLDER

    @property
    def images_dir(self) -> str:
        """Folder of the pictures."""
        return str(self._base / _IMAGES[self.image_set][0])

    def _picture(self, name: str, number: str | int) -> str:
        return str(Path(self.images_dir) / name / f"{name}_{int(number):04d}.jpg")

    def _lines(self) -> list[list[str]]:
        text = (self._base / f"{self._view}{_SUFFIX[self.split]}.txt").read_text(encoding="utf-8")
        return [line.split("\t") for line in text.splitlines() if line.strip()]

    def extra_repr(self) -> str:
        """How the pictures were aligned, and the split."""
        return f"Alignment: {self.image_set}\nSplit: {self.split}"


_PEOPLE = _facts("people", {"10fold": 13_233, "train": 9_525, "test": 3_708}, picture_and_label(5_749))
_PAIRS = _facts(
    "pairs",
    {"10fold": 6_000, "train": 2_200, "test": 1_000},
    (IMAGE, Field("other", "image", shape=(3, "H", "W"), dtype="uint8"), Field("same", "label", classes=2)),
)


@register_dataset(info=_PEOPLE)
class LFWPeople(_LFW, PictureDataset):
    """13,233 photographs of 5,749 people, 250x250 pixels, with who it is.

    Args:
        root: folder that holds `lfw-py`.
        split: "10fold" (all), "train" or "test".
        image_set: how faces were aligned: "original" (not at all), "funneled" or "deepfunneled".
        transform: called with the picture.
        target_transform: called with the person's index.
        download: cannot help: the owner's site is gone.
        loader: opens a picture by path.

    Attributes:
        class_to_idx: name -> index.
        data, targets: path and index of every item.

    Items are (PIL image in RGB, index of the person).

    Raises:
        DatasetMissingError: files are missing or damaged; as `GatedError` with `download`.
    """

    _info = _PEOPLE
    _view = "people"

    def __init__(
        self,
        root: str,
        split: str = "10fold",
        image_set: str = "funneled",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._open(root, split, image_set, download)
        names = (self._base / "lfw-names.txt").read_text(encoding="utf-8").splitlines()
        self.class_to_idx = {line.split()[0]: index for index, line in enumerate(names) if line.strip()}
        samples = [
            (self._picture(name, number), self.class_to_idx[name])
            for name, count in self._people()
            for number in range(1, int(count) + 1)
        ]
        PictureDataset.__init__(self, root, samples, transform, target_transform, loader)
        self.data = [path for path, _ in self.samples]
        self.targets = [target for _, target in self.samples]

    def _people(self) -> Iterator[list[str]]:
        """(name, number of pictures) of each person; a fold starts with the number of its lines."""
        lines = self._lines()
        at = 1 if self.split == "10fold" else 0  # the first line is the number of folds
        while at < len(lines):
            count = int(lines[at][0])
            yield from lines[at + 1 : at + 1 + count]
            at += 1 + count


@register_dataset(info=_PAIRS)
class LFWPairs(_LFW):
    """Pairs of photographs: is it the same person?

    Args:
        root: folder that holds `lfw-py`.
        split: "10fold" (6,000 pairs), "train" or "test".
        image_set: how faces were aligned: "original" (not at all), "funneled" or "deepfunneled".
        transform: called with each of the two pictures.
        target_transform: called with the answer.
        download: cannot help: the owner's site is gone.
        loader: opens a picture by path.

    Attributes:
        pair_names: the two names of every item.
        data: the two paths of every item.
        targets: 1 for the same person, else 0.

    Items are (PIL image in RGB, PIL image in RGB, 1 or 0).

    Raises:
        DatasetMissingError: files are missing or damaged; as `GatedError` with `download`.
    """

    _info = _PAIRS
    _view = "pairs"

    def __init__(
        self,
        root: str,
        split: str = "10fold",
        image_set: str = "funneled",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._open(root, split, image_set, download)
        self.loader = loader
        self.pair_names: list[tuple[str, str]] = []
        self.data: list[tuple[str, str]] = []
        self.targets: list[int] = []
        for fields in self._lines()[1:]:  # after the number of folds and pairs
            # "name i j" shows one person twice, "name i other j" two people.
            name, first, other, second = fields if len(fields) == 4 else (fields[0], fields[1], fields[0], fields[2])
            self.pair_names.append((name, other))
            self.data.append((self._picture(name, first), self._picture(other, second)))
            self.targets.append(int(len(fields) == 3))

    def __getitem__(self, index: int) -> tuple[Any, Any, Any]:
        """(picture, picture, same) number `index`, transformed."""
        first, second = (self.loader(path) for path in self.data[index])
        target: Any = self.targets[index]
        if self.transform is not None:
            first, second = self.transform(first), self.transform(second)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return first, second, target

    def __len__(self) -> int:
        return len(self.data)
