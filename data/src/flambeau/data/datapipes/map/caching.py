"""Keeping entries in memory."""

from __future__ import annotations

from typing import Any, TypeVar

from flambeau.data.datapipes.datapipe import MapDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolderMapDataPipe(MapDataPipe[T_co]):
    """Asks its source for every entry once (functional name: `in_memory_cache`). Copies in other processes begin empty.

    Args:
        source_dp: source.
    """

    def __init__(self, source_dp: MapDataPipe[T_co]) -> None:
        self.source_dp = source_dp
        self._cache: dict[Any, Any] = {}

    def _configuration(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}

    def __getitem__(self, index: Any) -> T_co:
        if index not in self._cache:
            self._cache[index] = self.source_dp[index]
        return self._cache[index]

    def __len__(self) -> int:
        return len(self.source_dp)  # type: ignore[arg-type]
