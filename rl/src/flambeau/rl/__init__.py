"""Reinforcement learning for PyTorch: environments, replay buffers, modules, objectives.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.core.late_operators import announce_operators
from flambeau.rl.ops._announced import OPERATORS

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(__name__, {}, submodules=("modules", "ops"))

# Code that calls operators by their names in torch's registry finds them without another import.
announce_operators("flambeau_rl", OPERATORS)
