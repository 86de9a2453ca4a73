"""What a run of differential suites found: counts for everyone, the unexplained cells for who mends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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
    """The unexplained cells as Markdown, grouped by area, each with what differs."""
    groups: dict[str, list[str]] = {}
    for verdict in suite.verdicts.values():
        if verdict.status == "unexplained":
            lines = [f"- `{verdict.cell.id}`", *(f"  - {finding}" for finding in verdict.findings)]
            groups.setdefault(verdict.cell.area, []).append("\n".join(lines))
    parts = [f"## {area}: {len(cells)}\n\n" + "\n".join(cells) for area, cells in groups.items()]
    return "\n\n".join([f"# Unexplained cells of {suite.name}\n\n```text\n{summary([suite])}\n```", *parts]) + "\n"
