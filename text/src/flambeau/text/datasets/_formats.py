"""How items are read from text files: from the first to the last, and by index.

A format streams (`stream`), and it finds its records' places in the files (`spans`) and makes an item of one (`item`).
Both ways give the same items. Files are UTF-8, with the three ends of a line that Python's text files know.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import iob_columns, squad_items, story_parts
from flambeau.text.datasets._lines import Span, line_spans, universal_lines

# Texts of some sets are longer than the 131,072 characters at which the csv module stops. The limit is its own, global
# one; larger than before is safe for everybody.
_LONGEST_FIELD = 1 << 27


class PlacedFormat(Protocol):
    """What a split's files hold, as records that have places in them."""

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items, from a pipe of the files' paths."""

    def spans(self, paths: Sequence[Path]) -> Iterator[tuple[Span, ...]]:
        """For each item its places, a (file number, first byte, end) for each record that it is made of."""

    def item(self, records: Sequence[bytes], files: Sequence[int]) -> Any:
        """The item of these records, and of the files with these numbers."""


class Read(IterDataPipe[Any]):
    """Items of one file after the other.

    Args:
        paths: source of paths.
        items: from a path to its items.
    """

    state_fields = None

    def __init__(self, paths: IterDataPipe[Any], items: Callable[[Any], Iterable[Any]]) -> None:
        self.source_datapipe = paths
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        for path in self.source_datapipe:
            yield from self.items(path)


@dataclass(frozen=True)
class Rows:
    """Rows of separated values.

    Args:
        make: from a row to its item, or to None for a row that is left out.
        delimiter: between values.
        quoted: values may stand in double quotes, which are doubled inside; they may hold ends of lines then.
        skip: lines left out at the beginning.
    """

    make: Callable[[list[str]], Any]
    delimiter: str = ","
    quoted: bool = True
    skip: int = 0

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items."""
        return Read(paths, self.read)

    def read(self, path: str) -> Iterator[Any]:
        """The items of one file."""
        with Path(path).open(encoding="utf-8") as file:
            yield from filter(
                _is_item, map(self.make, filter(None, self._rows(itertools.islice(file, self.skip, None))))
            )

    def spans(self, paths: Sequence[Path]) -> Iterator[tuple[Span, ...]]:
        """One place for each item."""
        for number, path in enumerate(paths):
            with path.open("rb") as file:
                yield from self._spans(file, number)

    def _spans(self, file: IO[bytes], number: int) -> Iterator[tuple[Span, ...]]:
        lines = _Counted(universal_lines(file))
        for _ in itertools.islice(lines, self.skip):
            pass
        start = lines.end
        for row in self._rows(lines):
            if row and self.make(row) is not None:
                yield ((number, start, lines.end),)
            start = lines.end

    def item(self, records: Sequence[bytes], files: Sequence[int]) -> Any:
        """The item of one row."""
        text = io.StringIO(records[0].decode("utf-8"), newline=None)
        return self.make(next(self._rows(text)))

    def _rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if csv.field_size_limit() < _LONGEST_FIELD:
            csv.field_size_limit(_LONGEST_FIELD)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.delimiter, quoting=quoting)


class _Counted:
    """Lines handed out one at a time, with the end of the last one."""

    def __init__(self, lines: Iterator[tuple[str, int]]) -> None:
        self._lines, self.end = lines, 0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> str:
        line, self.end = next(self._lines)
        return line


@dataclass(frozen=True)
class Lines:
    """Lines of text, each an item, or with the file's tag in front.

    Args:
        strip: what is taken off at both ends: "newline", "space" (all white space), or None.
        tags: one for each file; items are (tag, line) then.
    """

    strip: str | None = "newline"
    tags: tuple[Any, ...] = ()

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items."""
        return Read(paths.enumerate(), self.read)

    def read(self, numbered: tuple[int, str]) -> Iterator[Any]:
        """The items of one file, given with its number."""
        number, path = numbered
        with Path(path).open(encoding="utf-8") as file:
            lines = map(stripper(self.strip), file)
            yield from zip(itertools.repeat(self.tags[number]), lines) if self.tags else lines  # endless

    def spans(self, paths: Sequence[Path]) -> Iterator[tuple[Span, ...]]:
        """One place for each line."""
        for number, path in enumerate(paths):
            for start, end in line_spans(path):
                yield ((number, start, end),)

    def item(self, records: Sequence[bytes], files: Sequence[int]) -> Any:
        """One line, or a tag and a line."""
        line = stripper(self.strip)(_decoded(records[0]))
        return (self.tags[files[0]], line) if self.tags else line


