"""Transforms of environments that modules ask for: their room lies above this one, and loads when it is used."""

from __future__ import annotations

import importlib
from typing import Any


def transform(name: str, *args: Any, **kwargs: Any) -> Any:
    """A transform of environments.

    Args:
        name: of the class, in `flambeau.rl.envs.transforms`.
        args: of it.
        kwargs: of it.
    """
    return getattr(importlib.import_module("flambeau.rl.envs.transforms"), name)(*args, **kwargs)
