"""The cases by name: what is computed of the audio package given, and within which tolerances it is compared."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

Case = tuple[Callable[[ModuleType], Any], float, float]  # what is computed, rtol, atol

FUNCTIONAL: dict[str, Case] = {}
MODELS: dict[str, Case] = {}
DECODERS: dict[str, Case] = {}


def case(name: str, rtol: float = 1e-4, atol: float = 1e-5) -> Callable[[Any], Any]:
    """Register a case of functionals and transforms."""

    def register(compute: Any) -> Any:
        FUNCTIONAL[name] = (compute, rtol, atol)
        return compute

    return register
