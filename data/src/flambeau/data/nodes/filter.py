"""Some of the items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T


class Filter(BaseNode[T]):
    """The items for which a function is true.

    Args:
        source_node: node of items.
        filter_fn: item -> whether to keep it.
    """

    def __init__(self, source_node: BaseNode[T], filter_fn: Callable[[T], bool]) -> None:
        super().__init__()
        self.source = source_node
        self.filter_fn = filter_fn
        self._num_filtered = self._num_yielded = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        state = initial_state or {"source": None, "num_filtered": 0, "num_yielded": 0}
        self.source.reset(state["source"])
        self._num_filtered, self._num_yielded = state["num_filtered"], state["num_yielded"]

    def next(self) -> T:
        """As `BaseNode.next`."""
        while not self.filter_fn(item := next(self.source)):
            self._num_filtered += 1
        self._num_yielded += 1
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        counts = {"num_filtered": self._num_filtered, "num_yielded": self._num_yielded}
        return {"source": self.source.state_dict(), **counts}
