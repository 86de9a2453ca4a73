"""Where the lines of a file are, in bytes."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

Span = tuple[int, int, int]

_END = re.compile(rb"\r\n|\r|\n")


def universal_lines(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """The lines of a UTF-8 file as Python's text files give them, each with the byte it ends before."""
    end = 0
    for raw in file:
        if b"\r" not in raw:
            end += len(raw)
            yield raw.decode("utf-8"), end
            continue
        start = 0
        for match in _END.finditer(raw):
            yield f"{raw[start : match.start()].decode('utf-8')}\n", end + match.end()
            start = match.end()
        if start < len(raw):
            yield raw[start:].decode("utf-8"), end + len(raw)
        end += len(raw)


def line_spans(path: Path) -> Iterator[tuple[int, int]]:
    """(first byte, end) of each line of a file."""
    size = path.stat().st_size
    if size == 0:  # which cannot be mapped
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        start = 0
        for match in _END.finditer(view):
            yield start, match.end()
            start = match.end()
        if start < size:
            yield start, size
