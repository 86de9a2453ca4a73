"""Tracing with torch.fx such that every node has a name that tells where in the model it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx, nn

__all__ = ["LeafModuleAwareTracer", "NodePathTracer"]


class LeafModuleAwareTracer(fx.Tracer):
    """A tracer that does not look into modules of chosen classes.

    Args:
        args: for `torch.fx.Tracer`.
        leaf_modules: classes of modules that become one node each.
        kwargs: for `torch.fx.Tracer`.
    """

    def __init__(self, *args: Any, leaf_modules: Sequence[type[nn.Module]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.leaf_modules = tuple(leaf_modules)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module becomes one node."""
        return isinstance(m, self.leaf_modules) or super().is_leaf_module(m, module_qualified_name)


class NodePathTracer(LeafModuleAwareTracer):
    """A tracer that names nodes by the path of the module they are in.

    The call of a leaf module is named by its path (`layer1.0.conv1`), any other node by the path of the module whose
    `forward` it is in and the name of the function (`layer1.0.add`). A name that was used before gets `_1`, `_2`, ...
    Upstream: numbers are counted anew for modules too: of `ln_1` and `ln_2`, the second is the one called `ln_1`.

    Attributes:
        node_to_qualname: the name of each node, in the order of execution; without the output node.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.node_to_qualname: dict[fx.Node, str] = {}
        self._path = ""
        self._times: Counter[str] = Counter()
        self._taken: set[str] = set()

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace the call of a module, with its path as the current one."""
        outer = self._path
        self._path = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self._path = outer

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **options: Any) -> fx.Proxy:
        """Make a node, and name it."""
        proxy = super().create_proxy(kind, target, args, kwargs, *more, **options)
        self.node_to_qualname[proxy.node] = self._name(proxy.node)
        return proxy

    def _name(self, node: fx.Node) -> str:
        base = self._path
        if node.op != "call_module":
            base = f"{base}.{node.name}" if base else node.name
        base = re.sub(r"_\d+$", "", base)  # torch.fx numbers functions over the whole model
        while True:
            number = self._times[base]
            self._times[base] += 1
            name = f"{base}_{number}" if number else base
            if name not in self._taken:
                self._taken.add(name)
                return name
