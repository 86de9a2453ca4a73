"""Values of states and advantages of actions, estimated from trajectories."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {}, submodules=("functional", "utils"))
