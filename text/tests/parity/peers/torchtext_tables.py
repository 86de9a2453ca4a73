"""What the tables of the suite against torchtext have in common."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.testing.differential import Cell, Library


def programs(text: str) -> list[str]:
    """The lines of a table, each once."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(set(lines)) != len(lines):
        twice = sorted({line for line in lines if lines.count(line) > 1})
        raise ValueError(f"These lines stand twice in a table: {twice}.")
    return lines


def without_files(cells: Iterable[Cell]) -> list[Cell]:
    """The same cells, of which files and bars of progress are nobody's business: caches, archives, miniatures."""
    return [dataclasses.replace(cell, call=_WithoutFiles(cell.call), effects=False, printed=False) for cell in cells]


class _WithoutFiles:
    """Makes a call and then empties the run's folder."""

    def __init__(self, call: Callable[[Library, dict[str, Any]], Any]) -> None:
        self._call = call
        self.text = getattr(call, "text", None)  # by which the report orders cells

    def __call__(self, library: Library, given: dict[str, Any]) -> Any:
        try:
            result = self._call(library, given)
            return list(result) if hasattr(result, "__next__") else result
        finally:
            if library.used_folder is not None:
                shutil.rmtree(library.used_folder)
                library.used_folder.mkdir()
