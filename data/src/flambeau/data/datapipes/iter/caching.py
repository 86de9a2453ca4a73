"""Pipes that keep samples in memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)
_MEGABYTE = 1 << 20


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolderIterDataPipe(IterDataPipe[T_co]):
    """Reads its source once and gives the same samples again in later passes (functional name: `in_memory_cache`).

    Args:
        source_dp: source.
        size: megabytes to keep at most; samples beyond it are read from the source in every pass. None for no limit.

    Note:
        The cache is not part of the state: after a resume it is filled again from the source.
    """

    transient = ("_cache",)

    def __init__(self, source_dp: IterDataPipe[T_co], size: int | None = None) -> None:
        if size is not None and size < 0:
            raise ValueError(f"size has to be >= 0 megabytes, or None for no limit; got {size}.")
        self.source_dp = source_dp
        self.size = None if size is None else size * _MEGABYTE
        self._cache: list[Any] | None = None
        self._whole = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache, self._whole = None, False

    def __iter__(self) -> Iterator[T_co]:
        if self._cache is None:
            yield from self._filling()
            return
        cache = self._cache
        yield from cache
        if not self._whole:
            for number, sample in enumerate(self.source_dp):
                if number >= len(cache):
                    yield sample

    def _filling(self) -> Iterator[T_co]:
        cache: list[Any] = []
        used, room = 0, True
        for sample in self.source_dp:
            if room and self.size is not None:
                used += size_in_memory(sample)
                room = used <= self.size
            if room:
                cache.append(sample)
            yield sample
        self._cache, self._whole = cache, room

    def __len__(self) -> int:
        if self._cache is not None and self._whole:
            return len(self._cache)
        return len(self.source_dp)  # type: ignore[arg-type]


def size_in_memory(sample: Any, _depth: int = 0) -> int:
    """About how many bytes a sample takes, with what its containers hold."""
    if hasattr(sample, "nbytes"):
        return int(sample.nbytes)
    size = sys.getsizeof(sample)
    if _depth < 10:
        if isinstance(sample, Mapping):
            size += sum(size_in_memory(k, _depth + 1) + size_in_memory(v, _depth + 1) for k, v in sample.items())
        elif isinstance(sample, (list, tuple, set, frozenset)):
            size += sum(size_in_memory(item, _depth + 1) for item in sample)
    return size


@functional_datapipe("memory_cell")
class MemoryCellIterDataPipe(IterDataPipe[T_co]):
    """Remembers the last samples that passed (functional name: `memory_cell`).

    Args:
        source_datapipe: source.
        remember_elements: how many.
    """

    state_fields = ("_passed",)
    transient = ("_last",)

    def __init__(self, source_datapipe: IterDataPipe[T_co], remember_elements: int = 1000) -> None:
        self.source_datapipe = source_datapipe
        self.remember_elements = remember_elements

    def reset(self) -> None:
        """Go back to the beginning."""
        self._passed = 0
        self._last: deque[tuple[int, Any]] = deque(maxlen=self.remember_elements)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting; what passed before is not remembered."""
        self.reset()
        super().set_state(state)

    def __iter__(self) -> Iterator[T_co]:
        for sample in self.source_datapipe:
            self._passed += 1
            self._last.append((self._passed - 1, sample))
            yield sample

    def get_last(self) -> tuple[int, Any]:
        """Number and value of the sample that passed last.

        Raises:
            IndexError: none has passed.
        """
        return self._last[-1]

    def get_all(self) -> list[tuple[int, Any]]:
        """Numbers and values of the samples that are remembered, oldest first."""
        return list(self._last)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]
