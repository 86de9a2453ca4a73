"""The published data sets by index, with what is known about them: for loaders, samplers, and `get_dataset`."""

from __future__ import annotations

import csv
import mmap
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, Gate, prepare_dataset, register_dataset
from flambeau.rec.datasets._criteo_columns import (
    DEFAULT_CAT_NAMES,
    DEFAULT_INT_NAMES,
    DEFAULT_LABEL_NAME,
    map_row,
)
from flambeau.rec.datasets.movielens import COLUMN_TYPE_CASTERS, DEFAULT_RATINGS_COLUMN_NAMES
from flambeau.rec.errors import OptionError

__all__ = ["CriteoKaggle", "IndexedRows", "MovieLens20M", "MovieLens25M"]

_PIECE = 1 << 24
_MOVIELENS = """@article{harper2015movielens,
  author = {F. Maxwell Harper and Joseph A. Konstan},
  title = {The MovieLens Datasets: History and Context},
  journal = {ACM Transactions on Interactive Intelligent Systems},
  year = {2015}
}"""
_CRITEO = """@misc{criteo2014kaggle,
  author = {{Criteo Labs}},
  title = {Display Advertising Challenge},
  year = {2014},
  howpublished = {https://www.kaggle.com/c/criteo-display-ad-challenge}
}"""


class IndexedRows(Dataset[dict[str, Any]]):
    """Rows of a file of text, found by where their lines begin; nothing else of the file is kept in memory.

    Args:
        root: folder of the files; one of its own in the cache when None.
        split: which part.
        transform: called with each row, a dictionary.
        download: fetch what is missing.

    Raises:
        ValueError: there is no such split.
        DatasetMissingError: files are missing or damaged, and `download` is False.
    """

    info: ClassVar[DatasetInfo]
    delimiter: ClassVar[str]
    header: ClassVar[bool]

    def __init__(
        self,
        root: str | Path | None = None,
        split: str = "train",
        transform: Callable[[dict[str, Any]], Any] | None = None,
        download: bool = False,
    ) -> None:
        if split not in self.info.splits:
            raise OptionError(f"split is {split!r}; {self.info.name} has {', '.join(self.info.splits)}.")
        self.split = split
        self.transform = transform
        self.folder = prepare_dataset(self.info, root, download=download, splits=[split])
        self.path = self.folder / self._file(split)
        self._begins = _line_begins(self.path)[1 if self.header else 0 :]

    def _file(self, split: str) -> str:
        """The file of a split, below the root."""
        raise TypeError(f"{type(self).__name__} does not say which file a split is in; define _file().")

    def _row(self, columns: list[str]) -> dict[str, Any]:
        """A row by the columns' names."""
        raise TypeError(f"{type(self).__name__} does not say what its columns are; define _row().")

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, index: int) -> Any:
        """Row number `index`, transformed; negative numbers count from the end.

        Raises:
            IndexError: there is no such row.
        """
        number, length = operator.index(index), len(self)
        if not -length <= number < length:
            raise IndexError(f"row {index} of {self.info.name}, which has {length}.")
        with self.path.open("rb") as file:
            file.seek(int(self._begins[number]))
            line = file.readline().decode("utf-8")
        row = self._row(next(csv.reader([line], delimiter=self.delimiter)))
        return row if self.transform is None else self.transform(row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self)} rows of split {self.split!r} in {self.folder}"


def _line_begins(path: Path) -> NDArray[np.int64]:
    """Where each line of a file begins, looked for piece by piece."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=np.int64)
    found = [np.zeros(1, dtype=np.int64)]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = len(content)
        for start in range(0, size, _PIECE):
            piece = np.frombuffer(content[start : start + _PIECE], dtype=np.uint8)
            found.append(np.flatnonzero(piece == ord("\n")) + (start + 1))
    begins = np.concatenate(found)
    return begins[begins < size]


class _MovieLens(IndexedRows):
    """Ratings of movies."""

    delimiter = ","
    header = True

    def _file(self, split: str) -> str:
        return f"{self.info.files[0].path.removesuffix('.zip')}/ratings.csv"

    def _row(self, columns: list[str]) -> dict[str, Any]:
        pairs = zip(DEFAULT_RATINGS_COLUMN_NAMES, COLUMN_TYPE_CASTERS, columns, strict=False)
        return {name: cast(value) for name, cast, value in pairs}


def _movielens_info(name: str, archive: str, md5: str, rows: int, about: str) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        task="rating-prediction",
        sizes={"train": rows},
        files=(
            DatasetFile(
                url=f"https://files.grouplens.org/datasets/movielens/{archive}.zip",
                md5=md5,
                extract=".",
                contents=(Content(f"{archive}/ratings.csv"), Content(f"{archive}/movies.csv")),
            ),
        ),
        schema=(
            Field("userId", "int"),
            Field("movieId", "int"),
            Field("rating", "float"),
            Field("timestamp", "int"),
        ),
        license="for research, not commercial, without redistribution; see the README of the data set",
        citation=_MOVIELENS,
        homepage="https://grouplens.org/datasets/movielens/",
        description=about,
    )


_ML20M = _movielens_info(
    "movielens_20m",
    "ml-20m",
    "cd245b17a1ae2cc31bb14903e1204af3",
    20_000_263,
    "Ratings of 27,278 movies by 138,493 users, from 1995 to 2015.",
)
_ML25M = _movielens_info(
    "movielens_25m",
    "ml-25m",
    "6b51fb2759a8657d3bfcbfc42b592ada",
    25_000_095,
    "Ratings of 62,423 movies by 162,541 users, from 1995 to 2019.",
)
_KAGGLE = DatasetInfo(
    name="criteo_kaggle",
    task="click-prediction",
    sizes={"train": 45_840_617, "test": 6_042_135},
    files=(DatasetFile(path="train.txt", splits=("train",)), DatasetFile(path="test.txt", splits=("test",))),
    schema=(
        *(Field(name, "text") for name in reversed(DEFAULT_CAT_NAMES)),
        *(Field(name, "int") for name in reversed(DEFAULT_INT_NAMES)),
        Field(DEFAULT_LABEL_NAME, "int", optional=True),
    ),
    license="CC-BY-NC-SA-4.0",
    citation=_CRITEO,
    homepage="https://ailab.criteo.com/ressources/",
    gated=Gate(
        "manual",
        "https://ailab.criteo.com/ressources/",
        "Accept the terms, fetch the archive, and unpack train.txt and test.txt.",
    ),
    description="Displayed advertisements of a week, and whether they were clicked.",
)


@register_dataset("movielens_20m", info=_ML20M)
class MovieLens20M(_MovieLens):
    """MovieLens 20M by index: userId, movieId (int), rating (0.5 to 5), timestamp (seconds since 1970).

    See `IndexedRows`.
    """

    info = _ML20M


@register_dataset("movielens_25m", info=_ML25M)
class MovieLens25M(_MovieLens):
    """MovieLens 25M by index; see `MovieLens20M`."""

    info = _ML25M


@register_dataset("criteo_kaggle", info=_KAGGLE)
class CriteoKaggle(IndexedRows):
    """The logs of Criteo's Kaggle challenge by index, items as of `criteo_kaggle`; see `IndexedRows`.

    Rows of "test" have None for a label.
    """

    info = _KAGGLE
    delimiter = "\t"
    header = False

    def _file(self, split: str) -> str:
        return f"{split}.txt"

    def _row(self, columns: list[str]) -> dict[str, Any]:
        return {**map_row(columns), **({} if self.split == "train" else {DEFAULT_LABEL_NAME: None})}
