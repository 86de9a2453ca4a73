"""Marks in traced graphs, and assertions that tracing leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from flambeau.rec.fx.tracer import is_fx_tracing

__all__ = ["assert_fx_safe", "dmp_fx_trace_forward", "fx_marker", "is_marker_node"]


def assert_fx_safe(condition: bool, message: str) -> None:
    """Assert, where it is not traced: the values that a condition depends on are not known then.

    Raises:
        AssertionError: the condition is not met.
    """
    if not is_fx_tracing() and not condition:
        raise AssertionError(message)


def dmp_fx_trace_forward(dmp: nn.Module, tracer: fx.Tracer) -> Callable[..., Any]:
    """What a sharded model computes, as a traced graph.

    Args:
        dmp: a `DistributedModelParallel`.
        tracer: such as `Tracer`; whatever it takes for a leaf is called as it is.

    Returns:
        A function of the model's own arguments. Its `__self__` is the `GraphModule`, which has the model's modules.
    """
    model: nn.Module = dmp.module  # type: ignore[assignment]
    return fx.GraphModule(model, tracer.trace(model)).forward


@torch.fx.wrap
def _fx_marker(s: str, any_proxy_unused: Any) -> None:
    """Nothing; a node of this is the mark."""


def fx_marker(s: str, any_proxy_unused: Any) -> None:
    """Leave a node in the graph, which does nothing.

    Args:
        s: the mark's name.
        any_proxy_unused: something traced: without it there would be no node.
    """
    _fx_marker(s, any_proxy_unused)


def is_marker_node(node: fx.Node, marker_name: str) -> bool:
    """Whether a node is the mark of this name."""
    return node.op == "call_function" and node.target is _fx_marker and node.args[:1] == (marker_name,)
