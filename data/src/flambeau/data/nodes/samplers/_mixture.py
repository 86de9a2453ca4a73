"""Several nodes read by turns that somebody else decides."""

from __future__ import annotations

from typing import Any

from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.samplers.stop_criteria import StopCriteria

ALL = (
    StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED,
    StopCriteria.ALL_DATASETS_EXHAUSTED,
    StopCriteria.FIRST_DATASET_EXHAUSTED,
    StopCriteria.CYCLE_FOREVER,
)


class Mixture(BaseNode[T]):
    """Reads named nodes by turns, and keeps account of which have been read through."""

    def __init__(self, source_nodes: dict[str, BaseNode[Any]], stop_criteria: str) -> None:
        super().__init__()
        if stop_criteria not in ALL:
            raise ValueError(f"stop_criteria is {stop_criteria!r}, expected one of {', '.join(ALL)}.")
        if not source_nodes:
            raise ValueError("source_nodes is empty, expected at least one node.")
        self.source_nodes = source_nodes
        self.stop_criteria = stop_criteria
        self._exhausted = dict.fromkeys(source_nodes, False)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        if initial_state is None:
            self._exhausted = dict.fromkeys(self.source_nodes, False)
            for node in self.source_nodes.values():
                node.reset()
            return
        if list(initial_state["nodes"]) != list(self.source_nodes):
            raise ValueError(
                f"{type(self).__name__}: the state is of nodes {list(initial_state['nodes'])}, these are "
                f"{list(self.source_nodes)}; build the same mixture to continue it."
            )
        self._exhausted = dict(initial_state["exhausted"])
        for name, node in self.source_nodes.items():
            node.reset(initial_state["nodes"][name])

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        nodes = {name: node.state_dict() for name, node in self.source_nodes.items()}
        return {"nodes": nodes, "exhausted": dict(self._exhausted)}

    def over(self) -> bool:
        """Whether the mixture has ended."""
        if self.stop_criteria == StopCriteria.CYCLE_FOREVER:
            return False
        if self.stop_criteria == StopCriteria.FIRST_DATASET_EXHAUSTED:
            return any(self._exhausted.values())
        return all(self._exhausted.values())

    def skips(self, name: str) -> bool:
        """Whether a node has nothing more to give, because it is to be read once and was."""
        return self._exhausted[name] and self.stop_criteria == StopCriteria.ALL_DATASETS_EXHAUSTED

    def read(self, name: str) -> tuple[bool, Any]:
        """An item of a node, or (False, None) where it has none and is not to begin again.

        Raises:
            StopIteration: the mixture has ended with it, or the node is empty although it was begun again.
        """
        node = self.source_nodes[name]
        try:
            return True, next(node)
        except StopIteration:
            self._exhausted[name] = True
        if self.over():
            raise StopIteration
        if self.stop_criteria == StopCriteria.ALL_DATASETS_EXHAUSTED:
            return False, None
        node.reset()
        return True, next(node)
