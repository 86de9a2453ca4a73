"""Servers of SGLang, with weights that a trainer replaces."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"base": ("RLSGLangEngine",), "sglang_server": ("AsyncSGLang", "SGLangError")},
    submodules=("base", "sglang_server"),
)
