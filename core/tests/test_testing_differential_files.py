"""The file of intended differences is read and rendered without torch; suites run from the shell and under pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.testing.differential import read_table
from flambeau.core.testing.differential.differences import matches, read_differences, render_differences

FILE = """
[[boxes]]
cells = ["a/*", "b"]
what = "Boxes open | close."
why = '''
Because
they can.'''

[[crates]]
cells = ["*"]
what = "Crates are heavy."
why = "Wood."
"""
SUITE = """
import types, pytest
from pathlib import Path
from flambeau.core.testing.differential import Suite, cross

OURS, PEER = types.SimpleNamespace(f=lambda x: x), types.SimpleNamespace(f=lambda x: min(x, 2))
SUITE = Suite("boxes", ours=OURS, peer=PEER, roots=["ours", "peer"],
              differences=Path(__file__).with_name("differences.toml"))
SUITE.add(*cross("calls", {str(n): {"x": str(n)} for n in range(5)}, ["f(x)"]))

@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_cells(cell):
    SUITE.check(cell)

def test_differences():
    SUITE.check_differences()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "differences.toml").write_text('[[boxes]]\ncells = ["calls/3/*"]\nwhat = "Threes."\nwhy = "So."\n')
    (tmp_path / "test_boxes.py").write_text(SUITE)
    return tmp_path


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=folder, check=False)


def test_a_table_in_a_file_has_headings_with_programs_below(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("# a comment\n\nfirst one\n    f(x)\n\n    # why\n    g(x)\nsecond\n")
    assert read_table(path) == {"first one": ["f(x)", "g(x)"], "second": []}


@pytest.mark.parametrize("text", ["    f(x)\nfirst\n", "first\n    f(x)\nsecond\nfirst\n    f(x)\n"])
def test_a_table_refuses_programs_without_a_heading_and_repeated_ones(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.txt").write_text(text)
    with pytest.raises(ValueError, match=r"the program 'f\(x\)'"):
        read_table(tmp_path / "table.txt")


def test_only_a_star_is_special_in_a_pattern() -> None:
    assert matches("a/td[0]", "a/td[0]") and not matches("a/td0", "a/td[0]")
    assert matches("a/x.y\nz", "a/*z") and not matches("a/xzy", "a/x.*") and not matches("ab", "a")


def test_a_suite_reads_its_own_differences_and_a_missing_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    assert read_differences(path, "boxes") == ()
    path.write_text(FILE)
    (boxes,) = read_differences(path, "boxes")
    assert boxes.cells == ("a/*", "b") and boxes.explains("a/1", "any") and not boxes.explains("b/1", "any")
    assert [one.what for one in read_differences(path, "crates")] == ["Crates are heavy."]
    assert read_differences(path, "sacks") == ()


def test_an_entry_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text('[[boxes]]\ncells = ["a"]\nwhat = "Boxes."\n')
    with pytest.raises(ValueError, match=r"\[\[boxes\]\].*`what` and `why`"):
        read_differences(path, "boxes")


def test_differences_are_rendered_as_a_table_for_each_suite(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text(FILE)
    assert render_differences(path) == (
        "### `boxes`\n\n| what differs | why |\n|---|---|\n| Boxes open \\| close. | Because they can. |\n\n"
        "### `crates`\n\n| what differs | why |\n|---|---|\n| Crates are heavy. | Wood. |"
    )


def test_rendering_loads_no_torch() -> None:
    code = "import sys, flambeau.core.testing.differential.differences; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_suite_runs_from_the_shell_whole_or_in_part(folder: Path) -> None:
    command = "flambeau.core.testing.differential"
    done = run(command, "test_boxes.py", "-k", "calls/4", "-k", "/1/", "--report", "report.md", folder=folder)
    assert done.returncode == 1 and "unexplained: calls/4/f(x)\n    result is 4, expected 2" in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["all", "2", "1", "0", "1"]
    assert "- `f(x)` of 4" in (folder / "report.md").read_text()
    assert run(command, "test_boxes.py", "-k", "/1/", folder=folder).returncode == 0
    shown = run(command, "test_boxes.py", "-k", "calls/3", "--all", folder=folder).stdout
    assert "on purpose: calls/3/f(x)" in shown and "So." in shown


def test_a_run_of_pytest_ends_with_the_counts(folder: Path) -> None:
    done = run("pytest", "-q", "-p", "no:cacheprovider", "test_boxes.py", folder=folder)
    assert "1 failed, 5 passed" in done.stdout and "test_cells[calls/4/f(x)]" in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("calls ")]
    assert row.split() == ["calls", "5", "3", "1", "1"]
