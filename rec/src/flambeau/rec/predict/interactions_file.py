"""Files of interactions: a table in text, with a line for each time that a user had to do with an item."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from flambeau.core.errors import PredictError

__all__ = ["InteractionTable", "read_interactions"]

_NAMES = {
    "user": ("user", "userid", "user_id", "uid", "customer", "customer_id", "visitor", "visitorid", "session_id"),
    "item": ("item", "itemid", "item_id", "iid", "movie", "movieid", "movie_id", "product", "product_id", "track_id"),
    "time": ("time", "timestamp", "ts", "date", "datetime", "unix_timestamp"),
    "value": ("value", "rating", "score", "weight", "stars"),
}
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class InteractionTable:
    """The columns of a file.

    Attributes:
        users: a name for each line.
        items: likewise.
        times: seconds, or any number that grows with time; None where the file has none.
        values: such as ratings; None where the file has none.
    """

    users: list[str]
    items: list[str]
    times: list[float] | None
    values: list[float] | None

    def of_items(self, most: int) -> InteractionTable:
        """The lines of the most frequent items."""
        frequent = {name for name, _ in Counter(self.items).most_common(most)}
        kept = [name in frequent for name in self.items]
        users, items = (list(itertools.compress(column, kept)) for column in (self.users, self.items))
        times, values = (
            None if column is None else list(itertools.compress(column, kept)) for column in (self.times, self.values)
        )
        return InteractionTable(users, items, times, values)


def read_interactions(path: str) -> InteractionTable:
    """Read a table of interactions.

    Args:
        path: a text file in UTF-8 whose first line names the columns, between `,`, `;`, `|` or tabs: one of users, one
            of items, and where there are any of times (numbers, or ISO 8601) and of values.

    Raises:
        PredictError: it is no such file; the message names the line and what was expected.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PredictError(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}).") from error
    if "\0" in text:
        raise PredictError(f"{path} is no table: it has bytes of 0.")
    header, _, _ = text.partition("\n")
    rows = csv.reader(text.splitlines(), delimiter=max(_DELIMITERS, key=header.count), strict=True)
    return _table(path, _checked(path, rows))


def _checked(path: str, rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with their lines, from 1."""
    line = 0
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise PredictError(f"{path}, line {line + 1}: {error}.") from error
        line = rows.line_num  # type: ignore[attr-defined]
        if any(cell.strip() for cell in row):
            yield line, [cell.strip() for cell in row]


def _table(path: str, rows: Iterator[tuple[int, list[str]]]) -> InteractionTable:
    _, names = next(rows, (0, []))
    if not names:
        raise PredictError(f"{path} is empty; expected a first line that names columns, such as: user_id,item_id.")
    places = {kind: _place(path, kind, names) for kind in _NAMES}
    columns: dict[str, list[str]] = {kind: [] for kind, place in places.items() if place is not None}
    lines = []
    for line, row in rows:
        if len(row) != len(names):
            raise PredictError(f"{path}, line {line}: it has {len(row)} columns, the first line {len(names)}.")
        lines.append(line)
        for kind, column in columns.items():
            column.append(row[places[kind]])  # type: ignore[index]
    for kind in ("user", "item"):
        for line, name in zip(lines, columns[kind], strict=True):
            if not name:
                raise PredictError(f"{path}, line {line}: the {kind} is empty.")
        if len(set(columns[kind])) < 2:
            raise PredictError(
                f"{path} has {len(set(columns[kind]))} different {kind}s; nothing can be said from fewer than 2."
            )
    times = [_time(path, line, text) for line, text in zip(lines, columns["time"], strict=True)] if (
        "time" in columns
    ) else None  # fmt: skip
    values = [_number(path, line, "value", text) for line, text in zip(lines, columns["value"], strict=True)] if (
        "value" in columns
    ) else None  # fmt: skip
    return InteractionTable(columns["user"], columns["item"], times, values)


def _place(path: str, kind: str, names: list[str]) -> int | None:
    """Which column is of users, and so on; None for what may be absent."""
    plain = [name.lower().replace(" ", "_") for name in names]
    found = [at for at, name in enumerate(plain) if name in _NAMES[kind]]
    if len(found) > 1:
        both = " and ".join(repr(names[at]) for at in found)
        raise PredictError(f"{path}: the columns {both} could both be the {kind}'s; leave one out.")
    if found:
        return found[0]
    if kind in ("user", "item"):
        shown = ", ".join(name[:40] for name in names[:8])
        raise PredictError(
            f"{path} has no column of {kind}s: its first line names {shown}. Name one of them {kind}_id; "
            f"also understood: {', '.join(_NAMES[kind])}."
        )
    return None


def _time(path: str, line: int, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text) if "-" in text[1:] and not _is_number(text) else None
    except ValueError as error:
        raise PredictError(f"{path}, line {line}: the time {text!r} is neither a number nor ISO 8601.") from error
    if moment is None:
        return _number(path, line, "time", text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(path: str, line: int, kind: str, text: str) -> float:
    if not _is_number(text) or not isfinite(float(text)):
        raise PredictError(f"{path}, line {line}: the {kind} {text!r} is not a finite number.")
    return float(text)
