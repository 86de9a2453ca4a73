"""Batches of entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk[Any]]):
    """Lists of consecutive entries (functional name: `batch`).

    Args:
        datapipe: source with a length, under the indices 0 to length - 1.
        batch_size: entries of a batch, > 0.
        drop_last: leave out a last batch that is smaller.
        wrapper_class: called with each list.
    """

    def __init__(
        self,
        datapipe: MapDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[..., Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size has to be > 0, got {batch_size}.")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> DataChunk[Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} is not among the {len(self)} batches.")
        start = index * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))  # type: ignore[arg-type]
        return self.wrapper_class([self.datapipe[number] for number in range(start, stop)])

    def __len__(self) -> int:
        length = len(self.datapipe)  # type: ignore[arg-type]
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
