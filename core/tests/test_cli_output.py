"""How commands print: aligned on a terminal, tab-separated in a pipe, JSON on request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flambeau.core.cli import output
from flambeau.core.cli.output import Column, plain, print_records, print_table, scaled, size

COLUMNS = (Column("id", "name"), Column("size", "size", size, number=True), Column("note", "note"))
ROWS: list[dict[str, Any]] = [
    {"id": "a", "size": 102_530_333, "note": "first", "hidden": [1, None]},
    {"id": "longer", "size": None, "note": "tab\tand\nline"},
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "terminal_width", lambda: 30)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (25_557_032, "25.6 M"),
        (99_960, "100 k"),
        (2.5e12, "2.50 T"),
        (None, ""),
    ],
)
def test_counts_have_a_prefix_and_three_digits(value: float | None, text: str) -> None:
    assert scaled(value) == text


def test_sizes_are_in_bytes() -> None:
    assert [size(1), size(46_830_571)] == ["1 B", "46.8 MB"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (["a", 1], "a, 1"),
        ({"train": 2, "test": None}, "train 2, test"),
        ("a\tb\nc", "a b c"),
    ],
)
def test_any_value_fits_one_cell(value: Any, text: str) -> None:
    assert plain(value) == text


def test_a_pipe_gets_raw_values_and_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, COLUMNS)
    assert capsys.readouterr().out == "a\t102530333\tfirst\nlonger\t\ttab and line\n"


def test_a_terminal_gets_aligned_columns_cut_to_its_width(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    print_table([*ROWS, {"id": "c", "size": 1, "note": "a note longer than the line"}], COLUMNS)

    assert capsys.readouterr().out.splitlines() == [
        "NAME      SIZE  NOTE",
        "a       103 MB  first",
        "longer          tab and line",
        "c          1 B  a note longer…",
    ]


def test_an_empty_table_tells_people_and_is_silent_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_table([], COLUMNS, nothing="nothing here")
    assert capsys.readouterr() == ("", "")

    monkeypatch.setattr(output, "on_terminal", lambda: True)
    print_table([], COLUMNS, nothing="nothing here")
    assert capsys.readouterr() == ("", "nothing here\n")


def test_json_has_the_whole_rows_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, COLUMNS, as_json=True)

    printed = json.loads(capsys.readouterr().out)
    assert printed == ROWS
    assert list(printed[0]) == ["id", "size", "note", "hidden"]


def test_records_are_blocks_without_what_is_empty(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    print_records([{"id": "a", "urls": ["one", "two"], "none": None, "list": []}, {"id": "b"}])
    assert capsys.readouterr().out == "id    a\nurls  one\n      two\n\nid  b\n"


def test_records_in_a_pipe_repeat_the_key_for_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([{"id": "a", "urls": ["one", "two"]}])
    assert capsys.readouterr().out == "id\ta\nurls\tone\nurls\ttwo\n"


NASTY = "\x1b[31mred\x1b[0m \x9b2J \u202egpj.exe \ud800 \0"
SHOWN = r"\x1b[31mred\x1b[0m \x9b2J \u202egpj.exe \ud800 \x00"


def test_control_characters_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": NASTY, "note": NASTY}]
    columns = (Column("id", "name"), Column("note", "note", show=str, raw=str))

    print_table(rows, columns)
    assert capsys.readouterr().out == f"{SHOWN}\t{SHOWN}\n"
    print_records([{"id": NASTY, "notes": [NASTY], "meta": {NASTY: 1}}])
    assert capsys.readouterr().out.splitlines() == [f"id\t{SHOWN}", f"notes\t{SHOWN}", f"meta\t{SHOWN} 1"]


def test_control_characters_are_escaped_on_a_terminal_too(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"id": NASTY}], (Column("id", "name"),))
    text = capsys.readouterr().out
    assert text.splitlines()[1].startswith(SHOWN[:28])
    assert all(char.isprintable() or char == "\n" for char in text)


def test_json_escapes_what_a_terminal_would_obey_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"id": NASTY, "astral": "\U000e0001"}], (), as_json=True)

    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert json.loads(text) == [{"id": NASTY, "astral": "\U000e0001"}]
