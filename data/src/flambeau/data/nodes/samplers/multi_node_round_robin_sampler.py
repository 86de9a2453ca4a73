"""Nodes read in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.data.nodes.base_node import BaseNode
from flambeau.data.nodes.samplers._mixture import Mixture
from flambeau.data.nodes.samplers.stop_criteria import StopCriteria


class MultiNodeRoundRobinSampler(Mixture[Any]):
    """One item of each node in turn.

    A node counts as read through when it is asked for an item that it does not have.

    Args:
        source_nodes: name -> node, or a list, whose names are `ds_0`, `ds_1`, ...
        stop_criteria: one of `StopCriteria`.
        tag_output: True gives `{"dataset": name, "item": item}`; a pair of different strings gives those keys instead.

    Raises:
        ValueError: an unknown criterion, no nodes, or a pair that is none.
    """

    def __init__(
        self,
        source_nodes: Mapping[str, BaseNode[Any]] | Sequence[BaseNode[Any]],
        stop_criteria: str = StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED,
        tag_output: bool | tuple[str, str] = False,
    ) -> None:
        if not isinstance(source_nodes, Mapping):
            source_nodes = {f"ds_{place}": node for place, node in enumerate(source_nodes)}
        super().__init__(dict(source_nodes), stop_criteria)
        self._tags = _tags(tag_output)
        self._names = list(self.source_nodes)
        self._turn = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._turn = 0 if initial_state is None else initial_state["turn"]

    def next(self) -> Any:
        """As `BaseNode.next`."""
        while not self.over():
            name = self._names[self._turn]
            found, item = (False, None) if self.skips(name) else self.read(name)
            self._turn = (self._turn + 1) % len(self._names)
            if found:
                return item if self._tags is None else {self._tags[0]: name, self._tags[1]: item}
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {**super().get_state(), "turn": self._turn}


def _tags(tag_output: Any) -> tuple[str, str] | None:
    if isinstance(tag_output, bool):
        return ("dataset", "item") if tag_output else None
    if (
        isinstance(tag_output, tuple)
        and len(tag_output) == 2
        and all(isinstance(tag, str) for tag in tag_output)
        and tag_output[0] != tag_output[1]
    ):
        return tag_output
    raise ValueError(f"tag_output is {tag_output!r}, expected True, False, or a pair of two different strings.")
