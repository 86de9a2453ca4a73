"""Memory-mapped storage: memmap, save, load, consolidate and their relatives."""

from __future__ import annotations


class MemmapMethods:
    """Memory-mapped storage: memmap, save, load, consolidate and their relatives."""
