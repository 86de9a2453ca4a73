"""What a run of differential suites found: counts for everyone, the unexplained cells for who mends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flambeau.core.testing.differential.cells import Cell
from flambeau.core.testing.differential.suite import SUITES, Suite

_STATUSES = ("equal", "on purpose", "unexplained")


def summary(suites: Iterable[Suite] | None = None) -> str:
    """A table of counts for each suite that was run: by area compared, equal, different on purpose, unexplained."""
    tables = []
    for suite in SUITES if suites is None else suites:
        counts = suite.counts()
        total = sum(counts.values(), Counter())
        width = max(len(suite.name), *(len(area) for area in counts), len("all"), 4)
        lines = [f"{suite.name:{width}}  compared  equal  on purpose  unexplained"]
        for area, row in [*counts.items(), ("all", total)]:
            equal, on_purpose, unknown = (row[status] for status in _STATUSES)
            lines.append(f"{area:{width}}  {row.total():8d}  {equal:5d}  {on_purpose:10d}  {unknown:11d}")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def unexplained(suite: Suite) -> str:
    """The unexplained cells as Markdown by place and program, kinds that differ alike together (see `cells.cross`)."""
    groups: dict[str, dict[tuple[str, tuple[str, ...]], list[str]]] = {}
    for verdict in suite.verdicts.values():
        if verdict.status == "unexplained":
            place, kind, program = _parts(verdict.cell)
            groups.setdefault(place, {}).setdefault((program, verdict.findings), []).append(kind)
    parts = []
    for place, found in groups.items():
        lines = [f"## {place}: {sum(map(len, found.values()))}", ""]
        for (program, findings), kinds in found.items():
            lines += [f"- `{program}` of {', '.join(kinds)}", *(f"  - {finding}" for finding in findings)]
        parts.append("\n".join(lines))
    return "\n\n".join([f"# Unexplained cells of {suite.name}\n\n```text\n{summary([suite])}\n```", *parts]) + "\n"


def _parts(cell: Cell) -> tuple[str, str, str]:
    """Place, kind and program of a table's cell; a cell of another name has its area as the place."""
    program = getattr(cell.call, "text", None)
    if program is None or not cell.id.endswith(f"/{program}"):
        return cell.area, "its inputs", cell.id
    place, _, kind = cell.id.removesuffix(f"/{program}").rpartition("/")
    return place, kind, program
