"""Batches, and pipes that read files and split what they give."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.rec.streamable import Pipelineable

__all__ = [
    "PATH_MANAGER_KEY",
    "Batch",
    "Limit",
    "LoadFiles",
    "ParallelReadConcat",
    "ReadLinesFromCSV",
    "idx_split_train_val",
    "rand_split_train_val",
    "safe_cast",
    "train_filter",
    "val_filter",
]

PATH_MANAGER_KEY = "torchrec"
"""Taken by many functions for upstream's sake; files are opened by fsspec, which knows their addresses by itself."""

T = TypeVar("T")


@dataclass
class Batch(Pipelineable):
    """What DLRM and its like are trained by.

    Attributes:
        dense_features: (examples, features), float.
        sparse_features: the sparse features of the examples.
        labels: (examples,), whole numbers.
    """

    dense_features: Tensor
    sparse_features: KeyedJaggedTensor
    labels: Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """The same on another device.

        Args:
            device: where to.
            non_blocking: whether the copy may go on after the call; it does from pinned memory.
        """
        return Batch(
            dense_features=self.dense_features.to(device=device, non_blocking=non_blocking),
            sparse_features=self.sparse_features.to(device=device, non_blocking=non_blocking),
            labels=self.labels.to(device=device, non_blocking=non_blocking),
        )

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep the memory from being used again before `stream` is done with it."""
        self.dense_features.record_stream(stream)
        self.sparse_features.record_stream(stream)
        self.labels.record_stream(stream)

    def pin_memory(self) -> Batch:
        """The same in pinned memory."""
        return Batch(
            dense_features=self.dense_features.pin_memory(),
            sparse_features=self.sparse_features.pin_memory(),
            labels=self.labels.pin_memory(),
        )


def safe_cast(val: T, dest_type: Callable[[T], T], default: T) -> T:
    """A value of another type, or a default where it is none of that.

    Args:
        val: the value.
        dest_type: makes a value of the type, and raises ValueError where it cannot.
        default: given in that case.

    Example:
        >>> safe_cast("", int, 0)
        0
    """
    try:
        return dest_type(val)
    except ValueError:
        return default


@functional_datapipe("limit")
class Limit(IterDataPipe[Any]):
    """The first items of a pipe (functional name: `limit`).

    Args:
        datapipe: the source.
        limit: items at most.
    """

    state_fields = ()

    def __init__(self, datapipe: IterDataPipe[Any], limit: int) -> None:
        self.datapipe = datapipe
        self.limit = limit

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.datapipe):
            if number >= self.limit:
                return
            yield item


@functional_datapipe("load_files")
class LoadFiles(IterDataPipe[tuple[str, IO[Any]]]):
    """Opens files (functional name: `load_files`), local ones and those at any address that fsspec knows.

    Args:
        datapipe: paths or addresses.
        mode: "b" for bytes, "r" for text, or as for `open`.
        length: how many files there are, for `len`; -1 if nobody knows.
        path_manager_key: not used.
        open_kw: arguments of `open`, such as `encoding`.

    Yields:
        Path and open file; it is closed when the next one is asked for.
    """

    state_fields = ()

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "b",
        length: int = -1,
        path_manager_key: str = PATH_MANAGER_KEY,
        **open_kw: Any,
    ) -> None:
        self.datapipe = datapipe
        self.mode = mode if mode in ("r", "w") or "r" in mode or "w" in mode else f"r{mode}"
        self.length = length
        self.open_kw = open_kw

    def __iter__(self) -> Iterator[tuple[str, IO[Any]]]:
        for path in self.datapipe:
            with open_path(path, self.mode, **self.open_kw) as file:
                yield path, file

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError("Nobody said how many files there are; pass length.")
        return self.length


def open_path(path: str, mode: str = "rb", **kwargs: Any) -> Any:
    """Open a local file, or one at an address.

    Args:
        path: of the file, or an address such as `s3://...`.
        mode: as for `open`.
        kwargs: as for `open`.
    """
    if "://" not in str(path):
        return open(path, mode, **kwargs)  # noqa: PTH123 - whoever asked closes it
    import fsspec

    return fsspec.open(path, mode, **kwargs).open()


@functional_datapipe("read_lines_from_csv")
class ReadLinesFromCSV(IterDataPipe[list[str]]):
    """Rows of CSV files (functional name: `read_lines_from_csv`).

    Args:
        datapipe: paths and open text files.
        skip_first_line: leave the first line of each file out.
        kw: as for `csv.reader`, such as `delimiter`.
    """

    state_fields = ()

    def __init__(self, datapipe: IterDataPipe[tuple[str, IO[Any]]], skip_first_line: bool = False, **kw: Any) -> None:
        self.datapipe = datapipe
        self.skip_first_line = skip_first_line
        self.kw = kw

    def __iter__(self) -> Iterator[list[str]]:
        for _, file in self.datapipe:
            rows = csv.reader(file, **self.kw)
            if self.skip_first_line:
                next(rows, None)
            yield from rows


def _default_dp_selector(datapipes: Sequence[IterDataPipe[Any]]) -> Sequence[IterDataPipe[Any]]:
    """Those pipes that the worker of a loader reads; all where there are none."""
    worker = get_worker_info()
    if worker is None:
        return datapipes
    if worker.num_workers > len(datapipes):
        raise OptionError(
            f"There are {worker.num_workers} workers for {len(datapipes)} pipes; set num_workers to "
            f"{len(datapipes)} or less."
        )
    share = math.ceil(len(datapipes) / worker.num_workers)
    return datapipes[worker.id * share : (worker.id + 1) * share]


class ParallelReadConcat(IterDataPipe[Any]):
    """Pipes one after another, divided among the workers of a loader.

    Args:
        datapipes: the pipes.
        dp_selector: gives those that this worker reads.
    """

    state_fields = ()

    def __init__(
        self,
        *datapipes: IterDataPipe[Any],
        dp_selector: Callable[[Sequence[IterDataPipe[Any]]], Sequence[IterDataPipe[Any]]] = _default_dp_selector,
    ) -> None:
        self.datapipes = datapipes
        self.dp_selector = dp_selector

    def __iter__(self) -> Iterator[Any]:
        for datapipe in self.dp_selector(self.datapipes):
            yield from datapipe


def _default_key_fn(idx: int) -> int:
    return idx


def train_filter(key_fn: Callable[[int], int], train_perc: float, decimal_places: int, idx: int) -> bool:
    """Whether an item belongs to the training set, by its number.

    Args:
        key_fn: number of the item -> key; items of one key stay together.
        train_perc: share of the training set.
        decimal_places: of the share that count.
        idx: number of the item.
    """
    scale = int(10**decimal_places)
    return key_fn(idx) % scale < round(train_perc * scale)


def val_filter(key_fn: Callable[[int], int], train_perc: float, decimal_places: int, idx: int) -> bool:
    """Whether an item belongs to the validation set; arguments as of `train_filter`."""
    return not train_filter(key_fn, train_perc, decimal_places, idx)


class _IdxFilter(IterDataPipe[Any]):
    """Items whose number passes a filter."""

    state_fields = ()

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[[int], bool]) -> None:
        self.datapipe = datapipe
        self.filter_fn = filter_fn

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.datapipe):
            if self.filter_fn(number):
                yield item


def idx_split_train_val(
    datapipe: IterDataPipe[Any],
    train_perc: float,
    decimal_places: int = 2,
    key_fn: Callable[[int], int] = _default_key_fn,
) -> tuple[IterDataPipe[Any], IterDataPipe[Any]]:
    """Split a pipe by the numbers of its items.

    Args:
        datapipe: the source.
        train_perc: share of the training set, between 0 and 1.
        decimal_places: of the share that count.
        key_fn: number of the item -> key; items of one key stay together.

    Returns:
        Training set and validation set.

    Raises:
        ValueError: the share is out of range.
    """
    _check_share(train_perc)
    return (
        _IdxFilter(datapipe, partial(train_filter, key_fn, train_perc, decimal_places)),
        _IdxFilter(datapipe, partial(val_filter, key_fn, train_perc, decimal_places)),
    )


class _RandFilter(IterDataPipe[Any]):
    """Items by chance, the same ones whenever it is read."""

    state_fields = ()

    def __init__(self, datapipe: IterDataPipe[Any], train_perc: float, random_seed: int, training: bool) -> None:
        self.datapipe = datapipe
        self.train_perc = train_perc
        self.random_seed = random_seed
        self.training = training

    def __iter__(self) -> Iterator[Any]:
        draw = random.Random(self.random_seed)
        for item in self.datapipe:
            if (draw.random() < self.train_perc) is self.training:
                yield item


def rand_split_train_val(
    datapipe: IterDataPipe[Any], train_perc: float, random_seed: int = 0
) -> tuple[IterDataPipe[Any], IterDataPipe[Any]]:
    """Split a pipe by chance, the same way whenever it is read.

    Args:
        datapipe: the source.
        train_perc: share of the training set, between 0 and 1.
        random_seed: of the chance.

    Returns:
        Training set and validation set.

    Raises:
        ValueError: the share is out of range.
    """
    _check_share(train_perc)
    return (
        _RandFilter(datapipe, train_perc, random_seed, training=True),
        _RandFilter(datapipe, train_perc, random_seed, training=False),
    )


def _check_share(train_perc: float) -> None:
    if not 0.0 < train_perc < 1.0:
        raise OptionError(f"train_perc is {train_perc}; expected a share between 0.0 and 1.0, both left out.")
