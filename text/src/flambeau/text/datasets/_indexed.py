"""Text datasets by index: what `get_dataset("text/sst2", split="dev")` builds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import Dataset

from flambeau.core.datasets import Field
from flambeau.text.datasets._locations import Place
from flambeau.text.datasets._records import Records
from flambeau.text.datasets._split_plan import Plan


class IndexedText(Dataset[Any]):
    """A split of a text dataset with random access.

    The files are those of the dataset's pipeline, in the same folders. An index of them is made on first use and kept;
    items are parsed out of memory-mapped files, so that neither size nor workers cost memory.

    Args:
        root: folder of all text datasets, which has this one in `datasets/<NAME>`; the cache when None.
        split: the split; the first one when None.
        transform: called with the item.
        named: items as a dict by column rather than as a tuple.
        download: fetch what is missing.
        from_dir: folder with files you have already, archives or unpacked, in subfolders as published or not; nothing
            is written there, and nothing is fetched.
        mirror: address of a folder that has the files under their names, or several; asked first, and what comes is
            checked as ever.

    Attributes:
        schema: the columns' names and kinds, as the registry has them.
        columns: the names of this split's columns.

    Items are tuples of the columns' values, or the value itself where there is one column.

    Raises:
        DatasetMissingError: files are missing, and `download` is False, or `from_dir` does not have them.
        DownloadError: a file could not be fetched from any of its addresses, or did not verify.
        TypeError: a split that the dataset does not have.
    """

    schema: ClassVar[tuple[Field, ...]]
    splits: ClassVar[tuple[str, ...]]
    plan: ClassVar[Callable[..., Plan]]

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        named: bool = False,
        download: bool = True,
        from_dir: str | Path | None = None,
        mirror: str | Sequence[str] = (),
    ) -> None:
        self._open(root, split, transform, named, download, from_dir, mirror, {})

    def _open(
        self,
        root: str | Path | None,
        split: str | None,
        transform: Callable[[Any], Any] | None,
        named: bool,
        download: bool,
        from_dir: str | Path | None,
        mirror: str | Sequence[str],
        options: dict[str, Any],
    ) -> None:
        from flambeau.text.data.datasets_utils import _check_default_set, _root

        self.split = self.splits[0] if split is None else split
        _check_default_set(self.split, self.splits, type(self).__name__)
        plan = type(self).plan(self.split, **options)
        self.transform, self.named = transform, named
        given = None if from_dir is None else str(Path(from_dir).expanduser())
        mirrors = (mirror,) if isinstance(mirror, str) else tuple(mirror)
        place = Place(_root(root), plan.dataset, self.split, plan.splits, download, given, mirrors)
        paths = plan.source.files(place)
        self.name, self.folder = plan.dataset, place.folder if given is None else Path(given)
        self._records = Records(plan.format, paths, place.folder / ".flambeau-index")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of this split's columns."""
        return self._columns(len(self._values(0))) if len(self) else self._columns(len(self.schema))

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> Any:
        """Item number `index`, transformed; negative numbers count from the end.

        Raises:
            IndexError: there is no such item.
        """
        values = self._values(index)
        if self.named:
            item: Any = dict(zip(self._columns(len(values)), values, strict=True))
        else:
            item = values[0] if len(self.schema) == 1 else values
        return item if self.transform is None else self.transform(item)

    def _values(self, index: int) -> tuple[Any, ...]:
        number, length = operator.index(index), len(self)
        if not -length <= number < length:
            raise IndexError(f"item {index} of {self.name}, which has {length}.")
        item = self._records[number % length]
        return tuple(item) if isinstance(item, tuple | list) else (item,)

    def _columns(self, count: int) -> tuple[str, ...]:
        every = count == len(self.schema)
        return tuple(field.key for field in self.schema if every or not field.optional)

    def __repr__(self) -> str:
        return f"{self.name}: {len(self)} items of split {self.split!r} in {self.folder}"
