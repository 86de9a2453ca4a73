"""Nodes at the beginning: iterables, samplers, map-style data sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from torch.utils.data import Sampler

from flambeau.data._cursor import SamplerCursor
from flambeau.data._stateful import Stateful
from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.map import Mapper

K = TypeVar("K")


class IterableWrapper(BaseNode[T]):
    """The items of an iterable.

    The state is that of the iterator, or of the iterable, where one of them is `Stateful`. Where neither is, a reset to
    a state reads as many items as had been given and drops them: the iterable must then give the same items again.

    Args:
        iterable: what `iter` takes; asked anew for each pass.
    """

    def __init__(self, iterable: Iterable[T]) -> None:
        super().__init__()
        self.iterable = iterable
        self._iterator: Iterator[T] = iter(())
        self._stateful_iterator = self._stateful_iterable = False
        self._num_yielded = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._num_yielded = 0
        if initial_state is None:
            self._open()
            return
        if initial_state["iterable"] is not None and isinstance(self.iterable, Stateful):
            self.iterable.load_state_dict(initial_state["iterable"])
        self._open()
        if initial_state["iterator"] is not None and isinstance(self._iterator, Stateful):
            self._iterator.load_state_dict(initial_state["iterator"])
        elif initial_state["iterable"] is None and (count := initial_state["num_yielded"]) > 0:
            next(itertools.islice(self._iterator, count - 1, count), None)
        self._num_yielded = initial_state["num_yielded"]

    def _open(self) -> None:
        self._iterator = iter(self.iterable)
        # Asked for once a pass, not once an item: a protocol's isinstance is slow.
        self._stateful_iterator = isinstance(self._iterator, Stateful) and self._iterator is not self.iterable
        self._stateful_iterable = not self._stateful_iterator and isinstance(self.iterable, Stateful)

    def next(self) -> T:
        """As `BaseNode.next`."""
        item = next(self._iterator)
        self._num_yielded += 1
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        iterator = self._iterator.state_dict() if self._stateful_iterator else None  # type: ignore[attr-defined]
        iterable = self.iterable.state_dict() if self._stateful_iterable else None  # type: ignore[attr-defined]
        return {"num_yielded": self._num_yielded, "iterable": iterable, "iterator": iterator}


class SamplerWrapper(BaseNode[T]):
    """The indices of a sampler, with an epoch that grows with each pass.

    The order of torch's random samplers is part of the state, with and without a generator of theirs.

    Args:
        sampler: any iterable of indices; `set_epoch(epoch)` is called before each pass where it exists.
        initial_epoch: the first pass's epoch.
        epoch_updater: epoch -> next epoch; None adds one.
    """

    def __init__(
        self, sampler: Sampler[T], initial_epoch: int = 0, epoch_updater: Callable[[int], int] | None = None
    ) -> None:
        super().__init__()
        self.sampler = sampler
        self.epoch = initial_epoch
        self._epoch_updater = epoch_updater or _one_more
        self._cursor = SamplerCursor(sampler)
        self._started = False

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        if initial_state is not None:
            self.epoch, self._started = initial_state["epoch"], initial_state["started"]
            self._set_epoch()
            self._cursor.load(initial_state["cursor"])
            return
        if self._started:
            self.epoch = self._epoch_updater(self.epoch)
        self._started = False
        self._set_epoch()
        self._cursor.begin()

    def next(self) -> T:
        """As `BaseNode.next`."""
        self._started = True
        index: T = next(self._cursor)
        return index

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {"epoch": self.epoch, "started": self._started, "cursor": self._cursor.state()}

    def _set_epoch(self) -> None:
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(self.epoch)


def MapStyleWrapper(map_dataset: Mapping[K, T], sampler: Sampler[K]) -> BaseNode[T]:
    """The items `map_dataset[index]` for each index of a sampler."""
    return Mapper(SamplerWrapper(sampler), map_dataset.__getitem__)


def _one_more(epoch: int) -> int:
    return epoch + 1