@dataclass(frozen=True)
class Parallel:
    """Lines of several files side by side; as many as the shortest one has.

    Args:
        strip: as for `Lines`.
    """

    strip: str | None = None

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of tuples."""
        return Read(_Together(paths), self.read)

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The tuples of files that belong together."""
        strip = stripper(self.strip)
        opened = [Path(path).open(encoding="utf-8") for path in paths]  # noqa: SIM115  # closed below, however many
        try:
            yield from zip(*(map(strip, file) for file in opened), strict=False)
        finally:
            for file in opened:
                file.close()

    def spans(self, paths: Sequence[Path]) -> Iterator[tuple[Span, ...]]:
        """A place in each file for each tuple."""
        for places in zip(*map(line_spans, paths), strict=False):
            yield tuple((number, start, end) for number, (start, end) in enumerate(places))

    def item(self, records: Sequence[bytes], files: Sequence[int]) -> tuple[str, ...]:
        """One tuple."""
        strip = stripper(self.strip)
        return tuple(strip(_decoded(record)) for record in records)


class _Together(IterDataPipe[tuple[str, ...]]):
    """All samples of a source as one."""

    state_fields = None

    def __init__(self, source_datapipe: IterDataPipe[str]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        yield tuple(self.source_datapipe)


@dataclass(frozen=True)
class Iob:
    """Sentences with a token a line and an empty line between sentences; items are lists of columns.

    Args:
        separator: between the columns of a line.
    """

    separator: str = "\t"

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items."""
        lines: Any = paths.open_files(encoding="utf-8").readlines()
        sentences: IterDataPipe[Any] = lines.read_iob(sep=self.separator)
        return sentences

    def spans(self, paths: Sequence[Path]) -> Iterator[tuple[Span, ...]]:
        """The place of each sentence."""
        # Upstream: the files follow each other without a break, which one at a time never shows.
        for number, path in enumerate(paths):
            start = end = 0
            with path.open("rb") as file:
                before = 0
                for line, after in universal_lines(file):
                    if line.strip():
                        start, end = (before if start == end else start), after
                    elif start != end:
                        yield ((number, start, end),)
                        start = end = after
                    before = after
            if start != end:
                yield ((number, start, end),)

    def item(self, records: Sequence[bytes], files: Sequence[int]) -> list[list[str]]:
        """One sentence."""
        lines = io.StringIO(records[0].decode("utf-8"), newline=None)
        return next(iob_columns(lines, self.separator))


@dataclass(frozen=True)
class Squad:
    """Questions about paragraphs, in the JSON of SQuAD."""

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items."""
        documents: Any = paths.open_files(encoding="utf-8").parse_json_files()
        questions: IterDataPipe[Any] = documents.read_squad()
        return questions

    def table(self, paths: Sequence[Path]) -> Iterator[Any]:
        """The items; a JSON document has no places, so that the index holds them themselves."""
        import json

        for path in paths:
            yield from squad_items(json.loads(path.read_bytes()))


@dataclass(frozen=True)
class StoryFiles:
    """Articles with highlights, one in each file."""

    def stream(self, paths: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """A pipe of items."""
        files: Any = paths.open_files(mode="rb")
        stories: IterDataPipe[Any] = files.parse_cnndm_data()
        return stories

    def read(self, path: Path) -> tuple[str, str]:
        """The item of one file."""
        return story_parts(path.read_bytes().splitlines(keepends=True))


Format = PlacedFormat | Squad | StoryFiles


def stripper(strip: str | None) -> Callable[[str], str]:
    """The function that takes off what `Lines` says."""
    strippers: dict[str | None, Callable[[str], str]] = {None: str, "newline": _without_newline, "space": str.strip}
    return strippers[strip]


def _without_newline(line: str) -> str:
    return line.strip("\r\n")


def _decoded(record: bytes) -> str:
    text = record.decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _is_item(value: Any) -> bool:
    return value is not None
