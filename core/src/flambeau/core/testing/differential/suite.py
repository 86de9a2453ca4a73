"""All cells of one pair of libraries: run, compared, judged, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flambeau.core.testing.differential.cells import Cell, Library
from flambeau.core.testing.differential.comparison import findings as differing
from flambeau.core.testing.differential.differences import Difference, read_differences, stale
from flambeau.core.testing.differential.execution import Files, execute, read_back
from flambeau.core.testing.differential.records import Describer
from flambeau.core.testing.results import CheckFailed

Status = Literal["equal", "on purpose", "unexplained"]

SUITES: list[Suite] = []
"""Suites of which a cell was run in this process, for the report at its end."""


@dataclass(frozen=True)
class Verdict:
    """What came of one cell.

    Args:
        cell: which.
        status: "equal"; "on purpose" for a difference that the package's file has a reason for; else "unexplained".
        findings: what differs, one line each.
        reason: why it may differ, empty otherwise.
    """

    cell: Cell
    status: Status
    findings: tuple[str, ...] = ()
    reason: str = ""


class Suite:
    """The cells of one pair of libraries.

    Args:
        name: of the suite, and of its array in the file of differences.
        ours: our library: a module, its name, or any object that has the names as attributes.
        peer: the library to compare with, alike.
        roots: name of every module below which classes belong to one of the two, where that is not `ours` and `peer`.
        differences: the package's file of intended differences, see `differences`.
        describers: how objects of the domain become records, see `records`.
        files: how files are compared by the ending of their name, see `execution.Files`.
        rtol: tolerance of floating-point values relative to the peer's.
        atol: absolute tolerance.
    """

    def __init__(
        self,
        name: str,
        *,
        ours: Any,
        peer: Any,
        roots: Sequence[str] = (),
        differences: Path | Sequence[Difference] = (),
        describers: Sequence[Describer] = (),
        files: Files | None = None,
        rtol: float = 1e-5,
        atol: float = 1e-6,
    ) -> None:
        self.name = name
        self.ours, self.peer = ours, peer
        self.roots = tuple(roots) or tuple(_root(library) for library in (ours, peer))
        self.differences = read_differences(differences, name) if isinstance(differences, Path) else tuple(differences)
        self.describers, self.files = tuple(describers), dict(files or {})
        self.rtol, self.atol = rtol, atol
        self.verdicts: dict[str, Verdict] = {}
        self._cells: dict[str, Cell] = {}

    @property
    def cells(self) -> list[Cell]:
        """All cells, in the order they were added."""
        return list(self._cells.values())

    def add(self, *cells: Cell) -> None:
        """Add cells.

        Raises:
            ValueError: one is called like an earlier one.
        """
        for cell in cells:
            if cell.id in self._cells:
                raise ValueError(f"Two cells of the suite {self.name!r} are called {cell.id!r}; names must be unique.")
            self._cells[cell.id] = cell

    def compare(self, cell: Cell) -> Verdict:
        """Run a cell on both libraries and judge what came of it; the verdict is kept for the report."""
        if self not in SUITES:
            SUITES.append(self)
        found = self._findings(cell)
        if not found:
            verdict = Verdict(cell, "equal")
        else:
            whys = [next((one.why for one in self.differences if one.explains(cell.id, line)), "") for line in found]
            status: Status = "on purpose" if all(whys) else "unexplained"
            verdict = Verdict(cell, status, tuple(found), " ".join(dict.fromkeys(whys)).strip())
        self.verdicts[cell.id] = verdict
        return verdict

    def check(self, cell: Cell) -> None:
        """The test of one cell.

        Raises:
            CheckFailed: it differs, and nothing says that it may.
        """
        verdict = self.compare(cell)
        if verdict.status == "unexplained":
            raise CheckFailed(f"{cell.id} ({self.name}, ours against the peer):\n  " + "\n  ".join(verdict.findings))

    def check_differences(self) -> None:
        """The test of the intended differences, after all cells: each pattern must excuse something.

        Raises:
            CheckFailed: a pattern matches no cell, or explains nothing in its cells, which were all run.
        """
        findings = {name: verdict.findings for name, verdict in self.verdicts.items()}
        if found := stale(self.differences, list(self._cells), findings):
            lines = [f"{pattern!r} ({difference.what}): {why}" for difference, pattern, why in found]
            raise CheckFailed(
                f"Intended differences of {self.name!r} that are none; remove them:\n  " + "\n  ".join(lines)
            )

    def counts(self) -> dict[str, Counter[str]]:
        """How many cells of each area were run, by status."""
        counted: dict[str, Counter[str]] = {}
        for verdict in self.verdicts.values():
            counted.setdefault(verdict.cell.area, Counter())[verdict.status] += 1
        return counted

    def _findings(self, cell: Cell) -> list[str]:
        ours, peer = Library(self.ours, ours=True), Library(self.peer, ours=False)
        options = {"roots": self.roots, "describers": self.describers}
        try:
            outcomes = [
                execute(cell, library, roots=self.roots, describers=self.describers, files=self.files)
                for library in (ours, peer)
            ]
            found = differing(*outcomes, rtol=self.rtol, atol=self.atol)
            if cell.read is None or outcomes[0].failure is not None or outcomes[1].failure is not None:
                return found
            expected = read_back(cell, peer, peer.folder, **options)  # type: ignore[arg-type]
            for what, library, folder in (
                ("we read what the peer wrote", ours, peer.folder),
                ("the peer reads what we wrote", peer, ours.folder),
                ("we read what we wrote", ours, ours.folder),
            ):
                got = read_back(cell, library, folder, **options)  # type: ignore[arg-type]
                found += [f"{what}: {one}" for one in differing(got, expected, rtol=self.rtol, atol=self.atol)]
            return found
        finally:
            ours.close()
            peer.close()


def _root(library: Any) -> str:
    name = library if isinstance(library, str) else getattr(library, "__name__", None)
    if name is None:
        raise ValueError(f"The library {library!r} has no module name; say `roots=` which modules belong to it.")
    return str(name)
