"""A module with one graph for train mode and one for eval mode."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, fx, nn

__all__ = ["DualGraphModule"]


class DualGraphModule(fx.GraphModule):
    """A graph module that runs `train_graph` in train mode and `eval_graph` in eval mode.

    It holds the modules, parameters and buffers that either graph needs, under their names in `root`; they are shared
    with it, not copied. The mode at first is that of `root`; `train()` and `eval()` change it as usual.

    Args:
        root: where the names in both graphs are looked up.
        train_graph: for train mode.
        eval_graph: for eval mode, with the same inputs.
        class_name: shown in `repr`.
    """

    def __init__(
        self, root: nn.Module, train_graph: fx.Graph, eval_graph: fx.Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__(root, train_graph, class_name)
        for node in eval_graph.nodes:
            if node.op in ("call_module", "get_attr"):
                _share(root, self, node.target)
        self.train_graph = train_graph
        self.eval_graph = eval_graph
        self.training = root.training
        self._select()

    def train(self, mode: bool = True) -> DualGraphModule:
        """Set the mode of this module and of all within, and use the mode's graph."""
        super().train(mode)
        self._select()
        return self

    def _select(self) -> None:
        graph = self.train_graph if self.training else self.eval_graph
        if self.graph is not graph:
            # The setter of `graph` would make the graph this module's own, and refuse it for another.
            self.graph = graph

    def __deepcopy__(self, memo: dict[int, Any]) -> DualGraphModule:
        return _from_halves(*copy.deepcopy(self._halves(), memo), self.training)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_halves, (*self._halves(), self.training)

    def _halves(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        name = type(self).__name__
        return fx.GraphModule(self, self.train_graph, name), fx.GraphModule(self, self.eval_graph, name)


def _from_halves(train: fx.GraphModule, evaluation: fx.GraphModule, training: bool) -> DualGraphModule:
    """One module of two that share their layers."""
    for node in evaluation.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            _share(evaluation, train, node.target)
    train.training = training
    return DualGraphModule(train, train.graph, evaluation.graph, type(train).__name__)


def _share(source: nn.Module, target: nn.Module, name: str) -> None:
    """Let `target` have, under the same dotted name, what `source` has."""
    *path, leaf = name.split(".")
    for part in path:
        source = getattr(source, part)
        if not hasattr(target, part):
            setattr(target, part, nn.Module())
        target = getattr(target, part)
        if target is source:
            return
    value = getattr(source, leaf)
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(leaf, value, persistent=leaf not in source._non_persistent_buffers_set)
    else:
        setattr(target, leaf, value)
