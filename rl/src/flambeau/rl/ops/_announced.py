"""Which module registers which operator, so that `torch.ops.flambeau_rl` finds them before they are imported.

This imports no torch. A test compares it with what the modules register.
"""

from __future__ import annotations

__all__ = ["OPERATORS"]

_MODULES = {
    "generalized_advantage": ("generalized_advantage",),
    "recursion": ("backward_recursion", "forward_recursion"),
    "segment_tree": ("segment_tree_find", "segment_tree_query", "segment_tree_write"),
}
OPERATORS = {name: f"flambeau.rl.ops.{module}" for module, names in _MODULES.items() for name in names}
