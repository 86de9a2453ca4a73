"""MNIST and the sets in its format: Fashion-MNIST, KMNIST, EMNIST, QMNIST.

References:
    LeCun et al. 1998, Gradient-based learning applied to document recognition. doi:10.1109/5.726791
    Xiao et al. 2017, Fashion-MNIST. arXiv:1708.07747
    Clanuwat et al. 2018, Deep Learning for Classical Japanese Literature. arXiv:1812.01718
    Cohen et al. 2017, EMNIST: an extension of MNIST to handwritten letters. arXiv:1702.05373
    Yadav and Bottou 2019, Cold Case: The Lost MNIST Digits. arXiv:1905.10498
"""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._idx import read_idx
from flambeau.vision.datasets._pictures import index_of, picture_and_label
from flambeau.vision.datasets._split_names import by_split_name
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["EMNIST", "KMNIST", "MNIST", "QMNIST", "FashionMNIST"]

_IMAGE = Field("image", "image", shape=(1, 28, 28), dtype="uint8")


class MNIST(VisionDataset):
    """70,000 handwritten digits of 28x28 pixels.

    Args:
        root: folder that holds, or shall hold, `MNIST/raw`.
        train: the 60,000 digits for training, otherwise the 10,000 for testing.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the four files (11 MB) where they are not in place.

    Attributes:
        data: [items, 28, 28], uint8.
        targets: [items], int64.
        classes: class names.

    Items are (PIL image of mode L, class index).

    Raises:
        DatasetMissingError: files are missing or damaged, and `download` is False.
        IdxError: a file is not whole.
    """

    data: Tensor
    targets: Tensor
    # The published files; a dataset of the same layout overrides these.
    mirrors: ClassVar[list[str]] = [
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ]
    resources: ClassVar[Any] = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    training_file: ClassVar[str] = "training.pt"
    test_file: ClassVar[str] = "test.pt"
    classes: list[str] = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
        "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        legacy = Path(self.processed_folder) / (self.training_file if train else self.test_file)
        if legacy.exists() and not Path(self.raw_folder).exists():
            # Releases of upstream before 2021 kept two tensors here.
            self.data, self.targets = torch.load(legacy, weights_only=True)
            return
        if not self._unpacked():
            prepare_dataset(self.facts(), root, download=download, splits=(self._part(),))
        self.data, self.targets = self._load_data()

    @classmethod
    def facts(cls) -> DatasetInfo:
        """What the registry knows of this dataset, made from the class's attributes."""
        return _facts(cls, f"{cls.__name__}/raw", 10, **_ABOUT[cls.__name__])

    def _unpacked(self) -> bool:
        """Whether the files lie there in a form that the published archives do not hold."""
        return False

    def _part(self) -> str:
        """The split whose files are needed."""
        return "train" if self.train else "test"

    def _load_data(self) -> tuple[Tensor, Tensor]:
        prefix = "train" if self.train else "t10k"
        folder = Path(self.raw_folder)
        return read_idx(folder / f"{prefix}-images-idx3-ubyte"), read_idx(folder / f"{prefix}-labels-idx1-ubyte").long()

    @property
    def raw_folder(self) -> str:
        """Where the unpacked files are."""
        return str(Path(str(self.root)) / type(self).__name__ / "raw")

    @property
    def processed_folder(self) -> str:
        """Where releases of upstream before 2021 put two tensors."""
        return str(Path(str(self.root)) / type(self).__name__ / "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Class name -> index."""
        return index_of(self.classes)

    @property
    def train_labels(self) -> Tensor:
        """The same as `targets`."""
        return self.targets

    @property
    def test_labels(self) -> Tensor:
        """The same as `targets`."""
        return self.targets

    @property
    def train_data(self) -> Tensor:
        """The same as `data`."""
        return self.data

    @property
    def test_data(self) -> Tensor:
        """The same as `data`."""
        return self.data

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, class index) number `index`, transformed."""
        return self._transformed(Image.fromarray(self.data[index].numpy()), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch and unpack the files that are not in place."""
        prepare_dataset(self.facts(), self.root, download=True, splits=(self._part(),))

    def extra_repr(self) -> str:
        """Which of the parts this is."""
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """70,000 articles of clothing of 28x28 pixels in ten classes; otherwise as `MNIST`."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """70,000 handwritten Japanese characters of 28x28 pixels, ten of the hiragana; otherwise as `MNIST`."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


_MERGED = set("cijklmopsuvwxyz")
_ALL = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEPT = [character for character in _ALL if character not in _MERGED]


