"""The libraries that the programs of this folder compare with."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType


@functools.cache
def peer(name: str) -> ModuleType | None:
    """A library to compare with, where it is installed and loads; else its rows are left out, which is told once."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        print(f"no {name}: {error}", file=sys.stderr)
        return None
