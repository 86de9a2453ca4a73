"""What agents are trained for: returns, advantages and losses."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {}, submodules=("value",))