class EMNIST(MNIST):
    """Handwritten digits and letters of 28x28 pixels, cut in six ways; rows and columns are swapped, as published.

    Args:
        root: folder that holds, or shall hold, `EMNIST/raw`.
        split: "byclass" (62 classes), "bymerge" and "balanced" (47: capitals and small letters that look alike are
            one), "letters" (26, counted from 1), "digits" or "mnist" (10).
        **kwargs: `train`, `transform`, `target_transform`, `download` (560 MB, all six) as for `MNIST`.

    Attributes and items as `MNIST`.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    url: ClassVar[str] = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5: ClassVar[str] = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits: ClassVar[tuple[str, ...]] = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict: ClassVar[dict[str, list[str]]] = {
        "byclass": list(_ALL),
        "bymerge": _KEPT,
        "balanced": _KEPT,
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root: str | Path, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[split]

    @classmethod
    def facts(cls) -> DatasetInfo:
        """What the registry knows of this dataset."""
        archive = DatasetFile(
            url=cls.url,
            path="EMNIST/raw/gzip.zip",
            md5=cls.md5,
            extract=True,
            contents=(Content("EMNIST/raw/gzip"),),
        )
        return DatasetInfo(
            name="emnist",
            task="image-classification",
            sizes={
                f"{cut} {part}": n for cut, pair in _EMNIST_SIZES.items() for part, n in zip(_PARTS, pair, strict=True)
            },
            files=(archive,),
            schema=picture_and_label(62, image=_IMAGE),
            license="unknown; made from NIST Special Database 19",
            citation="@article{cohen2017emnist, author={Cohen, Gregory and others}, title={EMNIST: an extension of "
            "MNIST to handwritten letters}, journal={arXiv:1702.05373}, year={2017}}",
            homepage="https://www.nist.gov/itl/products-and-services/emnist-dataset",
            description="Handwritten digits and letters of 28x28 pixels.",
        )

    def _part(self) -> str:
        return f"{self.split} {super()._part()}"

    @property
    def images_file(self) -> str:
        """Path of the unpacked pictures."""
        return str(Path(self.raw_folder) / f"emnist-{self._part().replace(' ', '-')}-images-idx3-ubyte")

    @property
    def labels_file(self) -> str:
        """Path of the unpacked labels."""
        return str(Path(self.raw_folder) / f"emnist-{self._part().replace(' ', '-')}-labels-idx1-ubyte")

    def _unpacked(self) -> bool:
        """Upstream unpacks the archive of archives into the folder above it, and both may be gone since."""
        raw = Path(self.raw_folder)
        if (raw / "gzip.zip").exists() or (raw / "gzip").exists():  # these are checked as any other files
            return False
        return Path(self.images_file).is_file() and Path(self.labels_file).is_file()

    def _load_data(self) -> tuple[Tensor, Tensor]:
        from flambeau.core.hub import extract_archive

        raw = Path(self.raw_folder)
        for path in map(Path, (self.images_file, self.labels_file)):
            if not path.exists():  # the archive holds compressed files of all cuts; only these two are unpacked
                extract_archive(raw / "gzip" / f"{path.name}.gz", raw)
        return read_idx(self.images_file), read_idx(self.labels_file).long()

    def extra_repr(self) -> str:
        """Which cut and part this is."""
        return f"Cut: {self.split}\n{super().extra_repr()}"


class QMNIST(MNIST):
    """MNIST rebuilt from its source, with the 50,000 test digits that had been lost, and who wrote each.

    Args:
        root: folder that holds, or shall hold, `QMNIST/raw`.
        what: "train" (60,000), "test" (60,000), "test10k" (the first of these, MNIST's own), "test50k" (the others)
            or "nist" (402,953, all of the source); "train" or "test" by `train` when None.
        compat: targets are class indices; otherwise rows of eight integers: class, series, writer, index of the digit
            for that writer, code of the class in the source, index in the source, whether it is a duplicate, 0.
        train: what `what` is when it is None.
        **kwargs: `transform`, `target_transform`, `download` as for `MNIST`.

    Attributes:
        data: [items, 28, 28], uint8.
        targets: [items, 8], int64.

    Items are (PIL image of mode L, class index or [8] int64).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    subsets: ClassVar[dict[str, str]] = {
        "train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist",
    }  # fmt: skip
    resources = {
        "train": [
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-images-idx3-ubyte.gz",
                "ed72d4157d28c017586c42bc6afe6370",
            ),
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",
                "0058f8dd561b90ffdd0f734c6a30e5e4",
            ),
        ],
        "test": [
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-test-images-idx3-ubyte.gz",
                "1394631089c404de565df7b7aeaf9412",
            ),
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-test-labels-idx2-int.gz",
                "5b5b05890a5e13444e108efe57b788aa",
            ),
        ],
        "nist": [
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/xnist-images-idx3-ubyte.xz",
                "7f124b3b8ab81486c9d8c2749c17f834",
            ),
            (
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/xnist-labels-idx2-int.xz",
                "5ed0e788978e45d4a8bd4b7caec3d79d",
            ),
        ],
    }

    def __init__(
        self, root: str | Path, what: str | None = None, compat: bool = True, train: bool = True, **kwargs: Any
    ) -> None:
        self.what = verify_str_arg(what or ("train" if train else "test"), "what", self.subsets)
        self.compat = compat
        super().__init__(root, train, **kwargs)

    @classmethod
    def facts(cls) -> DatasetInfo:
        """What the registry knows of this dataset."""
        return DatasetInfo(
            name="qmnist",
            task="image-classification",
            sizes={"train": 60_000, "test": 60_000, "test10k": 10_000, "test50k": 50_000, "nist": 402_953},
            files=tuple(
                DatasetFile(
                    url=url,
                    path=f"QMNIST/raw/{(name := url.rpartition('/')[2])}",
                    md5=md5,
                    extract=True,
                    contents=(Content(f"QMNIST/raw/{name.rpartition('.')[0]}"),),
                    splits=tuple(what for what, of in cls.subsets.items() if of == subset),
                )
                for subset, pair in cls.resources.items()
                for url, md5 in pair
            ),
            schema=picture_and_label(10, image=_IMAGE),
            license="BSD-3-Clause",
            citation="@inproceedings{yadav2019cold, author={Yadav, Chhavi and Bottou, Leon}, title={Cold Case: The "
            "Lost MNIST Digits}, booktitle={NeurIPS}, year={2019}}",
            homepage="https://github.com/facebookresearch/qmnist",
            description="MNIST rebuilt from its source, with writers and all test digits.",
        )

    @property
    def images_file(self) -> str:
        """Path of the unpacked pictures."""
        return str(Path(self.raw_folder) / self._name(0))

    @property
    def labels_file(self) -> str:
        """Path of the unpacked labels."""
        return str(Path(self.raw_folder) / self._name(1))

    def _name(self, which: int) -> str:
        url: str = self.resources[self.subsets[self.what]][which][0]
        return url.rpartition("/")[2].rpartition(".")[0]

    def _part(self) -> str:
        return self.what

    def _load_data(self) -> tuple[Tensor, Tensor]:
        chosen = {"test10k": slice(0, 10_000), "test50k": slice(10_000, None)}.get(self.what, slice(None))
        return read_idx(self.images_file)[chosen].clone(), read_idx(self.labels_file)[chosen].long()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        row = self.targets[index]
        return self._transformed(Image.fromarray(self.data[index].numpy()), int(row[0]) if self.compat else row)

    def extra_repr(self) -> str:
        """Which of the parts this is."""
        return f"Split: {self.what}"


