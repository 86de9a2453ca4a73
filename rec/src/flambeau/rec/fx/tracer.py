"""Tracing by `torch.fx` of models with sparse features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.fx import _symbolic_trace

from flambeau.rec.distributed.types import LazyAwaitable
from flambeau.rec.errors import OptionError

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace"]


def is_fx_tracing() -> bool:
    """Whether `torch.fx` traces now."""
    return bool(_symbolic_trace._is_fx_tracing_flag)


class Tracer(fx.Tracer):
    """The tracer of `torch.fx`, which leaves some modules whole and waits for what a graph cannot wait for.

    Args:
        leaf_modules: names of classes whose instances are left whole, besides torch's own.
    """

    def __init__(self, leaf_modules: list[str] | None = None) -> None:
        super().__init__()
        self._leaf_modules: list[str] = list(leaf_modules or [])

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is called as one node.

        Args:
            m: the module.
            module_qualified_name: its path.
        """
        return type(m).__name__ in self._leaf_modules or super().is_leaf_module(m, module_qualified_name)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument of a node; results that are on their way are waited for."""
        return super().create_arg(a.wait() if isinstance(a, LazyAwaitable) else a)


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | None = None,
    leaf_modules: list[str] | None = None,
) -> fx.GraphModule:
    """A module as a graph.

    Args:
        root: the module. Upstream: functions are in the signature, and refused.
        concrete_args: arguments that are fixed.
        leaf_modules: names of classes whose instances are left whole.

    Raises:
        OptionError: it is no module.

    Example:
        >>> traced = symbolic_trace(nn.Sequential(nn.Linear(2, 1)))
        >>> [node.op for node in traced.graph.nodes]
        ['placeholder', 'call_module', 'output']
    """
    if not isinstance(root, torch.nn.Module):
        raise OptionError(f"root is a {type(root).__name__}, expected a module; make the function its forward.")
    return fx.GraphModule(root, Tracer(leaf_modules).trace(root, concrete_args))
