"""Calling a function on entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import check_function
from flambeau.data.datapipes.datapipe import MapDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


def default_fn(data: Any) -> Any:
    """The entry itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[T_co]):
    """Applies a function to every entry that is asked for (functional name: `map`).

    Args:
        datapipe: source.
        fn: from an entry to the new one.
    """

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[..., Any] = default_fn) -> None:
        check_function(fn)
        self.datapipe = datapipe
        self.fn = fn

    def __getitem__(self, index: Any) -> T_co:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]
