"""How sparse types are constructed: at once, or as a node of the graph that `torch.fx` traces."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import torch.fx._symbolic_trace as symbolic_trace

__all__ = ["JaggedTensorMeta"]


class JaggedTensorMeta(ABCMeta, symbolic_trace.ProxyableClassMeta):
    """The metaclass of sparse types: from proxies, while a program is traced, comes a call in its graph."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, or a proxy for one."""
        # Looking for proxies among the arguments takes longer than all the rest, and only a tracer makes any.
        if symbolic_trace._is_fx_tracing_flag:
            return symbolic_trace.ProxyableClassMeta.__call__(cls, *args, **kwargs)
        return type.__call__(cls, *args, **kwargs)
