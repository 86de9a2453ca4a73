"""Pipes over data frames: rows, single-row frames, larger frames, shuffled and filtered rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes._seeded import Seeded
from flambeau.data.datapipes.dataframe.frames import concat_frames, create_frame, is_frame, row_tuples, take_rows
from flambeau.data.datapipes.datapipe import DFIterDataPipe, IterDataPipe, functional_datapipe


@functional_datapipe("_dataframes_as_tuples")
class DataFramesAsTuplesPipe(Expanding[tuple[Any, ...]]):
    """The rows of frames, as tuples (functional name: `_dataframes_as_tuples`).

    Args:
        source_datapipe: source of frames.
    """

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe: IterDataPipe[Any] = source_datapipe

    def _expand(self, item: Any) -> Iterator[tuple[Any, ...]]:
        return row_tuples(item)


@functional_datapipe("_dataframes_per_row", enable_df_api_tracing=True)
class PerRowDataFramesPipe(Expanding[Any], DFIterDataPipe[Any]):
    """Frames of one row each (functional name: `_dataframes_per_row`).

    Args:
        source_datapipe: source of frames.
    """

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe: IterDataPipe[Any] = source_datapipe

    def _expand(self, item: Any) -> Iterator[Any]:
        return (take_rows(item, [number]) for number in range(len(item)))


@functional_datapipe("_dataframes_concat", enable_df_api_tracing=True)
class ConcatDataFramesPipe(DFIterDataPipe[Any]):
    """Several frames as one (functional name: `_dataframes_concat`).

    Args:
        source_datapipe: source of frames with the same columns.
        batch: how many become one; the last ones may be fewer.
    """

    state_fields = ("_frames",)

    def __init__(self, source_datapipe: IterDataPipe[Any], batch: int = 3) -> None:
        self.source_datapipe = source_datapipe
        self.n_batch = batch

    def reset(self) -> None:
        """Go back to the beginning."""
        self._frames: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for frame in self.source_datapipe:
            self._frames.append(frame)
            if len(self._frames) == self.n_batch:
                whole, self._frames = self._frames, []
                yield concat_frames(whole)
        if self._frames:
            whole, self._frames = self._frames, []
            yield concat_frames(whole)


def _regrouped(frames: list[Any], rows: list[tuple[int, int]], sizes: list[int]) -> Iterator[Any]:
    """Frames of given sizes out of rows, which are named by frame and number."""
    start = 0
    for size in sizes:
        chosen = rows[start : start + size]
        start += size
        if chosen:
            yield concat_frames([take_rows(frames[frame], [number]) for frame, number in chosen])


@functional_datapipe("_dataframes_shuffle", enable_df_api_tracing=True)
class ShuffleDataFramesPipe(Seeded[Any], DFIterDataPipe[Any]):
    """The rows of all frames in random order, in frames of the old sizes (functional name: `_dataframes_shuffle`).

    All frames are held in memory. The state is the seed and how many frames were given out.

    Args:
        source_datapipe: source of frames with the same columns.
    """

    state_fields = None

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        frames = [_checked(frame) for frame in self.source_datapipe]
        rows = [(number, row) for number, frame in enumerate(frames) for row in range(len(frame))]
        random.Random.shuffle(self._rng, rows)
        yield from _regrouped(frames, rows, [len(frame) for frame in frames])


@functional_datapipe("_dataframes_filter", enable_df_api_tracing=True)
class FilterDataFramesPipe(DFIterDataPipe[Any]):
    """The rows for which a function says True, in frames of the old size (functional name: `_dataframes_filter`).

    Args:
        source_datapipe: source of frames with the same columns.
        filter_fn: from a row, as a tuple, to a bool.
    """

    state_fields = ("_kept", "_size")

    def __init__(self, source_datapipe: IterDataPipe[Any], filter_fn: Callable[[Any], bool]) -> None:
        check_function(filter_fn)
        self.source_datapipe = source_datapipe
        self.filter_fn = filter_fn

    def reset(self) -> None:
        """Go back to the beginning."""
        self._kept: list[Any] = []
        self._size = 0

    def __iter__(self) -> Iterator[Any]:
        while self._size and len(self._kept) >= self._size:
            yield self._full()
        for frame in self.source_datapipe:
            self._size = self._size or len(_checked(frame))
            for number, row in enumerate(row_tuples(frame)):
                if self.filter_fn(row):
                    self._kept.append(take_rows(frame, [number]))
            while self._size and len(self._kept) >= self._size:
                yield self._full()
        if self._kept:
            yield self._full()

    def _full(self) -> Any:
        whole, self._kept = self._kept[: self._size], self._kept[self._size :]
        return concat_frames(whole)


@functional_datapipe("_to_dataframes_pipe", enable_df_api_tracing=True)
class ExampleAggregateAsDataFrames(DFIterDataPipe[Any]):
    """Frames out of rows (functional name: `_to_dataframes_pipe`).

    Args:
        source_datapipe: source of rows; a sample that is no sequence is a row of one value.
        dataframe_size: rows of a frame; the last one may have fewer.
        columns: names of the columns.
    """

    state_fields = ("_rows",)

    def __init__(
        self, source_datapipe: IterDataPipe[Any], dataframe_size: int = 10, columns: list[str] | None = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.dataframe_size = dataframe_size
        self.columns = columns

    def reset(self) -> None:
        """Go back to the beginning."""
        self._rows: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for sample in self.source_datapipe:
            self._rows.append(list(sample) if isinstance(sample, (list, tuple)) else [sample])
            if len(self._rows) == self.dataframe_size:
                rows, self._rows = self._rows, []
                yield create_frame(rows, self.columns)
        if self._rows:
            rows, self._rows = self._rows, []
            yield create_frame(rows, self.columns)


def _checked(frame: Any) -> Any:
    if not is_frame(frame):
        raise TypeError(f"expected a data frame, got {type(frame).__name__}.")
    return frame
