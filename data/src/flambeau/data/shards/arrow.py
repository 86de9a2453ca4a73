"""Parquet and Arrow files as shards."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Sequence
from typing import Any

from flambeau.data.shards.bytes_source import BytesSource
from flambeau.data.shards.errors import DamagedShardError, ShardError
from flambeau.data.shards.shard import Shard


class _Columnar(Shard):
    """Rows of a file that is read by groups; each thread keeps the group it read last."""

    def __init__(
        self, path: Any, columns: Sequence[str] | None = None, *, settings: dict[str, Any] | None = None
    ) -> None:
        super().__init__(BytesSource(path, settings))
        self.columns = None if columns is None else list(columns)
        self._lock = threading.Lock()
        self._file: Any = None
        self._ends: list[int] = []
        self._kept = threading.local()

    def __len__(self) -> int:
        self._open()
        return self._ends[-1] if self._ends else 0

    def read(self, item: int) -> dict[str, Any]:
        """As `Shard.read`."""
        self._open()
        group = bisect.bisect_right(self._ends, item)
        if getattr(self._kept, "group", None) != group:
            self._kept.table, self._kept.group = self.read_group(group), group
        begin = self._ends[group - 1] if group else 0
        table = self._kept.table
        return {name: table.column(name)[item - begin].as_py() for name in table.schema.names}

    def read_group(self, group: int) -> Any:
        """A row group, or record batch, as an Arrow table."""
        import pyarrow

        self._open()
        try:
            with self._lock:  # readers of Arrow share a position
                return self._read_group(group)
        except (pyarrow.ArrowException, OSError) as error:
            raise DamagedShardError(
                self.path, self._offset(group), f"row group {group} cannot be read ({_one_line(error)})"
            ) from error

    def _open(self) -> Any:
        pyarrow = _pyarrow()
        with self._lock:
            if self._file is None:
                try:
                    self._file, sizes = self._open_file()
                except (pyarrow.ArrowException, OSError) as error:
                    if isinstance(error, ShardError):
                        raise
                    raise DamagedShardError(self.path, 0, f"it cannot be opened ({_one_line(error)})") from error
                self._ends = list(itertools.accumulate(sizes))
        return self._file

    def _input(self) -> Any:
        if self.remote:
            from flambeau.data.storage import open_object

            return _pyarrow().PythonFile(open_object(self.path, **self.settings), mode="r")
        return _pyarrow().BufferReader(self.source.whole())

    def _open_file(self) -> tuple[Any, list[int]]:
        raise NotImplementedError

    def _read_group(self, group: int) -> Any:
        raise NotImplementedError

    def _offset(self, group: int) -> int:
        return 0

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "columns": self.columns, "settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["columns"], settings=state["settings"])  # type: ignore[misc]


class ParquetShard(_Columnar):
    """Rows of a Parquet file, as dictionaries of columns; `read_group` gives whole row groups.

    Args:
        path: file or URL.
        columns: which to read, None for all.
        settings: keywords of `open_object`, for URLs.
    """

    def _open_file(self) -> tuple[Any, list[int]]:
        _pyarrow()
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(self._input())
        return file, [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]

    def _read_group(self, group: int) -> Any:
        return self._file.read_row_group(group, columns=self.columns, use_threads=False)

    def _offset(self, group: int) -> int:
        column = self._file.metadata.row_group(group).column(0)
        return int(column.dictionary_page_offset or column.data_page_offset)


class ArrowShard(_Columnar):
    """Rows of an Arrow IPC file, or of a stored Arrow IPC stream, as dictionaries of columns.

    Args:
        path: file or URL.
        columns: which to give, None for all.
        settings: keywords of `open_object`, for URLs.
    """

    def _open_file(self) -> tuple[Any, list[int]]:
        pyarrow = _pyarrow()
        if bytes(self.source.read(0, 6)) == b"ARROW1":
            file = pyarrow.ipc.open_file(self._input())
            batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        else:
            batches = list(pyarrow.ipc.open_stream(self._input()))
        return batches, [batch.num_rows for batch in batches]

    def _read_group(self, group: int) -> Any:
        batch = self._file[group]
        return batch if self.columns is None else batch.select(self.columns)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _pyarrow() -> Any:
    try:
        import pyarrow.ipc
    except ImportError as error:
        raise ShardError(
            "Parquet and Arrow shards are read by pyarrow. Run: pip install flambeau-data[frame]"
        ) from error
    return pyarrow
