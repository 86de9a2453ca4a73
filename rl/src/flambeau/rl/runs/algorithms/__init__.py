"""The algorithms that runs know, one to a file: its settings, its networks, its loss, and what trains it."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["ALGORITHMS", "algorithm"]

ALGORITHMS = ("a2c", "cql", "ddpg", "dqn", "iql", "ppo", "sac", "td3")


def algorithm(name: str) -> Any:
    """The module of an algorithm: `Settings`, `PRESETS` by environment, and `build(env, settings, frames)`.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in ALGORITHMS:
        raise KeyError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}.")
    return importlib.import_module(f"{__name__}.{name}")
