"""Miniatures of published datasets: a few made-up items in each one's true layout, for tests without network.

A writer takes the root and returns what to build the dataset with beside it. One module per group of datasets; each
has a table `WRITERS`, name of the dataset -> writer.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["write_miniature"]

_GROUPS = ("books", "commands", "corpora", "mixtures", "speakers")


def write_miniature(name: str, root: Path) -> dict[str, Any]:
    """Write the miniature of a dataset below `root`; returns the arguments to build it with.

    Raises:
        KeyError: no group has a miniature of this name.
    """
    writers = {key: writer for group in _GROUPS for key, writer in import_module(f"{__name__}.{group}").WRITERS.items()}
    return {"root": root, **(writers[name](root) or {})}
