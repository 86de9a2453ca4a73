"""Pipes that repeat, count or number samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("cycle")
class CyclerIterDataPipe(IterDataPipe[T_co]):
    """Reads its source again and again (functional name: `cycle`).

    Args:
        source_datapipe: source; its random pipes go on with new seeds each time.
        count: how many times; without end when None.
    """

    state_fields = ("_done", "_some")

    def __init__(self, source_datapipe: IterDataPipe[T_co], count: int | None = None) -> None:
        if count is not None and count < 0:
            raise ValueError(f"count has to be >= 0, or None for no end; got {count}.")
        self.source_datapipe = source_datapipe
        self.count = count

    def reset(self) -> None:
        """Go back to the beginning."""
        self._done = 0
        self._some = False

    def __iter__(self) -> Iterator[T_co]:
        while self.count is None or self._done < self.count:
            for sample in self.source_datapipe:
                self._some = True
                yield sample
            if not self._some and self.count is None:
                return  # nothing to repeat: without this the loop would never come back
            self._done += 1

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError("a cycle without a count has no length.")
        return self.count * len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("repeat")
class RepeaterIterDataPipe(Expanding[T_co]):
    """Yields each sample several times in a row (functional name: `repeat`).

    Args:
        source_datapipe: source.
        times: how often, > 1.
    """

    def __init__(self, source_datapipe: IterDataPipe[T_co], times: int) -> None:
        if times <= 1:
            raise ValueError(f"times has to be > 1, got {times}.")
        self.source_datapipe: IterDataPipe[T_co] = source_datapipe
        self.times = times

    def _expand(self, item: Any) -> Iterable[T_co]:
        return itertools.repeat(item, self.times)

    def __len__(self) -> int:
        return self.times * len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("enumerate")
class EnumeratorIterDataPipe(IterDataPipe[tuple[int, Any]]):
    """Tuples of number and sample (functional name: `enumerate`).

    Args:
        source_datapipe: source.
        starting_index: number of the first sample.
    """

    state_fields = ("_number",)

    def __init__(self, source_datapipe: IterDataPipe[Any], starting_index: int = 0) -> None:
        self.source_datapipe = source_datapipe
        self.starting_index = starting_index

    def reset(self) -> None:
        """Go back to the beginning."""
        self._number = self.starting_index

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for sample in self.source_datapipe:
            self._number += 1
            yield self._number - 1, sample

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("add_index")
class IndexAdderIterDataPipe(IterDataPipe[dict[Any, Any]]):
    """Puts a running number into samples that are dicts (functional name: `add_index`).

    Args:
        source_datapipe: source of dicts; they are copied.
        index_name: key of the number, which counts from 0.
    """

    state_fields = ("_number",)

    def __init__(self, source_datapipe: IterDataPipe[dict[Any, Any]], index_name: str = "index") -> None:
        self.source_datapipe = source_datapipe
        self.index_name = index_name

    def reset(self) -> None:
        """Go back to the beginning."""
        self._number = 0

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        for sample in self.source_datapipe:
            if not isinstance(sample, dict):
                raise TypeError(
                    f"add_index numbers dicts, got {type(sample).__name__}; `enumerate` numbers any sample."
                )
            self._number += 1
            yield {**sample, self.index_name: self._number - 1}

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


@functional_datapipe("set_length")
class LengthSetterIterDataPipe(IterDataPipe[T_co]):
    """Gives a pipe a length (functional name: `set_length`); the samples are what they were.

    Args:
        source_datapipe: source.
        length: what `len()` says, >= 0.
    """

    state_fields = ()

    def __init__(self, source_datapipe: IterDataPipe[T_co], length: int) -> None:
        if length < 0:
            raise ValueError(f"length has to be >= 0, got {length}.")
        self.source_datapipe = source_datapipe
        self.length = length

    def __iter__(self) -> Iterator[T_co]:
        yield from self.source_datapipe

    def __len__(self) -> int:
        return self.length
