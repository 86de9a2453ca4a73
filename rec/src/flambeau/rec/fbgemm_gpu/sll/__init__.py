"""Operators for sequence learning by FBGEMM's Python names; `flambeau.rec.ops.sll_*` has them documented."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {}, submodules=("cpu", "meta"))
