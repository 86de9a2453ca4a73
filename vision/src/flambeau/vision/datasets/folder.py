"""Datasets that are folders of files, one folder per class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.datasets import register_dataset
from flambeau.vision.datasets.vision import VisionDataset

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IMG_EXTENSIONS",
    "DatasetFolder",
    "ImageFolder",
    "accimage_loader",
    "default_loader",
    "find_classes",
    "has_file_allowed_extension",
    "is_image_file",
    "make_dataset",
    "pil_loader",
]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether a file name ends, in any case, with one of the extensions (given in lower case)."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """Whether a file name ends, in any case, with one of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | Path) -> tuple[list[str], dict[str, int]]:
    """The subfolders of `directory`, sorted, and the index of each.

    Raises:
        FileNotFoundError: there is none, or no such directory.
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"{directory} has no folders in it; expected one for each class, with its files.")
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(
    directory: str | Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """List the files of a folder with one subfolder per class, in an order that is the same on every machine.

    Args:
        directory: the folder; `~` is expanded.
        class_to_idx: subfolder -> class index; `find_classes` when None.
        extensions: which files to take, by the end of the name in any case.
        is_valid_file: which files to take, by path; excludes `extensions`.
        allow_empty: accept a class without a file.

    Returns:
        (path, class index): classes sorted by name, files sorted within each folder. Links to folders are followed.

    Raises:
        ValueError: both or none of `extensions` and `is_valid_file` are given, or `class_to_idx` is empty.
        FileNotFoundError: a class has no such file, unless `allow_empty`.
    """
    directory = Path(directory).expanduser()
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("class_to_idx is empty; expected the number of each class, by its folder's name.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Which files count is said by extensions or by is_valid_file; give one of the two.")
    wanted = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions))  # type: ignore[arg-type]
    found: dict[str, list[str]] = {}
    for name in sorted(class_to_idx):
        folders = sorted(os.walk(directory / name, followlinks=True))
        paths = (f"{folder}{os.sep}{file}" for folder, _, files in folders for file in sorted(files))
        found[name] = [path for path in paths if wanted(path)]
    empty = sorted(name for name, paths in found.items() if not paths)
    if empty and not allow_empty:
        ending = f" that ends in {_listed(extensions)}" if extensions is not None else ""
        raise FileNotFoundError(
            f"No file{ending} was found for the classes {', '.join(empty)} in {directory}; add some, or pass "
            "allow_empty=True."
        )
    return [(path, class_to_idx[name]) for name, paths in found.items() for path in paths]


def _listed(extensions: str | tuple[str, ...]) -> str:
    return extensions if isinstance(extensions, str) else ", ".join(extensions)


def pil_loader(path: str | Path) -> Image.Image:
    """Open an image with Pillow, as RGB; the file is closed again."""
    from PIL import Image

    with Path(path).open("rb") as file:
        return Image.open(file).convert("RGB")


def accimage_loader(path: str | Path) -> Any:
    """Open an image with accimage, and with Pillow where accimage cannot read it.

    Raises:
        ImportError: accimage is not installed.
    """
    import accimage  # type: ignore[import-not-found]

    try:
        return accimage.Image(os.fspath(path))
    except OSError:
        return pil_loader(path)


def default_loader(path: str | Path) -> Any:
    """Open an image with the library chosen by `set_image_backend`."""
    from flambeau.vision import get_image_backend

    return accimage_loader(path) if get_image_backend() == "accimage" else pil_loader(path)


def opened(path: str | Path, loader: Callable[..., Any], *, transformed: bool) -> Any:
    """Open a sample. A picture that goes to a transform next need not be decoded before that looks at it.

    Args:
        path: of the file.
        loader: of the dataset.
        transformed: whether a transform is what gets the sample.
    """
    from flambeau.vision import get_image_backend

    if not transformed or loader is not default_loader or get_image_backend() != "PIL":
        return loader(path)
    from flambeau.vision.io._waiting_picture import open_picture

    return open_picture(path)


class DatasetFolder(VisionDataset):
    """Files of any kind in `root/<class>/**/<file>`.

    Subclasses change what counts as a class or a sample by overriding `find_classes` and `make_dataset`.

    Args:
        root: the folder.
        loader: makes a sample from a path.
        extensions: which files to take, by the end of the name in any case.
        transform: called with the sample.
        target_transform: called with the class index.
        is_valid_file: which files to take, by path; excludes `extensions`.
        allow_empty: accept a class without a file.

    Attributes:
        classes: class names, sorted.
        class_to_idx: class name -> index.
        samples: (path, class index) of every item.
        targets: class index of every item.

    Items are (sample, class index).

    Raises:
        ValueError: both or none of `extensions` and `is_valid_file` are given.
        FileNotFoundError: there is no class folder, or a class has no such file.
    """

    def __init__(
        self,
        root: str | Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        folder = Path(root).expanduser()
        classes, class_to_idx = self.find_classes(folder)
        samples = self.make_dataset(
            folder,
            class_to_idx=class_to_idx,
            extensions=extensions,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.loader = loader
        self.extensions = extensions
        self.classes = classes
        self.class_to_idx = class_to_idx
        self.samples = samples
        self.targets = [target for _, target in samples]

    @staticmethod
    def make_dataset(
        directory: str | Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The samples of a folder; see the function `make_dataset`. Override to list them in another way.

        Raises:
            ValueError: `class_to_idx` is None.
        """
        if class_to_idx is None:
            raise ValueError("class_to_idx is None; pass the second value that `find_classes` gives.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The classes of a folder; see the function `find_classes`. Override to take some of them, or rename them."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(sample, class index) number `index`, transformed."""
        path, target = self.samples[index]
        sample = opened(path, self.loader, transformed=self._transforms_pictures)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __len__(self) -> int:
        return len(self.samples)


@register_dataset(
    "imagefolder",
    task="image-classification",
    schema=[
        {"key": "image", "kind": "image", "shape": (3, "H", "W"), "dtype": "uint8"},
        {"key": "label", "kind": "label"},
    ],
    description="Your own pictures, one folder per class.",
)
class ImageFolder(DatasetFolder):
    """Pictures in `root/<class>/**/<file>`, for instance `root/dog/xxx.png` and `root/cat/123.png`.

    Args:
        root: the folder.
        transform: called with the picture.
        target_transform: called with the class index.
        loader: opens a picture by path.
        is_valid_file: which files to take, by path, in place of `IMG_EXTENSIONS`.
        allow_empty: accept a class without a picture.

    Attributes:
        imgs: the same list as `samples`; the others are those of `DatasetFolder`.

    Items are (PIL image in RGB, class index).

    Raises:
        FileNotFoundError: there is no class folder, or a class has no picture.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root,
            loader,
            IMG_EXTENSIONS if is_valid_file is None else None,
            transform=transform,
            target_transform=target_transform,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.imgs = self.samples
