"""Whether modules can be imported."""

from __future__ import annotations

import importlib.util

__all__ = ["is_module_available"]


def is_module_available(*modules: str) -> bool:
    """Whether all modules of these names are installed; none of them is imported."""
    return all(importlib.util.find_spec(module) is not None for module in modules)
