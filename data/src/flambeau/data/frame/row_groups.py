"""Row groups of Parquet and Arrow files, in the order of a pass, and the rows between two places in it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import check_process, pa, pl, run
from flambeau.data.frame._physical import from_arrow_type, held_frame
from flambeau.data.frame.errors import FrameNameError, FrameValueError


@dataclass(frozen=True)
class RowGroup:
    """A part of a file that is read as one.

    Attributes:
        file: path or URL.
        group: its number in the file: of a Parquet row group, or of an Arrow record batch.
        rows: how many it has.
        first: the number of its first row in the file.
    """

    file: str
    group: int
    rows: int
    first: int


class RowGroups:
    """All row groups of some files.

    Args:
        files: paths or URLs of Parquet (.parquet) or Arrow IPC (.arrow, .feather, .ipc) files.
        columns: names of the columns to read; all where None.

    Attributes:
        dtype: names and types of the columns read, as the first file says.

    Raises:
        ValueError: a file of another kind.
    """

    def __init__(self, files: Sequence[str], columns: Sequence[str] | None) -> None:
        self.files = list(files)
        self.columns = None if columns is None else list(columns)
        self.groups = [one for file in self.files for one in groups_of(file)]
        self.rows = sum(one.rows for one in self.groups)
        schema = _schema(self.files[0])
        names = schema.names if self.columns is None else self.columns
        if unknown := [name for name in names if name not in schema.names]:
            raise FrameNameError(f"{self.files[0]} has no column {unknown[0]!r}; it has {schema.names}.")
        fields = [schema.field(name) for name in names]
        self.dtype = dt.Struct([dt.Field(one.name, from_arrow_type(one.type, one.nullable)) for one in fields])

    def order(self, epoch: int, shuffle: bool, seed: int) -> Order:
        """The row groups in the order of a pass: that of the files, or one that seed and epoch determine."""
        places = np.random.default_rng([seed, epoch]).permutation(len(self.groups)) if shuffle else None
        return Order(self.groups if places is None else [self.groups[place] for place in places], self.dtype)


class Order:
    """Row groups in the order of one pass; its rows are numbered from 0."""

    def __init__(self, groups: list[RowGroup], dtype: dt.Struct) -> None:
        self.groups = groups
        self.dtype = dtype
        self.ends = list(accumulate(one.rows for one in groups))
        self._read: tuple[int, pl.DataFrame] | None = None

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

    def read(self, start: int, stop: int) -> pl.DataFrame:
        """Rows from one place in the pass to another; of a row group the last one read is kept."""
        place = bisect.bisect_right(self.ends, start)
        parts = []
        while start < stop and place < len(self.groups):
            begin = self.ends[place] - self.groups[place].rows
            end = min(stop, self.ends[place])
            parts.append(self._group(place).slice(start - begin, end - start))
            start, place = end, place + 1
        return pl.concat(parts) if len(parts) > 1 else parts[0]

    def _group(self, place: int) -> pl.DataFrame:
        if self._read is None or self._read[0] != place:
            self._read = (place, read_group(self.groups[place], self.dtype))
        return self._read[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": None}


def groups_of(file: str) -> list[RowGroup]:
    """The row groups of a file, but for empty ones."""
    if _is_arrow(file):
        reader = _ipc(file)
        counts = [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)]
    elif file.endswith(".parquet"):
        metadata = _parquet(file).metadata
        counts = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
    else:
        raise FrameValueError(f"{file} is neither .parquet nor .arrow, .feather, .ipc; convert it, or use scan_csv.")
    first = [0, *accumulate(counts)]
    return [RowGroup(file, place, rows, first[place]) for place, rows in enumerate(counts) if rows]


def read_group(one: RowGroup, dtype: dt.Struct) -> pl.DataFrame:
    """One row group of a file: the columns of a type, as columns hold them."""
    check_process()
    names = [field.name for field in dtype.fields]
    if _is_arrow(one.file):
        read = pl.from_arrow(pa.Table.from_batches([_ipc(one.file).get_batch(one.group)]).select(names))
        assert isinstance(read, pl.DataFrame)  # a table makes a frame
    else:
        # Polars finds the row group by its rows, and decodes text ten times as fast as Arrow's own reader.
        read = run(pl.scan_parquet(one.file).select(names).slice(one.first, one.rows))
    return held_frame(read, dtype)


def _is_arrow(file: str) -> bool:
    return file.endswith((".arrow", ".feather", ".ipc"))


def _schema(file: str) -> pa.Schema:
    return _ipc(file).schema if _is_arrow(file) else _parquet(file).schema_arrow


def _parquet(file: str) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(_open(file))


def _ipc(file: str) -> Any:
    return pa.ipc.open_file(pa.memory_map(file) if "://" not in file else _open(file))


def _open(file: str) -> Any:
    if "://" not in file:
        return str(Path(file))
    from pyarrow.fs import FileSystem

    system, path = FileSystem.from_uri(file)
    return system.open_input_file(path)
