"""Columns, frames and plans as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._plan import Derived, Rows, Stacked, Table, Term

MOST_ROWS = 20
"""Rows shown; of more, the first and the last half of them."""


class Shown(Protocol):
    """A column or frame."""

    @property
    def dtype(self) -> dt.DType:
        """Type of the values."""

    @property
    def null_count(self) -> int:
        """Missing values."""

    def __len__(self) -> int: ...

    def __getitem__(self, arg: Any) -> Any: ...

    def to_pylist(self) -> list[Any]:
        """Values as Python has them."""


def column_text(one: Shown) -> str:
    """A column's rows, type, length and missing values."""
    lines = [f"{place}  {value!r}" for place, value in _shown(one)]
    return "\n".join([*_with_gap(lines, len(one)), f"{_type_line(one)}, null_count: {one.null_count}"])


def _type_line(one: Shown) -> str:
    return f"dtype: {one.dtype}, length: {len(one)}"


def frame_text(frame: Shown, columns: Sequence[str]) -> str:
    """A frame's rows as a table, its type, length and missing values."""
    rows = [[str(place), *(["None"] * len(columns) if row is None else map(str, row))] for place, row in _shown(frame)]
    heads = ["index", *columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    top = "  ".join(cell.rjust(width) for cell, width in zip(heads, widths, strict=True))
    rule = "  ".join("-" * width for width in widths)
    end = f"dtype: {frame.dtype}, count: {len(frame)}, null_count: {frame.null_count}"
    return "\n".join([top, rule, *_with_gap(lines, len(frame)), end])


def html(one: Shown) -> str:
    """The same for notebooks."""
    from html import escape

    return f"<pre>{escape(repr(one))}</pre>"


def _shown(one: Shown) -> list[tuple[int, Any]]:
    size = len(one)
    if size <= MOST_ROWS:
        return list(enumerate(one.to_pylist()))
    half = MOST_ROWS // 2
    return [*enumerate(one[:half].to_pylist()), *enumerate(one[size - half :].to_pylist(), size - half)]


def _with_gap(lines: list[str], size: int) -> list[str]:
    half = MOST_ROWS // 2
    return lines if size <= MOST_ROWS else [*lines[:half], "...", *lines[half:]]


def plan_text(rows: Rows, columns: Mapping[str, Term]) -> str:
    """What is computed, from the source of the rows on."""
    steps: list[str] = []
    last = ", ".join(f"{name} = {one}" for name, one in columns.items())
    while isinstance(rows, Derived):
        keys = ", ".join(map(str, rows.keys))
        options = "".join(f", {name}={value}" for name, value in rows.options.items())
        fields = ", ".join(f"{name} = {one}" for name, one in rows.fields.items())
        steps.append(f"{rows.step}({keys}{options}) of {fields}")
        rows = rows.parent
    return "\n".join([_source(rows), *reversed(steps), last])


def _source(rows: Rows) -> str:
    if isinstance(rows, Stacked):
        return "rows of " + " and ".join(_source(one) for one in rows.parents)
    if isinstance(rows, Table) and rows.frame is not None:
        return f"{rows.frame.height} rows in memory"
    files = getattr(rows, "files", None)
    return f"{len(files)} {getattr(rows, 'kind', '')} files" if files else "rows on a cluster"
