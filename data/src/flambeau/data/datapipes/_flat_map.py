"""Base of the pipes that make several samples of one: archives, files of lines, nested lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from flambeau.data.datapipes.datapipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)


class Expanding(IterDataPipe[T_co]):
    """Subclasses set `source_datapipe` and define `_expand`, which gives the same samples for the same item.

    The state is the item at work and how many samples were made of it.
    """

    state_fields = ("_item", "_within", "_offset")
    source_datapipe: Iterable[Any]

    def reset(self) -> None:
        self._item: Any = None
        self._within = False
        self._offset = 0

    def _expand(self, item: Any) -> Iterable[T_co]:
        raise NotImplementedError(f"{type(self).__qualname__} has to define _expand.")

    def __iter__(self) -> Iterator[T_co]:
        for made in self._expanded():
            for sample in made:
                self._offset += 1
                yield sample
            self._within, self._item = False, None

    def _expanded(self) -> Iterator[Iterable[T_co]]:
        if self._within:
            yield itertools.islice(self._expand(self._item), self._offset, None)
        for item in self.source_datapipe:
            self._item, self._within, self._offset = item, True, 0
            yield self._expand(item)
