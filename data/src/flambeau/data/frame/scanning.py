"""Frames over files that are read when values are asked for, and no more of them than is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._physical import logical, physical
from flambeau.data.frame._plan import Rows
from flambeau.data.frame.errors import FrameValueError

READERS: dict[str, Any] = {
    "parquet": pl.scan_parquet,
    "arrow": pl.scan_ipc,
    "csv": pl.scan_csv,
    "jsonl": pl.scan_ndjson,
}


class Scan(Rows):
    """Rows in files, in the order of the files.

    Attributes:
        files: paths, or URLs that Polars can open.
        kind: "parquet", "arrow", "csv" or "jsonl".
        options: of Polars' reader.
    """

    streams = True

    def __init__(self, files: Sequence[str], kind: str, options: dict[str, Any]) -> None:
        self.files = list(files)
        self.kind = kind
        self.options = options
        schema = self._open().collect_schema()
        super().__init__(dt.Struct([dt.Field(name, logical(held)) for name, held in schema.items()]))

    def _open(self) -> pl.LazyFrame:
        query: pl.LazyFrame = READERS[self.kind](self.files, **self.options)
        return query

    def _lazy(self) -> pl.LazyFrame:
        query = self._open()
        wanted = {one.name: physical(one.dtype) for one in self.dtype.fields}
        other = {name: wanted[name] for name, held in query.collect_schema().items() if held != wanted[name]}
        return query.with_columns(pl.col(name).cast(held) for name, held in other.items()) if other else query


def paths_of(files: str | Path | Sequence[str | Path], suffix: str) -> list[str]:
    """Files as a list of text: a folder stands for its files of a suffix, a pattern for what it matches, sorted.

    Raises:
        ValueError: there are none.
    """
    given = [files] if isinstance(files, str | Path) else list(files)
    found: list[str] = []
    for one in given:
        text = str(one)
        if "://" in text:
            found.append(text)
        elif Path(text).is_dir():
            found += sorted(str(path) for path in Path(text).rglob(f"*.{suffix}"))
        elif any(mark in text for mark in "*?["):
            anchor = Path(text).anchor
            found += sorted(str(path) for path in Path(anchor or ".").glob(str(Path(text).relative_to(anchor or "."))))
        else:
            found.append(text)
    if not found:
        raise FrameValueError(f"no *.{suffix} files in {given}; give files, a folder that holds some, or a pattern.")
    return found
