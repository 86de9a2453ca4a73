"""Batches, and items out of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T


class Batcher(BaseNode[list[T]]):
    """Lists of `batch_size` items.

    Args:
        source: node of items.
        batch_size: items in a list, > 0.
        drop_last: whether a shorter list at the end is left out.
    """

    def __init__(self, source: BaseNode[T], batch_size: int, drop_last: bool = True) -> None:
        super().__init__()
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1.")
        self.source = source
        self.batch_size = batch_size
        self.drop_last = drop_last

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self.source.reset(None if initial_state is None else initial_state["source"])

    def next(self) -> list[T]:
        """As `BaseNode.next`."""
        source = self.source
        batch: list[T] = []
        for _ in range(self.batch_size):
            try:
                batch.append(next(source))
            except StopIteration:
                break
        if len(batch) == self.batch_size or (batch and not self.drop_last):
            return batch
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {"source": self.source.state_dict()}


class Unbatcher(BaseNode[T]):
    """The items of batches, one by one.

    Args:
        source: node of sequences. Inside a batch the state is the source's state before it and the place in it.
    """

    def __init__(self, source: BaseNode[Sequence[T]]) -> None:
        super().__init__()
        self.source = source
        self._batch: Sequence[T] = ()
        self._place = 0
        self._before: dict[str, Any] | None = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._batch, self._place = (), 0
        self.source.reset(None if initial_state is None else initial_state["source"])
        self._before = self.source.state_dict()
        if initial_state is not None and initial_state["place"] > 0:
            self._batch = next(self.source, ())
            self._place = initial_state["place"]

    def next(self) -> T:
        """As `BaseNode.next`."""
        while self._place >= len(self._batch):
            self._before = self.source.state_dict()
            self._batch, self._place = next(self.source), 0
        self._place += 1
        return self._batch[self._place - 1]

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {"source": self._before, "place": self._place}
