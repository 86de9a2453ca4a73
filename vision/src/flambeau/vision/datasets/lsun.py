"""LSUN: scenes of ten kinds, in LMDB databases.

References:
    Yu et al. 2015, LSUN: Construction of a Large-scale Image Dataset using Deep Learning with Humans in the Loop.
    arXiv:1506.03365
"""

from __future__ import annotations

import contextlib
import io
import os
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from PIL import Image

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.core.files import write_atomic
from flambeau.vision.datasets._pictures import IMAGE, picture_and_label
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets._readers import reader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["LSUN", "LSUNClass"]

_CATEGORIES = (
    "bedroom", "bridge", "church_outdoor", "classroom", "conference_room", "dining_room", "kitchen", "living_room",
    "restaurant", "tower",
)  # fmt: skip
_ABOUT: dict[str, Any] = {
    "task": "image-classification",
    "license": "unknown; cite the paper",
    "citation": "@article{yu2015lsun, author={Yu, Fisher and others}, title={LSUN: Construction of a Large-scale Image "
    "Dataset using Deep Learning with Humans in the Loop}, journal={arXiv:1506.03365}, year={2015}}",
    "homepage": "https://www.yf.io/p/lsun",
    "gated": Gate("manual", "https://github.com/fyu/lsun", "Its script fetches the databases; unpack them."),
}
_INFO = DatasetInfo(
    name="lsun", schema=picture_and_label(10), description="Photographs of scenes of ten kinds.", **_ABOUT
)
_INFO_CLASS = DatasetInfo(
    name="lsunclass",
    schema=(IMAGE, Field("target", "any", optional=True)),
    description="Photographs in one LMDB database.",
    **_ABOUT,
)


@register_dataset(info=_INFO_CLASS)
class LSUNClass(VisionDataset):
    """The pictures of one LMDB database, in the order of their keys. Needs lmdb.

    A list of the keys is kept in the database's folder (`flambeau-keys.txt`), where that can be written: to walk
    through a database of millions of pictures takes minutes. Each process opens the database once.

    Args:
        root: folder of the database.
        transform: called with the picture.
        target_transform: called with None.

    Items are (PIL image in RGB, None).

    Raises:
        DatasetMissingError: there is no database.
        MissingReaderError: lmdb is not installed.
    """

    def __init__(
        self,
        root: str,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._folder = require_placed(_INFO_CLASS, root, "data.mdb")
        self.length = int(self._database().stat()["entries"])
        self.keys = self._all_keys()

    def _all_keys(self) -> list[bytes]:
        listing = self._folder / "flambeau-keys.txt"
        if listing.exists():
            keys = [bytes.fromhex(line) for line in listing.read_text(encoding="ascii").split()]
            if len(keys) == self.length:
                return keys
        with self._database().begin() as transaction:
            keys = [bytes(key) for key in transaction.cursor().iternext(values=False)]
        with contextlib.suppress(OSError):  # a folder that cannot be written is walked through each time
            write_atomic(listing, "".join(f"{key.hex()}\n" for key in keys))
        return keys

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, None) number `index`, transformed."""
        with self._database().begin() as transaction:
            content = bytes(transaction.get(self.keys[index]))
        with Image.open(io.BytesIO(content)) as image:
            return self._transformed(image.convert("RGB"), None)

    def __len__(self) -> int:
        return self.length

    def _database(self) -> Any:
        return _opened(str(self._folder.resolve()))


# A database can be open once in a process, so that all who read it share the handle; after a fork it is opened anew.
_OPEN: dict[str, tuple[int, Any]] = {}


def _opened(folder: str) -> Any:
    process, database = _OPEN.get(folder, (None, None))
    if process != os.getpid():
        if database is not None:
            database.close()
        lmdb = reader("lmdb", "LSUN")
        database = lmdb.open(folder, max_readers=126, readonly=True, lock=False, readahead=False, meminit=False)
        _OPEN[folder] = (os.getpid(), database)
    return database


@register_dataset(info=_INFO)
class LSUN(VisionDataset):
    """About ten million photographs of scenes of ten kinds. Needs lmdb.

    Args:
        root: folder that holds the databases, such as `bedroom_train_lmdb`.
        classes: "train", "val" or "test" for all that a split has, or a list such as ["bedroom_val", "tower_val"].
        transform: called with the picture.
        target_transform: called with the class index.

    Attributes:
        classes: what was read, such as "bedroom_train".

    Items are (PIL image in RGB, class index).

    Raises:
        ValueError: there is no such split or class.
        DatasetMissingError: a database is missing.
        MissingReaderError: lmdb is not installed.
    """

    def __init__(
        self,
        root: str | Path,
        classes: str | list[str] = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes = _class_names(classes)
        folder = require_placed(_INFO, root, *(f"{name}_lmdb/data.mdb" for name in self.classes))
        self.dbs = [LSUNClass(str(folder / f"{name}_lmdb")) for name in self.classes]
        self.indices = list(accumulate(len(database) for database in self.dbs))
        self.length = self.indices[-1] if self.indices else 0

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, class index) number `index`, transformed."""
        at = range(self.length)[index]
        target = bisect_right(self.indices, at)
        first = self.indices[target - 1] if target else 0
        return self._transformed(self.dbs[target][at - first][0], target)

    def __len__(self) -> int:
        return self.length

    def extra_repr(self) -> str:
        """The classes that were read."""
        return f"Classes: {self.classes}"


def _class_names(classes: str | list[str]) -> list[str]:
    if isinstance(classes, str):
        verify_str_arg(classes, "classes", ("train", "val", "test"))
        return ["test"] if classes == "test" else [f"{name}_{classes}" for name in _CATEGORIES]
    if not isinstance(classes, list | tuple):
        raise ValueError(f"classes is a {type(classes).__name__}, expected a split's name or a list of classes.")
    known = [f"{name}_{split}" for name in _CATEGORIES for split in ("train", "val")] + ["test"]
    return [verify_str_arg(name, "classes", known) for name in classes]
