"""The differences that a package keeps on purpose: which cells, what differs, and why.

They stand in one file per package, `tests/parity/peers/differences.toml`, with one array for each suite::

    [[tensordict]]
    cells = ["set/persistent/*", "update/*"]
    what = "Keys with a slash are accepted by HDF5 files."
    why = "Upstream splits them silently into groups, and the key cannot be read back."

`*` in a pattern stands for any text; every other character for itself. An entry may also say which findings it
explains, by patterns of the lines that a failing cell prints, and then hides no other difference of the same cells::

    findings = ["error: we return *, the peer raises RecursionError*"]

This module imports no torch, so that documentation is rendered from the same file.
"""

from __future__ import annotations

import functools
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
        findings: patterns of what is found; any by default.
    """

    cells: tuple[str, ...]
    what: str
    why: str
    findings: tuple[str, ...] = ("*",)

    def explains(self, cell: str, finding: str) -> bool:
        """Whether this is the reason for a finding in a cell."""
        return any(matches(cell, one) for one in self.cells) and any(matches(finding, one) for one in self.findings)


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern, in which only "*" is special, stands for a whole text."""
    return _compiled(pattern).fullmatch(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


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
    if set(entry) - {"findings"} != {"cells", "what", "why"} or not all(entry.values()):
        raise ValueError(
            f"{path} has an entry of [[{suite}]] with the keys {sorted(entry)}; give each a non-empty `cells` "
            f"(a list of patterns), `what` and `why`, and where they are known `findings` (a list of patterns)."
        )
    findings = tuple(entry.get("findings", ("*",)))
    return Difference(tuple(entry["cells"]), entry["what"].strip(), entry["why"].strip(), findings)


def _in_table(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def stale(
    differences: Sequence[Difference], cells: Sequence[str], findings: Mapping[str, Sequence[str]]
) -> list[tuple[Difference, str, str]]:
    """Patterns that explain nothing: difference, pattern, and why.

    Args:
        differences: all of a suite.
        cells: names of all cells of the suite.
        findings: name -> what differs, of the cells that were run. A pattern is not judged before all its cells were.
    """
    found = []
    for difference in differences:
        for pattern in difference.cells:
            covered = [cell for cell in cells if matches(cell, pattern)]
            if not covered:
                found.append((difference, pattern, "matches no cell"))
            elif all(cell in findings for cell in covered) and not any(
                matches(finding, one) for cell in covered for finding in findings[cell] for one in difference.findings
            ):
                found.append((difference, pattern, f"explains nothing in its {len(covered)} cells"))
    return found
