"""Models traced by `torch.fx`, with sparse features and modules that are left whole."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"tracer": ("Tracer", "is_fx_tracing", "symbolic_trace")}, submodules=("utils",)
)
