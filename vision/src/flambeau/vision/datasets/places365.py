"""Places365: scenes of 365 kinds.

References:
    Zhou et al. 2018, Places: A 10 Million Image Database for Scene Recognition. doi:10.1109/TPAMI.2017.2723009
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["Places365"]

_URL = "http://data.csail.mit.edu/places/places365/"
_SIZES = {"train-standard": 1_803_460, "train-challenge": 8_026_628, "val": 36_500, "test": 328_500}
_CATEGORIES = ("categories_places365.txt", "06c963b85866bd0649f97cb43dd16673")
_LISTS = {
    "train-standard": ("places365_train_standard.txt", "30f37515461640559006b8329efbed1a"),
    "train-challenge": ("places365_train_challenge.txt", "b2931dc997b8c33c27e7329c073a6b57"),
    "val": ("places365_val.txt", "e9f2fd57bfd9d07630173f4e8708e4b1"),
    "test": ("places365_test.txt", "2fce8233fe493576d724142e45d93653"),
}
_KITS = {
    "standard": ("filelist_places365-standard.tar", "35a0585fee1fa656440f3ab298f8479c"),
    "challenge": ("filelist_places365-challenge.tar", "70a8307e459c3de41690a7c76c931734"),
}
# (split, size of pictures) -> archive, MD5
_IMAGES = {
    ("train-standard", "large"): ("train_large_places365standard.tar", "67e186b496a84c929568076ed01a8aa1"),
    ("train-challenge", "large"): ("train_large_places365challenge.tar", "605f18e68e510c82b958664ea134545f"),
    ("val", "large"): ("val_large.tar", "9b71c4993ad89d2d8bcbdc4aef38042f"),
    ("test", "large"): ("test_large.tar", "41a4b6b724b1d2cd862fb3871ed59913"),
    ("train-standard", "256"): ("train_256_places365standard.tar", "53ca1c756c3d1e7809517cc47c5561c5"),
    ("train-challenge", "256"): ("train_256_places365challenge.tar", "741915038a5e3471ec7332404dfb64ef"),
    ("val", "256"): ("val_256.tar", "e27b17d8d44f4af9a78502beb927f808"),
    ("test", "256"): ("test_256.tar", "f532f6ad7b582262a2ec8009075e186b"),
}


def _variant(split: str) -> str:
    return "challenge" if split == "train-challenge" else "standard"


def _folder(split: str, size: str) -> str:
    """Where the pictures belong; both training archives call theirs data_256 or data_large, so each gets its own."""
    return f"data_{size}_{_variant(split)}" if split.startswith("train") else f"{split}_{size}"


def _kit(variant: str) -> DatasetFile:
    name, md5 = _KITS[variant]
    lists = [_CATEGORIES, *(pair for split, pair in _LISTS.items() if _variant(split) == variant)]
    return DatasetFile(
        url=_URL + name,
        md5=md5,
        extract=True,
        contents=tuple(Content(path, md5=digest) for path, digest in lists),
        splits=tuple(
            part for split in _SIZES for part in (split, f"{split}/256", f"{split}/files") if _variant(split) == variant
        ),
    )


def _images(split: str, size: str) -> DatasetFile:
    name, md5 = _IMAGES[split, size]
    train = split.startswith("train")
    folder = _folder(split, size)
    return DatasetFile(
        url=_URL + name,
        md5=md5,
        extract=folder if train else ".",
        contents=(Content(f"{folder}/data_{size}" if train else folder),),
        splits=(split if size == "large" else f"{split}/256",),
    )


# "val" needs the large pictures, "val/256" the small ones, "val/files" the lists alone.
_INFO = DatasetInfo(
    name="places365",
    task="image-classification",
    splits=tuple(part for split in _SIZES for part in (split, f"{split}/256", f"{split}/files")),
    sizes=_SIZES,
    files=(_kit("standard"), _kit("challenge"), *(_images(split, size) for split, size in _IMAGES)),
    schema=picture_and_label(365, optional=True),
    license="unknown; the pictures belong to their owners",
    citation="@article{zhou2018places, author={Zhou, Bolei and others}, title={Places: A 10 Million Image Database for "
    "Scene Recognition}, journal={IEEE TPAMI}, year={2018}}",
    homepage="http://places2.csail.mit.edu/",
    description="Photographs of 365 kinds of scenes.",
)


@register_dataset(info=_INFO)
class Places365(PictureDataset):
    """Up to ten million photographs of 365 kinds of scenes.

    Args:
        root: folder that holds, or shall hold, the lists and the folders of pictures.
        split: "train-standard" (1.8 million), "train-challenge" (8 million), "val" or "test".
        small: pictures of 256x256 pixels, otherwise those whose shorter side has at least 512.
        download: fetch lists and pictures where they are not in place.
        transform: called with the picture.
        target_transform: called with the class index.
        loader: opens a picture by path.

    Attributes:
        classes: names such as "/a/airfield".
        class_to_idx: class name -> index.
        imgs: (path, class index) of every item.
        targets: class index of every item, or None.

    Items are (PIL image in RGB, class index); the index is None in "test".

    Raises:
        DatasetMissingError: files are missing or damaged, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train-standard",
        small: bool = False,
        download: bool = False,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = self.split = verify_str_arg(split, "split", _SIZES)
        self.small = small
        self._base = Path(root).expanduser()
        self.classes, self.class_to_idx = self.load_categories(download)
        if download:
            self.download_images()
        elif not self._as_upstream():
            prepare_dataset(_INFO, self._base, download=False, splits=(self._part(),))
        self.imgs, self.targets = self.load_file_list(download)
        super().__init__(root, self.imgs, transform, target_transform, loader)

    def _part(self) -> str:
        return f"{self.split}/256" if self.small else self.split

    def _as_upstream(self) -> bool:
        """Whether the pictures lie without the folder that the archive of a training split has around them."""
        folder = self._base / _folder(self.split, self._size)
        return self.split.startswith("train") and folder.is_dir() and not (folder / f"data_{self._size}").is_dir()

    @property
    def _size(self) -> str:
        return "256" if self.small else "large"

    @property
    def variant(self) -> str:
        """The kit that the split belongs to: "standard" or "challenge"."""
        return _variant(self.split)

    @property
    def images_dir(self) -> str:
        """Folder of the split's pictures."""
        folder = self._base / _folder(self.split, self._size)
        return str(
            folder / f"data_{self._size}" if self.split.startswith("train") and not self._as_upstream() else folder
        )

    def load_categories(self, download: bool = True) -> tuple[list[str], dict[str, int]]:
        """Class names in order, and the index of each."""
        self._require_lists(download)
        pairs = [line.split() for line in self._lines(_CATEGORIES[0])]
        class_to_idx = {name: int(number) for name, number in pairs}
        return sorted(class_to_idx, key=class_to_idx.__getitem__), class_to_idx

    def load_file_list(self, download: bool = True) -> tuple[list[tuple[str, int | None]], list[int | None]]:
        """(path, class index) of every item, and the indices alone; None in "test"."""
        self._require_lists(download)
        rows = [line.split() for line in self._lines(_LISTS[self.split][0])]
        folder = Path(self.images_dir)
        imgs = [(str(folder / row[0].lstrip("/")), int(row[1]) if len(row) > 1 else None) for row in rows]
        return imgs, [target for _, target in imgs]

    def _lines(self, name: str) -> list[str]:
        return [line for line in (self._base / name).read_text(encoding="utf-8").splitlines() if line.strip()]

    def _require_lists(self, download: bool) -> None:
        prepare_dataset(_INFO, self._base, download=download, splits=(f"{self.split}/files",))

    def download_devkit(self) -> None:
        """Fetch and unpack the lists where they are not in place."""
        self._require_lists(True)

    def download_images(self) -> None:
        """Fetch and unpack the pictures where they are not in place."""
        if not self._as_upstream():
            prepare_dataset(_INFO, self._base, download=True, splits=(self._part(),))

    def extra_repr(self) -> str:
        """The split, and whether pictures are small."""
        return f"Split: {self.split}\nSmall: {self.small}"
