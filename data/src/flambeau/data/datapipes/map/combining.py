"""Several pipes of keys as one, and one as several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import Column, kept_columns
from flambeau.data.datapipes.datapipe import MapDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


def _checked(name: str, datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes:
        raise ValueError(f"{name} needs at least one pipe.")
    wrong = [type(pipe).__name__ for pipe in datapipes if not isinstance(pipe, MapDataPipe)]
    if wrong:
        raise TypeError(f"{name} takes map pipes only, got {', '.join(wrong)}; wrap data with SequenceWrapper.")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[T_co]):
    """Pipes one after the other under indices that go on counting (functional name: `concat`).

    Args:
        *datapipes: with a length each, under the indices 0 to length - 1.
    """

    def __init__(self, *datapipes: MapDataPipe[T_co]) -> None:
        self.datapipes = _checked("concat", datapipes)

    def __getitem__(self, index: int) -> T_co:
        offset = index
        for pipe in self.datapipes:
            length = len(pipe)
            if 0 <= offset < length:
                return pipe[offset]
            offset -= length
        raise IndexError(f"index {index} is not among the {len(self)} entries.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of the pipes' entries under the same key (functional name: `zip`).

    Args:
        *datapipes: at least one.
    """

    def __init__(self, *datapipes: MapDataPipe[T_co]) -> None:
        self.datapipes = _checked("zip", datapipes)

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        entries = []
        for pipe in self.datapipes:
            try:
                entries.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"index {index!r} is not in {pipe!r}, one of the {len(self.datapipes)} pipes."
                ) from error
        return tuple(entries)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("unzip")
class UnZipperMapDataPipe(MapDataPipe[Any]):
    """One pipe for each column of entries (functional name: `unzip`). Calling it gives the list of them.

    Args:
        source_datapipe: source of sequences.
        sequence_length: length of each entry, >= 1.
        columns_to_skip: columns without a pipe.
    """

    def __new__(  # type: ignore[misc]  # upstream: calling the class gives the pipes
        cls,
        source_datapipe: MapDataPipe[Sequence[Any]],
        sequence_length: int,
        columns_to_skip: Sequence[int] | None = None,
    ) -> list[MapDataPipe[Any]]:
        """Build the pipes that the class stands for."""
        return [source_datapipe.map(Column(number)) for number in kept_columns(sequence_length, columns_to_skip)]

    def __init__(
        self,
        source_datapipe: MapDataPipe[Sequence[Any]],
        sequence_length: int,
        columns_to_skip: Sequence[int] | None = None,
    ) -> None:
        """Never called: `__new__` gives a list."""
