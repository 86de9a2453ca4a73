"""Predictors: what `flambeau predict` does with environments."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"acting": ("act_in_environment",)})
