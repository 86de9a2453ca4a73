"""Criteo's display advertising logs: the Terabyte set of 24 days, and the smaller one of the Kaggle challenge.

A line is a label, 13 whole numbers and 26 categories in hexadecimal, separated by tabs; what is missing is empty.

References:
    https://ailab.criteo.com/criteo-1tb-click-logs-dataset/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset

from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.rec.datasets._criteo_arrays import BinaryCriteoUtils
from flambeau.rec.datasets._criteo_columns import (
    CAT_FEATURE_COUNT,
    COLUMN_TYPE_CASTERS,
    DAYS,
    DEFAULT_CAT_NAMES,
    DEFAULT_COLUMN_NAMES,
    DEFAULT_INT_NAMES,
    DEFAULT_LABEL_NAME,
    FREQUENCY_THRESHOLD,
    INT_FEATURE_COUNT,
    TOTAL_TRAINING_SAMPLES,
    map_row,
)
from flambeau.rec.datasets.utils import PATH_MANAGER_KEY, Batch, LoadFiles, ReadLinesFromCSV
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = [
    "CAT_FEATURE_COUNT",
    "COLUMN_TYPE_CASTERS",
    "DAYS",
    "DEFAULT_CAT_NAMES",
    "DEFAULT_COLUMN_NAMES",
    "DEFAULT_INT_NAMES",
    "DEFAULT_LABEL_NAME",
    "FREQUENCY_THRESHOLD",
    "INT_FEATURE_COUNT",
    "PATH_MANAGER_KEY",
    "TOTAL_TRAINING_SAMPLES",
    "BinaryCriteoUtils",
    "CriteoIterDataPipe",
    "InMemoryBinaryCriteoIterDataPipe",
    "criteo_kaggle",
    "criteo_terabyte",
]

_STAGES = ("train", "val", "test")


class CriteoIterDataPipe(IterDataPipe[Any]):
    """Rows of Criteo's files; the workers of a loader share the files.

    Args:
        paths: of the files, or their addresses.
        row_mapper: called with each row, a list of strings; None gives those.
        open_kw: as for `open`.
    """

    state_fields = ()

    def __init__(
        self,
        paths: Iterable[str],
        *,
        row_mapper: Callable[[list[str]], Any] | None = map_row,
        **open_kw: Any,
    ) -> None:
        self.paths = list(paths)
        self.row_mapper = row_mapper
        self.open_kw = open_kw

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        paths = self.paths if worker is None else self.paths[worker.id :: worker.num_workers]
        files = LoadFiles(paths, mode="r", **self.open_kw)
        rows: Iterable[list[str]] = ReadLinesFromCSV(files, delimiter="\t")
        yield from rows if self.row_mapper is None else map(self.row_mapper, rows)


def criteo_terabyte(
    paths: Iterable[str], *, row_mapper: Callable[[list[str]], Any] | None = map_row, **open_kw: Any
) -> IterDataPipe[Any]:
    """The Terabyte set: 4,373,472,329 rows in 24 files, day_0 to day_23.

    Items are dictionaries: label (int, 0 or 1), int_0 to int_12 (int, 0 where missing) and cat_0 to cat_25 (str, ""
    where
    missing).

    Args:
        paths: of the files, or their addresses.
        row_mapper: called with each row, a list of strings; None gives those.
        open_kw: as for `open`.
    """
    return CriteoIterDataPipe(paths, row_mapper=row_mapper, **open_kw)


def criteo_kaggle(
    path: str, *, row_mapper: Callable[[list[str]], Any] | None = map_row, **open_kw: Any
) -> IterDataPipe[Any]:
    """The set of the Kaggle challenge: train.txt with 45,840,617 rows, test.txt with 6,042,135 rows and no labels.

    Args:
        path: of the file, or its address.
        row_mapper: called with each row, a list of strings; None gives those.
        open_kw: as for `open`.
    """
    return CriteoIterDataPipe((path,), row_mapper=row_mapper, **open_kw)


class InMemoryBinaryCriteoIterDataPipe(IterableDataset[Batch]):
    """Batches of Criteo's rows as arrays, all of which a rank keeps in memory, or in the system's cache.

    Ranks take turns batch by batch. The rows that are left are shared evenly, so that all ranks have as many batches;
    if
    there are fewer of them than ranks, they go to the last full batch.

    Args:
        stage: "train" for all rows; "val" for the first half of the first file's, "test" for its second half.
        dense_paths: of arrays of float32, (rows, 13).
        sparse_paths: of arrays of int32 or int64, (rows, 26).
        labels_paths: of arrays of int32, (rows, 1).
        batch_size: examples of a batch on each rank.
        rank: of this process.
        world_size: how many ranks take part.
        drop_last: leave out the rows that fill no batch.
        shuffle_batches: shuffle the rows within each batch.
        shuffle_training_set: shuffle all rows, of "train".
        shuffle_training_set_random_seed: of that order; all ranks need the same.
        mmap_mode: map the files into memory instead of reading them.
        hashes: take the remainders of the categories by these numbers, one for each of them.
        path_manager_key: not used.

    Raises:
        ValueError: the files do not fit together, there are not 26 hashes, or no such stage.
    """

    dense_arrs: list[NDArray[Any]]
    sparse_arrs: list[NDArray[Any]]
    labels_arrs: list[NDArray[Any]]

    def __init__(
        self,
        stage: str,
        dense_paths: list[str],
        sparse_paths: list[str],
        labels_paths: list[str],
        batch_size: int,
        rank: int,
        world_size: int,
        drop_last: bool | None = False,
        shuffle_batches: bool = False,
        shuffle_training_set: bool = False,
        shuffle_training_set_random_seed: int = 0,
        mmap_mode: bool = False,
        hashes: list[int] | None = None,
        path_manager_key: str = PATH_MANAGER_KEY,
    ) -> None:
        super().__init__()
        if stage not in _STAGES:
            raise OptionError(f"stage is {stage!r}; expected one of {', '.join(_STAGES)}.")
        if hashes is not None and len(hashes) != CAT_FEATURE_COUNT:
            raise OptionError(f"hashes has {len(hashes)} numbers; expected {CAT_FEATURE_COUNT}, one for each category.")
        self.stage = stage
        self.dense_paths, self.sparse_paths, self.labels_paths = dense_paths, sparse_paths, labels_paths
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        self.shuffle_batches = shuffle_batches
        self.shuffle_training_set = shuffle_training_set
        self.mmap_mode = mmap_mode
        self.hashes = None if hashes is None else np.array(hashes).reshape(1, CAT_FEATURE_COUNT)
        self._load()
        if shuffle_training_set and stage == "train":
            self._shuffle(shuffle_training_set_random_seed)
        if self.hashes is not None and not mmap_mode:
            self.sparse_arrs = [rows % self.hashes for rows in self.sparse_arrs]
        self.num_rows_per_file = [len(rows) for rows in self.dense_arrs]
        self._split()
        self.keys = DEFAULT_CAT_NAMES
        self.index_per_key = {key: at for at, key in enumerate(self.keys)}

    def _load(self) -> None:
        mode: Literal["r"] | None = "r" if self.mmap_mode else None
        arrays = [
            [np.load(path, mmap_mode=mode) for path in paths]
            for paths in (self.dense_paths, self.sparse_paths, self.labels_paths)
        ]
        self.dense_arrs, self.sparse_arrs, self.labels_arrs = arrays
        sizes = [[len(rows) for rows in files] for files in arrays]
        if not sizes[0] == sizes[1] == sizes[2]:
            raise OptionError(
                f"The files have {sizes[0]} dense rows, {sizes[1]} sparse rows and {sizes[2]} labels; they must "
                f"be as many."
            )
        if self.stage != "train" and sizes[0]:
            half = -(-sizes[0][0] // 2)
            kept = slice(0, half) if self.stage == "val" else slice(half, None)
            for files in arrays:
                files[0] = files[0][kept]

    def _shuffle(self, seed: int) -> None:
        """Put all rows into one random order, which is the same on all ranks."""
        places = np.random.RandomState(seed).permutation(sum(len(rows) for rows in self.dense_arrs))
        order = np.argsort(places)
        self.dense_arrs = [np.concatenate(self.dense_arrs)[order]]
        self.sparse_arrs = [np.concatenate(self.sparse_arrs)[order]]
        self.labels_arrs = [np.concatenate(self.labels_arrs)[order]]

    def _split(self) -> None:
        rows, together = sum(self.num_rows_per_file), self.batch_size * self.world_size
        self.num_full_batches, rest = divmod(rows, together)
        if not self.drop_last and 0 < rest < self.world_size and self.num_full_batches:
            self.num_full_batches -= 1
            rest += together
        sizes = np.full(self.world_size, rest // self.world_size)
        sizes[: rest % self.world_size] += 1
        self.last_batch_sizes = np.zeros_like(sizes) if self.drop_last else sizes

    def _slices(self) -> Iterator[tuple[int, int]]:
        """First row and the one behind the last of each batch of this rank."""
        if self.shuffle_training_set and self.stage == "train":
            # Upstream: of shuffled rows each rank has its own ones, one after another.
            full = self.num_full_batches * self.batch_size
            first = self.rank * full + int(self.last_batch_sizes[: self.rank].sum())
            sizes = [self.batch_size] * self.num_full_batches + [int(self.last_batch_sizes[self.rank])]
            for size in filter(None, sizes):
                yield first, first + size
                first += size
            return
        together = self.batch_size * self.world_size
        for number in range(self.num_full_batches):
            first = number * together + self.rank * self.batch_size
            yield first, first + self.batch_size
        if size := int(self.last_batch_sizes[self.rank]):
            first = self.num_full_batches * together + int(self.last_batch_sizes[: self.rank].sum())
            yield first, first + size

    def _rows(self, arrays: list[NDArray[Any]], first: int, behind: int) -> NDArray[Any]:
        """Rows by their numbers in all files together, without a copy where they lie in one."""
        parts, start = [], 0
        for rows, size in zip(arrays, self.num_rows_per_file, strict=True):
            if first < start + size and start < behind:
                parts.append(rows[max(first - start, 0) : behind - start])
            start += size
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _batch(self, dense: NDArray[Any], sparse: NDArray[Any], labels: NDArray[Any]) -> Batch:
        if self.shuffle_batches:
            order = np.random.permutation(len(dense))
            dense, sparse, labels = dense[order], sparse[order], labels[order]
        if self.hashes is not None and self.mmap_mode:
            sparse = sparse % self.hashes
        examples = len(dense)
        ids = examples * CAT_FEATURE_COUNT
        features = KeyedJaggedTensor(
            keys=self.keys,
            values=torch.from_numpy(np.ascontiguousarray(sparse.T).reshape(-1)),
            lengths=torch.ones(ids, dtype=torch.int32),
            offsets=torch.arange(ids + 1, dtype=torch.int32),
            stride=examples,
            length_per_key=[examples] * CAT_FEATURE_COUNT,
            offset_per_key=[examples * at for at in range(CAT_FEATURE_COUNT + 1)],
            index_per_key=self.index_per_key,
        )
        # Batches may be changed in place by whoever gets them; the arrays stay as they are.
        return Batch(torch.tensor(dense), features, torch.tensor(labels.reshape(-1)))

    def __iter__(self) -> Iterator[Batch]:
        for first, behind in self._slices():
            arrays = (self.dense_arrs, self.sparse_arrs, self.labels_arrs)
            yield self._batch(*(self._rows(files, first, behind) for files in arrays))

    def __len__(self) -> int:
        return self.num_full_batches + int(self.last_batch_sizes[0] > 0)
