"""The first items."""

from __future__ import annotations

from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T


class Header(BaseNode[T]):
    """The first `n` items of each pass.

    Args:
        source_node: node of items.
        n: how many at most, >= 0.
    """

    def __init__(self, source_node: BaseNode[T], n: int) -> None:
        super().__init__()
        if n < 0:
            raise ValueError(f"n is {n}, expected 0 or more.")
        self.source = source_node
        self.n = n
        self._num_yielded = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._num_yielded = 0 if initial_state is None else initial_state["num_yielded"]
        self.source.reset(None if initial_state is None else initial_state["source"])

    def next(self) -> T:
        """As `BaseNode.next`."""
        if self._num_yielded >= self.n:
            raise StopIteration
        item = next(self.source)
        self._num_yielded += 1
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {"source": self.source.state_dict(), "num_yielded": self._num_yielded}
