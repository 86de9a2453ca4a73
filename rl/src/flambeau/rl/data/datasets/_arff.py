"""ARFF, the format of OpenML's tables: columns of numbers and of names.

References:
    Attribute-Relation File Format, https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from flambeau.rl.errors import DatasetFormatError

__all__ = ["Table", "read_arff"]

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s+(.*)", re.IGNORECASE | re.DOTALL)
_NUMBERS = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Table:
    """Columns by their names: float64 with NaN where a value is missing, or objects, texts and None.

    Args:
        names: of the columns, in order.
        columns: the columns, (rows,).
        rows: how many rows there are.
    """

    names: list[str]
    columns: dict[str, Any]
    rows: int


def read_arff(path: Path) -> Table:
    """Read a dense table.

    Raises:
        DatasetFormatError: it is not ARFF, has other columns than numbers and names, or is sparse.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        attributes = list(_attributes(file, path))
        if not attributes:
            raise DatasetFormatError(f"{path} has no attributes before its data: it is no ARFF file.")
        values: list[list[Any]] = [[] for _ in attributes]
        for number, row in enumerate(_rows(file), start=1):
            if row and row[0].startswith("{"):
                raise DatasetFormatError(f"{path}, row {number}: sparse rows are not read.")
            if len(row) != len(attributes):
                raise DatasetFormatError(f"{path}, row {number} has {len(row)} values, expected {len(attributes)}.")
            for column, value in zip(values, row, strict=True):
                column.append(None if value == "?" else value)
    made: dict[str, Any] = {}
    for (name, kind), column in zip(attributes, values, strict=True):
        try:
            made[name] = _column(kind, column)
        except ValueError as error:
            raise DatasetFormatError(f"{path}, column {name!r}: {error}") from error
    return Table([name for name, _ in attributes], made, len(values[0]))


def _attributes(file: IO[str], path: Path) -> Iterator[tuple[str, str]]:
    for line in file:
        text = line.strip()
        if text.lower().startswith("@data"):
            return
        if text.lower().startswith("@attribute"):
            found = _ATTRIBUTE.match(text)
            if found is None:
                raise DatasetFormatError(f"{path}: {text[:80]!r} is no attribute.")
            kind = found[2].strip()
            if not kind.startswith("{") and kind.split()[0].lower() not in (*_NUMBERS, "string"):
                raise DatasetFormatError(f"{path}: attributes of kind {kind[:40]!r} are not read.")
            yield _unquoted(found[1]), kind
    raise DatasetFormatError(f"{path} has no @data: it is no ARFF file, or was cut short.")


def _rows(file: IO[str]) -> Iterator[list[str]]:
    lines = (line for line in file if line.strip() and not line.lstrip().startswith("%"))
    for row in csv.reader(lines, quotechar="'", escapechar="\\", skipinitialspace=True):
        yield [_unquoted(value.strip()) for value in row]


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if quoted else text


def _column(kind: str, values: list[Any]) -> Any:
    if kind.split()[0].lower() in _NUMBERS:
        return np.array([np.nan if value is None else float(value) for value in values], np.float64)
    made = np.empty(len(values), object)
    made[:] = values
    return made
