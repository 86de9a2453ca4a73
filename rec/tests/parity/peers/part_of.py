"""Modules of either library by their paths."""

from __future__ import annotations

import importlib
from types import ModuleType

from flambeau.core.testing.differential import Library


def part_of(library: Library, path: str) -> ModuleType:
    """The module of a path below the library's root, such as "modules.embedding_modules"."""
    return importlib.import_module(f"{'flambeau.rec' if library.ours else 'torchrec'}.{path}")
