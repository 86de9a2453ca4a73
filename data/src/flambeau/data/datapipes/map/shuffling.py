"""Reading the entries in random order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, TypeVar

from flambeau.data.datapipes._seeded import Seeded
from flambeau.data.datapipes.datapipe import MapDataPipe

T_co = TypeVar("T_co", covariant=True)


class ShufflerIterDataPipe(Seeded[T_co]):
    """Reads a pipe of keys in random order (functional name: `shuffle`); the result is an iterable pipe.

    Its state is the seed and the position, whatever the length.

    Args:
        datapipe: source.
        indices: the keys to read; `range(len(datapipe))` when None.
    """

    state_fields = ("_seed", "_pass_seed", "_chained", "_position")

    def __init__(self, datapipe: MapDataPipe[T_co], *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = indices
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn shuffling on or off; returns the pipe itself."""
        self._enabled = shuffle
        return self

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0
        if self._enabled:
            super().reset()

    def __iter__(self) -> Iterator[T_co]:
        keys: Any = range(len(self.datapipe)) if self.indices is None else self.indices  # type: ignore[arg-type]
        if self._enabled:
            self._rng.seed(self._pass_seed)
            keys = self._rng.sample(keys, len(keys))[::-1]  # upstream takes them from the end
        for position in range(self._position, len(keys)):
            self._position = position + 1
            yield self.datapipe[keys[position]]

    def __len__(self) -> int:
        return len(self.datapipe) if self.indices is None else len(self.indices)  # type: ignore[arg-type]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