_PARTS = ("train", "test")
_EMNIST_SIZES = {
    "byclass": (697_932, 116_323),
    "bymerge": (697_932, 116_323),
    "balanced": (112_800, 18_800),
    "letters": (124_800, 20_800),
    "digits": (240_000, 40_000),
    "mnist": (60_000, 10_000),
}
_ABOUT: dict[str, dict[str, str]] = {
    "MNIST": {
        "license": "CC-BY-SA-3.0",
        "citation": "@article{lecun1998gradient, author={LeCun, Yann and others}, title={Gradient-based learning "
        "applied to document recognition}, journal={Proceedings of the IEEE}, year={1998}}",
        "homepage": "http://yann.lecun.com/exdb/mnist/",
        "description": "70,000 handwritten digits of 28x28 pixels.",
    },
    "FashionMNIST": {
        "license": "MIT",
        "citation": "@article{xiao2017fashion, author={Xiao, Han and Rasul, Kashif and Vollgraf, Roland}, "
        "title={Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms}, "
        "journal={arXiv:1708.07747}, year={2017}}",
        "homepage": "https://github.com/zalandoresearch/fashion-mnist",
        "description": "70,000 articles of clothing of 28x28 pixels in ten classes.",
    },
    "KMNIST": {
        "license": "CC-BY-SA-4.0",
        "citation": "@article{clanuwat2018deep, author={Clanuwat, Tarin and others}, title={Deep Learning for "
        "Classical Japanese Literature}, journal={arXiv:1812.01718}, year={2018}}",
        "homepage": "http://codh.rois.ac.jp/kmnist/",
        "description": "70,000 handwritten Japanese characters of 28x28 pixels, ten of the hiragana.",
    },
}


def _facts(cls: type[MNIST], folder: str, classes: int, **about: str) -> DatasetInfo:
    first, *others = cls.mirrors
    return DatasetInfo(
        name=cls.__name__.lower(),
        task="image-classification",
        sizes={"train": 60_000, "test": 10_000},
        files=tuple(
            DatasetFile(
                url=first + name,
                mirrors=tuple(mirror + name for mirror in others),
                path=f"{folder}/{name}",
                md5=md5,
                extract=True,
                contents=(Content(f"{folder}/{name.removesuffix('.gz')}"),),
                splits=("train" if name.startswith("train") else "test",),
            )
            for name, md5 in cls.resources
        ),
        schema=picture_and_label(classes, image=_IMAGE),
        **about,  # type: ignore[arg-type]  # all of these fields are text
    )


_mnist = register_dataset(info=MNIST.facts())(by_split_name(MNIST, "_mnist"))
_fashion_mnist = register_dataset(info=FashionMNIST.facts())(by_split_name(FashionMNIST, "_fashion_mnist"))
_kmnist = register_dataset(info=KMNIST.facts())(by_split_name(KMNIST, "_kmnist"))
register_dataset(info=EMNIST.facts())(EMNIST)
register_dataset(info=QMNIST.facts())(QMNIST)
