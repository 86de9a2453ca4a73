"""The differences that a package keeps on purpose: which cells, what differs, and why.

They stand in one file per package, `tests/parity/peers/differences.toml`, with one array for each suite::

    [[tensordict]]
    cells = ["set/persistent/*", "update/*"]
    what = "Keys with a slash are accepted by HDF5 files."
    why = "Upstream splits them silently into groups, and the key cannot be read back."

`*` in a pattern stands for any text; every other character for itself. This module imports no torch, so that
documentation is rendered from the same file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Difference:
    """One difference kept on purpose.

    Args:
        cells: patterns of the cells' names.
        what: how we differ, a sentence.
        why: the reason, which a user would accept.
    """

    cells: tuple[str, ...]
    what: str
    why: str

    def covers(self, cell: str) -> bool:
        """Whether a cell is one of those that differ."""
        return any(matches(cell, pattern) for pattern in self.cells)


def matches(cell: str, pattern: str) -> bool:
    """Whether a pattern, in which only "*" is special, stands for a cell's whole name."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), cell, re.DOTALL) is not None


def read_differences(path: Path, suite: str) -> tuple[Difference, ...]:
    """The differences of one suite; none where the file is absent.

    Raises:
        ValueError: an entry lacks a key or has one too many.
    """
    if not path.is_file():
        return ()
    return tuple(_difference(entry, path, suite) for entry in _parsed(path).get(suite, []))


def render_differences(path: Path) -> str:
    """All differences of a package's file as Markdown, a table for each suite.

    Raises:
        ValueError: an entry lacks a key or has one too many.
    """
    sections = []
    for suite, entries in _parsed(path).items():
        rows = [f"### `{suite}`", "", "| what differs | why |", "|---|---|"]
        for difference in (_difference(entry, path, suite) for entry in entries):
            rows.append(f"| {_in_table(difference.what)} | {_in_table(difference.why)} |")
        sections.append("\n".join(rows))
    return "\n\n".join(sections)


def _parsed(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _difference(entry: Mapping[str, Any], path: Path, suite: str) -> Difference:
    if set(entry) != {"cells", "what", "why"} or not entry["cells"] or not entry["what"] or not entry["why"]:
        raise ValueError(
            f"{path} has an entry of [[{suite}]] with the keys {sorted(entry)}; give each a non-empty `cells` "
            f"(a list of patterns), `what` and `why`."
        )
    return Difference(tuple(entry["cells"]), entry["what"].strip(), entry["why"].strip())


def _in_table(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def stale(
    differences: Sequence[Difference], cells: Sequence[str], statuses: Mapping[str, str]
) -> list[tuple[Difference, str, str]]:
    """Patterns that excuse nothing: difference, pattern, and why.

    Args:
        differences: all of a suite.
        cells: names of all cells of the suite.
        statuses: name -> "equal" or another status, of the cells that were run. A pattern whose cells were not all run
            is not judged.
    """
    found = []
    for difference in differences:
        for pattern in difference.cells:
            covered = [cell for cell in cells if matches(cell, pattern)]
            if not covered:
                found.append((difference, pattern, "matches no cell"))
            elif all(statuses.get(cell) == "equal" for cell in covered):
                found.append((difference, pattern, f"its {len(covered)} cells are equal"))
    return found
