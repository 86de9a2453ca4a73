"""Chains of effects by their names in SoX, on tensors and files."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

_NAMES = (
    "apply_effects_file",
    "apply_effects_tensor",
    "effect_names",
    "init_sox_effects",
    "shutdown_sox_effects",
)

# Upstream: `sox_effects.sox_effects` is a module with the same names.
__getattr__, __dir__, __all__ = lazy_exports(__name__, {"sox_effects": _NAMES})
