"""Tables as tensordicts, and back: a column an entry, a row a position of the batch.

JSON and CSV are read and written with the standard library. Parquet needs pyarrow or pandas.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes

_MISSING = ("", None)


def td_of_columns(
    columns: Mapping[str, Any], rows: int, *, separator: str | None, dtype: torch.dtype | None, device: Any
) -> Any:
    """A TensorDict of columns.

    Args:
        columns: tensors, arrays, or lists of Python values.
        rows: how many each has.
        separator: names are split on it into nested keys.
        dtype: of all numeric columns.
        device: of the result.
    """
    td = classes.TensorDict({}, batch_size=[rows], device=device)
    for name, values in columns.items():
        key = tuple(str(name).split(separator)) if separator else str(name)
        td.set(key, _entry(values, separator, dtype, device))
    return td


def _entry(values: Any, separator: str | None, dtype: torch.dtype | None, device: Any) -> Any:
    """The entry for a column: a tensor where all values make one, a nested tensordict for dicts of the same keys."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biufc":
        values = [item.tolist() if isinstance(item, np.ndarray) else item for item in values.tolist()]
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()
    if isinstance(values, (Tensor, np.ndarray)):
        tensor = torch.as_tensor(values)
        return tensor if dtype is None or tensor.dtype is torch.bool else tensor.to(dtype)
    if values and all(isinstance(item, dict) and item.keys() == values[0].keys() and item for item in values):
        nested = {key: [item[key] for item in values] for key in values[0]}
        return td_of_columns(nested, len(values), separator=None, dtype=dtype, device=device)
    numbers = _numbers(values)
    if numbers is not None:
        return numbers if dtype is None or numbers.dtype is torch.bool else numbers.to(dtype)
    return classes.NonTensorStack._from_nested(list(values), None, 1)


def _numbers(values: Sequence[Any]) -> Tensor | None:
    """A tensor of numbers, or of nested lists of them; integers stay int64, one float makes float64."""
    array = _array(values)
    if array is None or array.dtype.kind not in "biuf":
        return None
    return torch.from_numpy(array)


def _array(values: Sequence[Any]) -> np.ndarray | None:
    kinds = {type(item) for item in values}
    if not kinds <= {int, float, bool, list}:
        return None
    if len(kinds) > 1 and not kinds <= {int, float}:
        return None  # truth values among numbers, or lists among scalars, are no column of numbers
    try:
        return np.array(values)
    except (ValueError, OverflowError):  # ragged, or beyond 64 bits
        return None


# --- JSON


def read_json(path: str | Path, *, lines: bool) -> tuple[dict[str, Any], int]:
    """The columns of a file of records: an array of objects, an object of arrays, or an object a line.

    Raises:
        ValueError: it is none of these; the message names the file, and the line where that is known.
    """
    text = Path(path).read_text("utf-8")
    if lines or str(path).endswith(".jsonl"):
        records: Any = [
            _parse(line, f"{path}, line {n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()
        ]
    else:
        records = _parse(text, str(path))
    if isinstance(records, dict) and records and all(isinstance(column, list) for column in records.values()):
        lengths = {len(column) for column in records.values()}
        if len(lengths) == 1:
            return records, lengths.pop()
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{path}: expected an array of objects, or an object of arrays of one length.")
    names = list(dict.fromkeys(name for record in records for name in record))
    return {name: [record.get(name) for record in records] for name in names}, len(records)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}.") from error


def write_json(path: str | Path, td: Any, *, separator: str | None, lines: bool, **options: Any) -> None:
    """Write an object for each row; nested entries as nested objects, or with joined names."""
    rows = _rows(td, separator)
    if lines:
        text = "".join(json.dumps(row, **options) + "\n" for row in rows)
    else:
        text = json.dumps(rows, **options)
    Path(path).write_text(text, "utf-8")


def _rows(td: Any, separator: str | None) -> list[dict[str, Any]]:
    if len(td.batch_size) != 1:
        raise ValueError(f"a table has one batch dimension; this tensordict has batch size {list(td.batch_size)}.")
    columns = _plain_columns(td, separator)
    return [{name: values[row] for name, values in columns.items()} for row in range(td.batch_size[0])]


def _plain_columns(td: Any, separator: str | None) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for key, value in td.items():
        if isinstance(value, Tensor) or value._is_non_tensor:
            columns[key] = value.tolist()
        elif separator is None:
            columns[key] = _nested_rows(value, td.batch_size[0])
        else:
            for name, below in _plain_columns(value, separator).items():
                columns[f"{key}{separator}{name}"] = below
    return columns


def _nested_rows(td: Any, rows: int) -> list[dict[str, Any]]:
    below = _plain_columns(td, None)
    return [{name: values[row] for name, values in below.items()} for row in range(rows)]


# --- CSV


