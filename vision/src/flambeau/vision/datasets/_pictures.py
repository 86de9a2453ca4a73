"""Datasets whose items are a picture file and a target: what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Field
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["IMAGE", "PictureDataset", "index_of", "picture_and_label"]

IMAGE = Field("image", "image", shape=(3, "H", "W"), dtype="uint8")


def picture_and_label(classes: int, *, image: Field = IMAGE, optional: bool = False) -> tuple[Field, Field]:
    """The schema of (picture, class index); `optional` where a split has no labels."""
    return image, Field("label", "label", classes=classes, optional=optional)


def index_of(classes: Iterable[str]) -> dict[str, int]:
    """Class name -> its position."""
    return {name: index for index, name in enumerate(classes)}


class PictureDataset(VisionDataset):
    """Base of datasets that list the path of a picture and a target for every item.

    Args:
        root: folder of the data.
        samples: (path, target) of every item, in an order that is the same on every machine.
        transform: called with the picture.
        target_transform: called with the target.
        loader: opens a picture by path.
        transforms: called with picture and target; excludes the other two.

    Attributes:
        samples: (path, target) of every item.
    """

    def __init__(
        self,
        root: str | Path,
        samples: Iterable[tuple[str | Path, Any]],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.samples: list[tuple[str, Any]] = [(str(path), target) for path, target in samples]
        self.loader = loader

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        path, target = self.samples[index]
        return self._transformed(opened(path, self.loader, transformed=self._transforms_pictures), target)

    def __len__(self) -> int:
        return len(self.samples)

    def extra_repr(self) -> str:
        """The split, where there is one."""
        split = getattr(self, "_split", None)
        return f"Split: {split}" if split else ""
