"""The same items over and over."""

from __future__ import annotations

from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T


class Cycler(BaseNode[T]):
    """Passes over a node one after another, without end; an empty pass ends it.

    Args:
        source_node: node to read, reset after each of its passes.
    """

    def __init__(self, source_node: BaseNode[T]) -> None:
        super().__init__()
        self.source = source_node
        self._num_cycles = self._num_yielded = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        state = initial_state or {"source": None, "num_cycles": 0, "num_yielded": 0}
        self._num_cycles, self._num_yielded = state["num_cycles"], state["num_yielded"]
        self.source.reset(state["source"])

    def next(self) -> T:
        """As `BaseNode.next`."""
        try:
            item = next(self.source)
        except StopIteration:
            if self._num_yielded == 0:
                raise
            self._num_cycles += 1
            self.source.reset(None)
            item = next(self.source)
        self._num_yielded += 1
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        counts = {"num_cycles": self._num_cycles, "num_yielded": self._num_yielded}
        return {"source": self.source.state_dict(), **counts}
