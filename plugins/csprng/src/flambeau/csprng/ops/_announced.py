"""Which module registers which operator, so that `torch.ops.flambeau_csprng` finds them before they are imported.

This imports no torch. A test compares it with what the modules register.
"""

from __future__ import annotations

__all__ = ["OPERATORS"]

_MODULES = {
    "crypt": ("crypt",),
    "random_numbers": ("fill_integers", "fill_normal", "fill_uniform", "random_words"),
}
OPERATORS = {name: f"flambeau.csprng.ops.{module}" for module, names in _MODULES.items() for name in names}
