"""Predictors: what `flambeau predict` does with interactions of users with items."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"ranking": ("rank_items",)})
