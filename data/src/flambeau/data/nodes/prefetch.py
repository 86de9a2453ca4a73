"""Items read ahead by a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.map import Running


class OneThread(BaseNode[T]):
    """A node whose source is read, and its items worked on, by one thread ahead of the reader."""

    def __init__(
        self, source: BaseNode[Any], function: Callable[[Any], Any], ahead: int, snapshot_frequency: int
    ) -> None:
        super().__init__()
        if snapshot_frequency < 1:
            raise ValueError(f"snapshot_frequency is {snapshot_frequency}, expected at least 1.")
        self.source = source
        self.snapshot_frequency = snapshot_frequency
        self._function = function
        self._ahead = ahead
        self._running = Running()

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._running.stop()
        self._running.restart(
            self.source, [self._function], initial_state,
            ahead=self._ahead, every=self.snapshot_frequency, in_order=True,
        )  # fmt: skip

    def next(self) -> T:
        """As `BaseNode.next`."""
        item: T = self._running.pool().take()
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return self._running.pool().state()

    def shutdown(self) -> None:
        """As `BaseNode.shutdown`."""
        self._running.stop()
        self._ready = False
        super().shutdown()


class Prefetcher(OneThread[T]):
    """Up to `prefetch_factor` items read ahead by one thread.

    Args:
        source: node to read.
        prefetch_factor: items held at most, > 0.
        snapshot_frequency: read this many items between two snapshots of the source, > 0.
    """

    def __init__(self, source: BaseNode[T], prefetch_factor: int, snapshot_frequency: int = 1) -> None:
        if prefetch_factor < 1:
            raise ValueError(f"prefetch_factor is {prefetch_factor}, expected at least 1.")
        super().__init__(source, _same, prefetch_factor, snapshot_frequency)
        self.prefetch_factor = prefetch_factor


def _same(item: Any) -> Any:
    return item
