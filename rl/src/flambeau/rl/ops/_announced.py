"""Which module registers which operator, so that `torch.ops.flambeau_rl` finds them before they are imported.

This imports no torch. A test compares it with what the modules register.
"""

from __future__ import annotations

__all__ = ["OPERATORS"]

_MODULES = {
    "recursion": ("backward_recursion",),
}
OPERATORS = {name: f"flambeau.rl.ops.{module}" for module, names in _MODULES.items() for name in names}
