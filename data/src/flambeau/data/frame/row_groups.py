"""Row groups of Parquet and Arrow files, in the order of a pass, and the rows between two places in it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.data.frame._engine import pa
from flambeau.data.frame.errors import FrameValueError


@dataclass(frozen=True)
class RowGroup:
    """A part of a file that is read as one.

    Attributes:
        file: path or URL.
        group: its number in the file: of a Parquet row group, or of an Arrow record batch.
        rows: how many it has.
    """

    file: str
    group: int
    rows: int


class RowGroups:
    """All row groups of some files.

    Args:
        files: paths or URLs of Parquet (.parquet) or Arrow IPC (.arrow, .feather, .ipc) files.
        columns: names of the columns to read; all where None.

    Raises:
        ValueError: a file of another kind.
    """

    def __init__(self, files: Sequence[str], columns: Sequence[str] | None) -> None:
        self.files = list(files)
        self.columns = None if columns is None else list(columns)
        self.groups = [one for file in self.files for one in groups_of(file)]
        self.rows = sum(one.rows for one in self.groups)

    def order(self, epoch: int, shuffle: bool, seed: int) -> Order:
        """The row groups in the order of a pass: that of the files, or one that seed and epoch determine."""
        places = np.random.default_rng([seed, epoch]).permutation(len(self.groups)) if shuffle else None
        return Order(self.groups if places is None else [self.groups[place] for place in places], self.columns)


class Order:
    """Row groups in the order of one pass; its rows are numbered from 0."""

    def __init__(self, groups: list[RowGroup], columns: list[str] | None) -> None:
        self.groups = groups
        self.columns = columns
        self.ends = list(accumulate(one.rows for one in groups))
        self._table: tuple[int, pa.Table] | None = None
        self._opened: tuple[str, Any] | None = None

    @property
    def rows(self) -> int:
        """All rows of the pass."""
        return self.ends[-1] if self.ends else 0

    def locate(self, row: int) -> dict[str, Any]:
        """File, row group and row within it of a row of the pass; the file is None behind the last."""
        place = bisect.bisect_right(self.ends, row)
        if place == len(self.groups):
            return {"file": None, "row_group": 0, "row": 0}
        one = self.groups[place]
        return {"file": one.file, "row_group": one.group, "row": row - (self.ends[place] - one.rows)}

    def find(self, file: str | None, row_group: int, row: int) -> int:
        """The row of the pass that `locate` said this of.

        Raises:
            ValueError: there is no such row any more.
        """
        if file is None:
            return self.rows
        for one, end in zip(self.groups, self.ends, strict=True):
            if (one.file, one.group) == (file, row_group) and row < one.rows:
                return end - one.rows + row
        raise FrameValueError(
            f"the state is at row {row} of row group {row_group} of {file}, which is not among the files read; "
            "give the files that the state was taken with."
        )

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows from one place in the pass to another; of a row group the last one read is kept."""
        place = bisect.bisect_right(self.ends, start)
        parts = []
        while start < stop and place < len(self.groups):
            begin = self.ends[place] - self.groups[place].rows
            end = min(stop, self.ends[place])
            parts.append(self._read(place).slice(start - begin, end - start))
            start, place = end, place + 1
        return pa.concat_tables(parts)

    def _read(self, place: int) -> pa.Table:
        if self._table is None or self._table[0] != place:
            one = self.groups[place]
            if self._opened is None or self._opened[0] != one.file:
                self._opened = (one.file, _opened(one.file))
            self._table = (place, _read(self._opened[1], one.group, self.columns))
        return self._table[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_table": None, "_opened": None}


def groups_of(file: str) -> list[RowGroup]:
    """The row groups of a file, but for empty ones."""
    if file.endswith((".arrow", ".feather", ".ipc")):
        reader = _ipc(file)
        counts = [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)]
    elif file.endswith(".parquet"):
        metadata = _parquet(file).metadata
        counts = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
    else:
        raise FrameValueError(f"{file} is neither .parquet nor .arrow, .feather, .ipc; convert it, or use scan_csv.")
    return [RowGroup(file, place, rows) for place, rows in enumerate(counts) if rows]


def read_group(file: str, group: int, columns: list[str]) -> pa.Table:
    """One row group of a file."""
    return _read(_opened(file), group, columns)


def _opened(file: str) -> Any:
    return _parquet(file) if file.endswith(".parquet") else _ipc(file)


def _read(opened: Any, group: int, columns: list[str] | None) -> pa.Table:
    if hasattr(opened, "read_row_group"):
        return opened.read_row_group(group, columns=columns)
    table = pa.Table.from_batches([opened.get_batch(group)])
    return table if columns is None else table.select(columns)


def _parquet(file: str) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(_open(file), pre_buffer=True)


def _ipc(file: str) -> Any:
    return pa.ipc.open_file(pa.memory_map(file) if "://" not in file else _open(file))


def _open(file: str) -> Any:
    if "://" not in file:
        return str(Path(file))
    from pyarrow.fs import FileSystem

    system, path = FileSystem.from_uri(file)
    return system.open_input_file(path)
