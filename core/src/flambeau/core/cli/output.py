"""What commands print: columns on a terminal, tab-separated values in a pipe, JSON on request.

A table's row is a dictionary; its columns name the keys that people see. Tab-separated values are the raw ones (bytes,
counts, yes/no) without a header, ready for `cut` and `sort`; JSON has every key of a row, also without a column.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.core.terminal import json_escaped, printable

Row = Mapping[str, Any]


def plain(value: Any) -> str:
    """A value in one cell: empty for None, yes/no for booleans, commas between the items of a list."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(key)} {plain(item)}".rstrip() for key, item in value.items())
    return printable(" ".join(value.split()) if isinstance(value, str) else str(value))


def scaled(value: float | None, unit: str = "") -> str:
    """A count with a decimal prefix and three digits: 25.6 M, 102 MB; empty for None."""
    if value is None:
        return ""
    amount, prefix = float(value), ""
    for larger in ("k", "M", "G", "T"):
        if abs(amount) < 999.5:
            break
        amount, prefix = amount / 1000, larger
    digits = (
        f"{amount:.0f}"
        if not prefix or abs(amount) >= 99.95
        else f"{amount:.1f}"
        if amount >= 9.995
        else f"{amount:.2f}"
    )
    return f"{digits} {prefix}{unit}".rstrip()


def size(value: float | None) -> str:
    """Bytes for people; empty for None."""
    return scaled(value, "B")


@dataclass(frozen=True)
class Column:
    """A column: the row's key, the title, how a value is shown to people and in a pipe, whether it is a number."""

    key: str
    title: str
    show: Callable[[Any], str] = plain
    raw: Callable[[Any], str] = plain
    number: bool = False


def on_terminal() -> bool:
    """Whether people read what is printed."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Characters in a line of the terminal."""
    return shutil.get_terminal_size().columns


def print_table(rows: Sequence[Row], columns: Sequence[Column], *, as_json: bool = False, nothing: str = "") -> None:
    """Print rows in the form that fits where stdout leads.

    Args:
        rows: what to print, in this order.
        columns: what people see of a row.
        as_json: print a JSON array of the whole rows.
        nothing: what to tell people when there are no rows; goes to stderr, and only from a terminal.
    """
    if as_json:
        print_json(list(rows))
    elif not on_terminal():
        sys.stdout.writelines("\t".join(_cell(c.raw(row.get(c.key))) for c in columns) + "\n" for row in rows)
    elif rows:
        sys.stdout.writelines(line + "\n" for line in _aligned(rows, columns, terminal_width()))
    elif nothing:
        print(nothing, file=sys.stderr)


def print_outcomes(rows: Sequence[Row], columns: Sequence[Column], *, as_json: bool = False, nothing: str = "") -> None:
    """Print what became of each thing: as `print_table`, but failures are told on stderr, where errors go.

    Args:
        rows: with "id", "state" and "detail"; those whose state is "failed" are failures.
        columns: what people see of a row.
        as_json: print a JSON array of all rows, failures among them.
        nothing: what to tell people when there are no rows.
    """
    failed = [] if as_json else [row for row in rows if row["state"] == "failed"]
    if len(failed) < len(rows) or not rows:
        print_table([row for row in rows if row not in failed], columns, as_json=as_json, nothing=nothing)
    for row in failed:
        print(printable(f"flambeau: error: {row['id']}: {row['detail']}"), file=sys.stderr)


def print_records(records: Sequence[Row], *, as_json: bool = False) -> None:
    """Print things in full, each a block of `key value` lines without what is empty; JSON is an array of them."""
    if as_json:
        print_json(list(records))
        return
    for number, record in enumerate(records):
        if number:
            print()
        _print_record(record)


def _print_record(record: Row) -> None:
    lines = [(key, text) for key, value in record.items() for text in _lines(value)]
    tty = on_terminal()
    width = max((len(key) for key, _ in lines), default=0)
    shown = None
    for key, text in lines:
        label = "" if tty and key == shown else key
        print(printable(f"{label:{width}}  {text}" if tty else f"{key}\t{text}"))
        shown = key


def print_json(value: Any) -> None:
    """Print a value as JSON, indented; keys keep the order in which the schema names them."""
    text = json.dumps(value, indent=2, ensure_ascii=not _takes_unicode(), allow_nan=False)
    sys.stdout.write(f"{json_escaped(text)}\n")


def _takes_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _lines(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    text = value.strip() if isinstance(value, str) else plain(value)
    return text.splitlines()


def _cell(text: str) -> str:
    """What a column makes of a value, which may come from a stranger: on one line, and nothing but text."""
    return text if text.isprintable() else printable(" ".join(text.split()))


def _aligned(rows: Sequence[Row], columns: Sequence[Column], width: int) -> list[str]:
    table = [[column.title.upper() for column in columns]]
    table += [[_cell(column.show(row.get(column.key))) for column in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    room = width - sum(widths[:-1]) - 2 * (len(columns) - 1)
    if 12 <= room < widths[-1]:  # the last column gives way; names before it stay whole, to be copied
        table = [[*line[:-1], _cut(line[-1], room)] for line in table]
        widths[-1] = room
    return [
        "  ".join(
            f"{text:>{w}}" if column.number else f"{text:{w}}"
            for text, w, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in table
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
