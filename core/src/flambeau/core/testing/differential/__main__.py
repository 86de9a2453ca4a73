"""Run the suites of a test file without pytest, for a quick look at some cells or a report of all.

python -m flambeau.core.testing.differential FILE [-k PATTERN ...] [--report FILE.md] [--all]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from flambeau.core.testing.differential.cells import Cell
from flambeau.core.testing.differential.differences import matches
from flambeau.core.testing.differential.report import summary, unexplained
from flambeau.core.testing.differential.suite import Suite


def main(argv: list[str] | None = None) -> int:
    """Compare, print what is unexplained and the counts; the exit status is 1 if something is."""
    parser = argparse.ArgumentParser(prog="python -m flambeau.core.testing.differential", description=__doc__)
    parser.add_argument("file", type=Path, help="a Python file with one or more `Suite`s")
    parser.add_argument(
        "-k", action="append", default=[], metavar="PATTERN", help="cells to run: a text within their name, * for any"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the unexplained cells there as Markdown")
    parser.add_argument("--all", action="store_true", help="also print the cells that are equal or differ on purpose")
    chosen = parser.parse_args(argv)
    suites = _suites(chosen.file)
    if not suites:
        parser.error(f"{chosen.file} defines no `Suite`")
    for suite in suites:
        for cell in suite.cells:
            if _wanted(cell, chosen.k):
                verdict = suite.compare(cell)
                if chosen.all or verdict.status == "unexplained":
                    print(f"{verdict.status}: {cell.id}", *verdict.findings, verdict.reason, sep="\n    ")  # noqa: T201
    ran = [suite for suite in suites if suite.verdicts]
    print(summary(ran))  # noqa: T201
    if chosen.report is not None:
        chosen.report.write_text("\n".join(unexplained(suite) for suite in ran), encoding="utf-8")
    return int(any(verdict.status == "unexplained" for suite in ran for verdict in suite.verdicts.values()))


def _wanted(cell: Cell, patterns: list[str]) -> bool:
    return not patterns or any(matches(cell.id, f"*{pattern}*") for pattern in patterns)


def _suites(path: Path) -> list[Suite]:
    """The suites that a file defines; it may import what lies beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return [value for value in vars(module).values() if isinstance(value, Suite)]


if __name__ == "__main__":
    sys.exit(main())
