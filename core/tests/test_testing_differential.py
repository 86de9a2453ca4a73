"""Differential tests find each kind of difference between two libraries, and nothing where there is none."""

from __future__ import annotations

import os
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flambeau.core.testing.differential import Cell, Difference, Library, Suite, cross, program
from flambeau.core.testing.differential.report import summary, unexplained
from flambeau.core.testing.results import CheckFailed

BASE = """
import dataclasses, warnings
import torch

class Box:
    def __init__(self, value):
        self.value = value

class Full(Exception):
    pass
"""


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the toys out of the counts at the end of the run."""
    monkeypatch.setattr("flambeau.core.testing.differential.suite.SUITES", [])


def library(name: str, code: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(BASE + code, vars(module))
    return module


def suite(ours: str, peer: str, **options: Any) -> Suite:
    def describe_box(value: Any, recorder: Any, where: str) -> Any:
        if type(value).__name__ not in ("Box", "Crate"):
            return NotImplemented
        return {"type": recorder.class_name(type(value)), "value": recorder.describe(value.value, f"{where}.value")}

    return Suite(
        "toys", ours=library("mine.toys", ours), peer=library("theirs", peer), describers=[describe_box], **options
    )


def verdict(ours: str, peer: str, call: str = "f(x)", given: str = "torch.ones(3)", **options: Any) -> Any:
    made = suite(ours, peer)
    cell = Cell(
        "toys/f", "toys", program(call), lambda one: {"x": program(given, {"torch": torch})(one, {})}, **options
    )
    return made.compare(cell)


def finding(ours: str, peer: str, call: str = "f(x)", given: str = "torch.ones(3)", **options: Any) -> str:
    found = verdict(ours, peer, call, given, **options)
    assert found.status == "unexplained"
    return "\n".join(found.findings)


PLUS = "def f(x): return x + 1"


@pytest.mark.parametrize(
    ("ours", "peer", "words"),
    [
        (PLUS, "def f(x): return x + 2", "result['values'][0] is 2.0, expected 3.0"),
        (PLUS, "def f(x): return (x + 1).double()", "result['dtype']"),
        (PLUS, "def f(x): return (x + 1)[None]", "result['shape']"),
        (PLUS, "def f(x): return (x + 1).requires_grad_()", "result['requires_grad']"),
        (PLUS, "def f(x): return [x + 1]", "result is a dict, expected a list"),
        (PLUS, "def f(x): return torch.nn.Parameter(x + 1, requires_grad=False)", "result['type']"),
        (PLUS, "def f(x): return (x + 1).to('meta')", "keys"),
        (PLUS, "def f(x): return (x + 1).to_sparse()", "keys"),
        ("def f(x): return {'a': 1, 'b': 2}", "def f(x): return {'b': 2, 'a': 1}", "keys ['a', 'b'], expected ['b'"),
        ("def f(x): return True", "def f(x): return 1", "is a bool"),
        ("def f(x): return (1,)", "def f(x): return [1]", "is a dict, expected a list"),
        ("def f(x): return Box(1)", "def f(x): return Box(2)", "result['value'] is 1"),
        ("def f(x): return Box(1)", "class Crate(Box): pass\ndef f(x): return Crate(1)", "'Box', expected 'Crate'"),
        ("def f(x): return x[1:]", "def f(x): return x[1:].clone()", "'inputs['x'] at byte 4\", expected 'own'"),
        ("def f(x): return x[1:]", "def f(x): return x[:-1]", "at byte 4"),
        ("def f(x): return [y := x + 1, y]", "def f(x): return [x + 1, x + 1]", "\"result[0] at byte 0\""),
        ("def f(x): x += 1", "def f(x): x + 1", "inputs['items']['x']['values'][0] is 2.0, expected 1.0"),
        ("def f(x): print('a')", "def f(x): print('b')", "printed is 'a\\n'"),
        ("def f(x): return iter([1, 2])", "def f(x): return iter([1])", "2 parts, expected 1"),
        ("def f(x): return torch.nn.Linear(1, 1)", "def f(x): return torch.nn.Linear(1, 1).eval()", "training"),
    ],
)  # fmt: skip
def test_a_difference_in_what_comes_back_or_is_done_to_the_inputs_is_found(ours: str, peer: str, words: str) -> None:
    assert words.replace("'", "").replace('"', "") in finding(ours, peer).replace("'", "").replace('"', "")


@pytest.mark.parametrize(
    ("ours", "peer"),
    [
        (PLUS, "def f(x): return 1 + x"),
        (PLUS, "def f(x): return x + 1.0000001"),  # within the tolerance
        (PLUS, "def f(x): warnings.warn('slow'); return x + 1"),
        ("def f(x): return Box(x)", "def f(x): return Box(x)"),  # each library's own class, around the same memory
        ("def f(x): return torch.rand(3)", "def f(x): return torch.rand(3)"),  # from the same seed
        ("def f(x): return (y for y in [1, 2])", "def f(x): return iter([1, 2])"),
        ("def f(x): return f'{__name__}: {x.data_ptr():#x}'", "def f(x): return f'{__name__}: {x.data_ptr():#x}'"),
        ("def f(x): return float('nan')", "def f(x): return float('nan')"),
        ("def f(x): return dict(a=1).keys()", "def f(x): return dict(a=1).keys()"),
    ],
)
def test_what_is_no_difference_is_none(ours: str, peer: str) -> None:
    assert verdict(ours, peer).findings == ()


@pytest.mark.parametrize(
    ("ours", "peer", "same"),
    [
        ("raise KeyError('a')", "raise KeyError('no such key: a')", True),
        ("raise KeyError('a')", "raise LookupError('a')", True),  # `except LookupError` catches both
        ("raise LookupError('a')", "raise KeyError('a')", False),
        ("raise ValueError('a')", "raise RuntimeError('a')", False),
        ("raise type('Both', (ValueError, RuntimeError), {})('a')", "raise RuntimeError('a')", True),
        ("raise Full('a')", "raise Full('a')", True),  # each its own class of that name
        ("raise KeyError('a')", "raise type('Lost', (KeyError,), {'__module__': 'theirs'})('a')", True),
        ("raise ValueError('a')", "raise type('Lost', (KeyError,), {'__module__': 'theirs'})('a')", False),
        ("raise RuntimeError('a')", "raise torch.OutOfMemoryError('a')", False),
        ("return 1", "raise KeyError('a')", False),
        ("raise KeyError('a')", "return 1", False),
    ],
)
def test_errors_are_equal_when_what_catches_the_peers_catches_ours(ours: str, peer: str, same: bool) -> None:
    found = verdict(f"def f(x): {ours}", f"def f(x): {peer}")
    assert (found.status == "equal") is same
    assert same or found.findings[0].startswith("error: we ")


@pytest.mark.parametrize("call", ["g(x)", "torch.no_such(x)", "(lambda: no_such)()"])
def test_a_call_of_what_neither_library_has_is_no_agreement(call: str) -> None:
    assert finding(PLUS, PLUS, call).startswith("error: neither library has what is called: ")


def test_an_attribute_that_objects_of_both_lack_is_an_agreement() -> None:
    assert verdict(PLUS, PLUS, "f(x).no_such").findings == ()


def test_a_result_that_cannot_be_read_differs_from_one_that_can() -> None:
    broken = "class Box(Box):\n  value = property(lambda self: {}['gone'], lambda self, value: None)\n"
    assert "unreadable" in finding(broken + "def f(x): return Box(1)", "def f(x): return Box(1)")


@pytest.mark.parametrize(
    ("peer", "words"),
    [
        ("(folder / 'a').write_bytes(b'one')", ""),
        ("(folder / 'a').write_bytes(b'two')", "sha256"),
        ("(folder / 'b').write_bytes(b'one')", "keys"),
        ("(folder / 'a').mkdir()", "keys"),
    ],
)
def test_files_are_compared_by_name_and_content(peer: str, words: str) -> None:
    ours = "def f(folder): (folder / 'a').write_bytes(b'one'); return None"
    found = verdict(ours, f"def f(folder): {peer}; return None", "f(folder)")
    assert words in "".join(found.findings) and (found.status == "equal") is (not words)


def test_json_files_are_compared_by_content_and_others_as_the_suite_says() -> None:
    ours = "def f(folder): (folder / 'a.json').write_text('{\"a\": 1}'); (folder / 'b.log').write_text('10:00 done')"
    peer = "def f(folder): (folder / 'a.json').write_text('{\"a\":1}'); (folder / 'b.log').write_text('10:01 done')"
    made = suite(ours, peer, files={".log": lambda path: path.read_text().split()[1:]})
    assert made.compare(Cell("files", "files", program("f(folder)"))).status == "equal"


READER = (
    "def load(folder): return (folder / 'a').read_text()[{skip}:]\ndef f(folder): (folder / 'a').write_text({text!r})"
)


def test_each_library_reads_what_the_other_wrote() -> None:
    def read(one: Library, folder: Path) -> Any:
        return one.load(folder)

    same = READER.format(skip=0, text="ab")
    made = suite(same, same)
    assert made.compare(Cell("same", "files", program("f(folder); None"), read=read)).status == "equal"
    # Each reads what it wrote itself, and the files differ as they may: only the other cannot read them.
    made = suite(READER.format(skip=1, text="#ab"), same, files={"": lambda path: None})
    findings = made.compare(Cell("other", "files", program("f(folder); None"), read=read)).findings
    assert [one.partition(":")[0] for one in findings] == [
        "we read what the peer wrote",
        "the peer reads what we wrote",
    ]


def test_a_folder_belongs_to_one_run_and_is_gone_after_it() -> None:
    seen: list[Path] = []

    def call(one: Library, given: dict[str, Any]) -> list[str]:
        seen.append(one.folder)
        (one.folder / "a").touch()
        return [path.name for path in one.folder.iterdir()]

    assert suite("", "").compare(Cell("folder", "folder", call)).status == "equal"
    assert len(set(seen)) == 2 and not any(path.exists() for path in seen)


def test_what_a_cell_declares_nobodys_business_is_not_compared() -> None:
    ours, peer = "def f(x): x += 1; print('a')", "def f(x): print('b')"
    assert verdict(ours, peer, effects=False, printed=False).status == "equal"


def test_inputs_are_not_compared_after_an_error() -> None:
    assert verdict("def f(x): x += 1; raise KeyError", "def f(x): raise KeyError").status == "equal"


def test_what_a_run_does_to_the_environment_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOYS", "kept")
    code = "import os\ndef f(x): seen = os.environ['TOYS']; os.environ['TOYS'] = __name__; return seen"
    assert verdict(code, code).status == "equal" and os.environ["TOYS"] == "kept"


def test_every_run_starts_from_the_same_seed() -> None:
    drawn: list[Any] = []

    def call(one: Library, given: dict[str, Any]) -> None:
        import numpy

        drawn.append((given["x"], random.random(), float(torch.rand(())), float(numpy.random.rand())))

    suite("", "").compare(Cell("seed", "seed", call, lambda one: {"x": random.random()}))
    assert drawn[0] == drawn[1]


class TestPrograms:
    def test_a_program_returns_its_last_expression_and_sees_inputs_then_lent_names_then_the_librarys(self) -> None:
        made = library("mine", "a = 1\nb = 2\nc = 3")
        run = program("x = [a, b, c]; x.append(len(x)); x", {"b": 20, "c": 30})
        assert run(Library(made), {"c": 300}) == [1, 20, 300, 3]
        assert program("x = 1")(Library(made), {}) is None

    def test_functions_inside_a_program_see_the_same_names(self) -> None:
        made = library("mine", "a = 1")
        assert program("(lambda: [a for _ in range(2)])()")(Library(made), {}) == [1, 1]

    def test_a_table_makes_a_cell_of_every_pair_and_builds_only_what_the_program_mentions(self) -> None:
        kinds: dict[str, Any] = {"one": {"x": "Box(1)", "y": "missing"}, "two": {"x": lambda one: one.Box(2), "y": "3"}}
        cells = cross("boxes", kinds, ["x.value", "x.value + 1"])
        assert [cell.id for cell in cells] == [
            "boxes/one/x.value", "boxes/two/x.value", "boxes/one/x.value + 1", "boxes/two/x.value + 1"
        ]  # fmt: skip
        made = suite("", "")
        made.add(*cells)
        assert [made.compare(cell).status for cell in made.cells] == ["equal"] * 4

    def test_a_library_gives_its_modules_too(self) -> None:
        assert Library("flambeau.core").testing.differential.Library is Library
        with pytest.raises(AttributeError, match="neither a name nor a module 'nothing'"):
            Library("flambeau.core").nothing


class TestJudging:
    def suite(self, *differences: Difference) -> Suite:
        made = suite("def f(x): return x", "def f(x): return x if x < 2 else -x", differences=differences)
        made.add(*cross("calls", {str(n): {"x": str(n)} for n in range(4)}, ["f(x)"]))
        return made

    def run(self, made: Suite, chosen: Callable[[Cell], bool] = lambda cell: True) -> list[str]:
        return [made.compare(cell).status for cell in made.cells if chosen(cell)]

    def test_a_difference_with_a_reason_is_on_purpose_and_any_other_fails(self) -> None:
        made = self.suite(Difference(("calls/2/*",), "Twos stay positive.", "They are counts."))
        assert self.run(made) == ["equal", "equal", "on purpose", "unexplained"]
        made.check(made.cells[2])
        with pytest.raises(CheckFailed, match=r"calls/3/f\(x\).*\n  result is 3, expected -3"):
            made.check(made.cells[3])

    def test_a_difference_explains_the_findings_it_names_and_no_others(self) -> None:
        why = {"cells": ("calls/*",), "what": "Some differ.", "why": "They do."}
        made = self.suite(Difference(**why, findings=("result is 2, *", "result is 9, *")))
        assert self.run(made) == ["equal", "equal", "on purpose", "unexplained"]
        made.check_differences()
        made = self.suite(Difference(**why, findings=("result is 9, *",)))
        assert self.run(made) == ["equal", "equal", "unexplained", "unexplained"]
        with pytest.raises(CheckFailed, match="explains nothing in its 4 cells"):
            made.check_differences()

    @pytest.mark.parametrize(
        ("pattern", "why"), [("calls/1/*", "explains nothing in its 1 cells"), ("calls/9/*", "matches no cell")]
    )
    def test_a_pattern_that_excuses_nothing_fails(self, pattern: str, why: str) -> None:
        made = self.suite(Difference(("calls/2/*", pattern), "Some differ.", "They do."))
        self.run(made)
        with pytest.raises(CheckFailed, match=why):
            made.check_differences()

    def test_a_pattern_is_not_judged_until_all_its_cells_were_run(self) -> None:
        made = self.suite(Difference(("calls/*",), "All differ.", "They do."))
        self.run(made, lambda cell: "/0/" in cell.id)
        made.check_differences()
        self.run(made)
        made.check_differences()

    def test_two_cells_of_one_name_are_refused(self) -> None:
        made = self.suite()
        with pytest.raises(ValueError, match="called 'calls/0/f"):
            made.add(made.cells[0])

    def test_the_report_counts_by_area_and_lists_what_is_unexplained(self) -> None:
        made = self.suite(Difference(("calls/2/*",), "Twos stay positive.", "They are counts."))
        self.run(made)
        assert [line.split() for line in summary([made]).splitlines()[1:]] == [
            ["calls", "4", "2", "1", "1"], ["all", "4", "2", "1", "1"]
        ]  # fmt: skip
        text = unexplained(made)
        assert "## calls: 1\n\n- `f(x)` of 3\n  - result is 3, expected -3" in text and "of 2" not in text
