"""Modules and functions by their names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["import_attr", "load_module"]


def load_module(path: str) -> ModuleType | Callable[..., object] | None:
    """What `package.module` or `package.module:attribute` names; None where there is none of it."""
    module, _, attribute = path.partition(":")
    try:
        loaded = import_module(module)
        return getattr(loaded, attribute) if attribute else loaded
    except (ImportError, AttributeError):
        return None


def import_attr(name: str, attr: str, default: Any) -> Any:
    """An attribute of a module; `default` where the module is not installed.

    Raises:
        AttributeError: the module is there, and lacks the attribute.
    """
    try:
        module = import_module(name)
    except ModuleNotFoundError:
        return default
    return getattr(module, attr)