def read_csv(path: str | Path, *, delimiter: str = ",", **options: Any) -> tuple[dict[str, Any], int]:
    """The columns of a file with a header: integers, numbers, truth values, or text.

    A missing number is NaN; a column of them, text.

    Args:
        path: the file.
        delimiter: between columns.
        options: of `csv.reader`.

    Raises:
        ValueError: a row has another number of columns than the header.
    """
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file, delimiter=delimiter, **options)
        header = next(reader, None)
        if header is None:
            raise ValueError(f"{path} is empty; expected a line with the columns' names.")
        rows = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(row)} columns, but the header has {len(header)}."
                )
            rows.append(row)
    columns = {name: _typed([row[index] for row in rows]) for index, name in enumerate(header)}
    return columns, len(rows)


def _typed(cells: list[str]) -> Any:
    """A column of text as what all of its cells are."""
    filled = [cell for cell in cells if cell not in _MISSING]
    if filled and all(cell in ("True", "False", "true", "false") for cell in filled) and len(filled) == len(cells):
        return [cell in ("True", "true") for cell in cells]
    for kind in (_integer, float, _list):
        try:
            values = {cell: kind(cell) for cell in set(filled)}
        except ValueError:
            continue
        if not filled or (kind is not float and len(filled) < len(cells)):
            continue
        return [values.get(cell, math.nan) for cell in cells]
    return cells


def _integer(cell: str) -> int:
    value = int(cell)
    if not -(2**63) <= value < 2**63:
        raise ValueError(cell)
    return value


def _list(cell: str) -> list[Any]:
    if not cell.startswith("["):
        raise ValueError(cell)
    value: list[Any] = json.loads(cell)
    return value


def write_csv(path: str | Path, td: Any, *, separator: str | None, delimiter: str = ",", **options: Any) -> None:
    """Write a header and a line for each row; trailing dimensions as JSON lists.

    Raises:
        ValueError: nested entries and no separator to join their names with.
    """
    if separator is None and any(not isinstance(item, Tensor) and not item._is_non_tensor for _, item in td.items()):
        raise ValueError("a CSV file has no nested columns; pass separator='.' to join the names.")
    rows = _rows(td, separator)
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, **options)
        writer.writerow(_plain_columns(td, separator))
        writer.writerows(
            [json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows
        )


# --- Arrow and pandas


def read_parquet(path: str | Path, *, columns: list[str] | None, **options: Any) -> tuple[dict[str, Any], int]:
    """The columns of a Parquet file.

    Raises:
        ImportError: neither pyarrow nor pandas is installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        pandas = import_pandas("from_parquet reads Parquet files with pyarrow or pandas")
        return of_pandas(pandas.read_parquet(path, columns=columns, **options))
    table = parquet.read_table(path, columns=columns, **options)
    return {name: _of_arrow(table.column(name)) for name in table.column_names}, table.num_rows


def _of_arrow(column: Any) -> Any:
    import pyarrow.types as types

    kind = column.type
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return column.to_numpy() if numeric and column.null_count == 0 else column.to_pylist()


def write_parquet(path: str | Path, td: Any, *, separator: str | None, **options: Any) -> None:
    """Write a Parquet file; trailing dimensions as lists, nested entries as structs or with joined names.

    Raises:
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(f"to_parquet writes with pyarrow, {_INSTALL}") from error
    if len(td.batch_size) != 1:
        raise ValueError(f"a table has one batch dimension; this tensordict has batch size {list(td.batch_size)}.")
    columns: dict[str, Any] = {}
    _arrow_columns(td, separator, "", columns)
    parquet.write_table(pyarrow.table(columns), path, **options)


_INSTALL = "which is not installed. Run: pip install flambeau-data[frame]"


def _arrow_columns(td: Any, separator: str | None, prefix: str, out: dict[str, Any]) -> None:
    for key, value in td.items():
        name = f"{prefix}{key}"
        if isinstance(value, Tensor) and value.ndim == 1 and value.dtype is not torch.bfloat16:
            out[name] = value.detach().cpu().numpy()
        elif isinstance(value, Tensor) or value._is_non_tensor:
            out[name] = value.tolist()
        elif separator is None:
            out[name] = _nested_rows(value, td.batch_size[0])
        else:
            _arrow_columns(value, separator, f"{name}{separator}", out)


def import_pandas(what: str) -> Any:
    """The module.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{what}, and pandas is not installed. Run: pip install pandas") from error
    return pandas


def of_pandas(frame: Any) -> tuple[dict[str, Any], int]:
    """The columns of a data frame."""
    return {str(name): frame[name].to_numpy() for name in frame.columns}, len(frame)


def to_pandas(td: Any, separator: str | None) -> Any:
    """A data frame, a column for each entry.

    Raises:
        ImportError: pandas is not installed.
        ValueError: nested entries and no separator to join their names with.
    """
    pandas = import_pandas("to_pandas makes pandas data frames")
    if separator is None and any(not isinstance(item, Tensor) and not item._is_non_tensor for _, item in td.items()):
        raise ValueError("a data frame has no nested columns here; pass separator='.' to join the names.")
    columns: dict[str, Any] = {}
    _arrow_columns(td, separator or ".", "", columns)
    return pandas.DataFrame(columns)
