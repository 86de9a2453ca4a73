"""Reading text: lines, rows of CSV files, JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from flambeau.data.datapipes._flat_map import Expanding
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe


class _Lines:
    """How the lines of a stream are given out.

    Args:
        skip_lines: lines to leave out at the beginning.
        strip_newline: take the end of the line off.
        decode: make strings of bytes.
        encoding, errors: as for `bytes.decode`.
        return_path: pair each item with the stream's path.
        as_tuple: make tuples of lists.
    """

    def __init__(
        self,
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = True,
        as_tuple: bool = False,
    ) -> None:
        if skip_lines < 0:
            raise ValueError(f"skip_lines has to be >= 0, got {skip_lines}.")
        self.skip_lines = skip_lines
        self.strip_newline = strip_newline
        self.decode = decode
        self.encoding = encoding
        self.errors = errors
        self.return_path = return_path
        self.as_tuple = as_tuple

    def lines(self, stream: Iterable[Any]) -> Iterator[Any]:
        """The lines; the stream is closed at its end, or when no more are wanted."""
        try:
            iterator = iter(stream)
            for _ in range(self.skip_lines):
                if next(iterator, None) is None:
                    return
            for line in iterator:
                yield self._line(line)
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    def _line(self, line: Any) -> Any:
        if self.strip_newline:
            line = line.strip("\r\n") if isinstance(line, str) else line.strip(b"\r\n")
        return line.decode(self.encoding, self.errors) if self.decode and isinstance(line, bytes) else line

    def out(self, path: str, item: Any) -> Any:
        """An item as it is yielded."""
        item = tuple(item) if self.as_tuple and isinstance(item, list) else item
        return (path, item) if self.return_path else item


@functional_datapipe("readlines")
class LineReaderIterDataPipe(Expanding[Any]):
    """Lines of files (functional name: `readlines`).

    Args:
        source_datapipe: source of `(path, stream)`; streams are closed when they are read.
        skip_lines: lines to leave out at the beginning of each file.
        strip_newline: take the end of the line off.
        decode: make strings of bytes.
        encoding, errors: as for `bytes.decode`.
        return_path: yield `(path, line)` rather than the line.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = True,
    ) -> None:
        self.source_datapipe: IterDataPipe[Any] = source_datapipe
        self.reading = _Lines(
            skip_lines=skip_lines,
            strip_newline=strip_newline,
            decode=decode,
            encoding=encoding,
            errors=errors,
            return_path=return_path,
        )

    def _expand(self, item: tuple[str, Any]) -> Iterator[Any]:
        path, stream = item
        for line in self.reading.lines(stream):
            yield self.reading.out(path, line)


class _CSV(Expanding[Any]):
    """Base: rows by a reader of the csv module."""

    def __init__(
        self, source_datapipe: Any, skip_lines: int, decode: bool, encoding: str, errors: str, return_path: bool,
        as_tuple: bool, fmtparams: dict[str, Any],
    ) -> None:  # fmt: skip
        self.source_datapipe = source_datapipe
        self.reading = _Lines(
            skip_lines=skip_lines,
            strip_newline=False,  # the reader needs it: a quoted field may go over several lines
            decode=decode,
            encoding=encoding,
            errors=errors,
            return_path=return_path,
            as_tuple=as_tuple,
        )
        self.fmtparams = fmtparams

    def _rows(self, lines: Iterator[str]) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__qualname__} has to define _rows.")

    def _expand(self, item: tuple[str, Any]) -> Iterator[Any]:
        path, stream = item
        lines = self.reading.lines(stream)
        try:
            for row in self._rows(lines):
                yield self.reading.out(path, row)
        finally:
            lines.close()  # type: ignore[attr-defined]  # a generator


@functional_datapipe("parse_csv")
class CSVParserIterDataPipe(_CSV):
    """Rows of CSV files, as lists of strings (functional name: `parse_csv`).

    Args:
        source_datapipe: source of `(path, stream)`; streams are closed when they are read.
        skip_lines: lines to leave out at the beginning of each file.
        decode: make strings of bytes.
        encoding, errors: as for `bytes.decode`.
        return_path: yield `(path, row)`.
        as_tuple: rows as tuples.
        **fmtparams: as for `csv.reader`, such as `delimiter`.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        as_tuple: bool = False,
        **fmtparams: Any,
    ) -> None:
        super().__init__(source_datapipe, skip_lines, decode, encoding, errors, return_path, as_tuple, fmtparams)

    def _rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(lines, **self.fmtparams)


@functional_datapipe("parse_csv_as_dict")
class CSVDictParserIterDataPipe(_CSV):
    """Rows of CSV files, as dicts by the names in the first row (functional name: `parse_csv_as_dict`).

    Args:
        source_datapipe: source of `(path, stream)`; streams are closed when they are read.
        skip_lines: lines to leave out at the beginning of each file, before the names.
        decode: make strings of bytes.
        encoding, errors: as for `bytes.decode`.
        return_path: yield `(path, row)`.
        **fmtparams: as for `csv.DictReader`, such as `delimiter`.
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        **fmtparams: Any,
    ) -> None:
        super().__init__(source_datapipe, skip_lines, decode, encoding, errors, return_path, False, fmtparams)

    def _rows(self, lines: Iterator[str]) -> Iterator[dict[Any, Any]]:
        return csv.DictReader(lines, **self.fmtparams)


@functional_datapipe("parse_json_files")
class JsonParserIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Contents of JSON files (functional name: `parse_json_files`).

    Args:
        source_datapipe: source of `(path, stream)`; streams are closed when they are read.
        **kwargs: as for `json.loads`.

    Yields:
        `(path, value)`.
    """

    state_fields = ()

    def __init__(self, source_datapipe: IterDataPipe[tuple[str, IO[Any]]], **kwargs: Any) -> None:
        self.source_datapipe = source_datapipe
        self.kwargs = kwargs

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.source_datapipe:
            try:
                content = stream.read()
            finally:
                stream.close()
            yield path, json.loads(content, **self.kwargs)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]
