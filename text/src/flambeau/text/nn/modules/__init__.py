"""Attention made of exchangeable parts."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"multiheadattention": ("InProjContainer", "MultiheadAttentionContainer", "ScaledDotProduct")},
    submodules=("multiheadattention",),
)
