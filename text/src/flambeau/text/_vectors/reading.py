"""Word vectors from text, a row a line: by the native reader where a row is plain, else by the reference in Python."""

from __future__ import annotations

import ctypes
import functools
import gzip
import logging
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flambeau.text._native import LIBRARY

logger = logging.getLogger(__name__)

_I32, _I64, _P = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "fb_vectors_count": ([_P, _I64], _I64),
    "fb_vectors_lines": ([_P, _I64, _I64, _I64, _P], _I64),
    "fb_vectors_rows": ([_P, _P, _I64, _I64, _I32, _P, _P], None),
    "fb_vectors_words": ([_P, _P, _P, _I64, _P], None),
}
# Lines that are read at a time: what is not plain among them is looked at again while it is in the cache.
_BLOCK = 16384

Bytes = NDArray[np.uint8]


class Format(NamedTuple):
    """What rows look like.

    Args:
        delimiter: between the word and its vector; within the vector it is one space.
        header: 1: a line with one number is no row, wherever it is; 2: lines with up to two are none before the first
            row.
    """

    delimiter: bytes = b" "
    header: int = 1


SPACED = Format()


class Table(NamedTuple):
    """Words, each followed by a newline, as UTF-8; and their vectors, (words, dim) float32."""

    words: bytes
    vectors: NDArray[np.float32]


def split_words(words: bytes) -> list[str]:
    """The words of a table."""
    return words.decode().split("\n")[:-1]


def read_text(path: Path, *, most: int | None = None, format: Format = SPACED) -> Table:
    """Read a file of word vectors, also one that ends in `.gz`.

    Words that are not UTF-8 are left out.

    Args:
        path: the file.
        most: how many rows to read, all when None.
        format: what rows look like.

    Raises:
        RuntimeError: there are no rows, or one with another count of numbers than those before.
        ValueError: something that should be a number is none.
    """
    with _opened(path) as data:
        reader = _Reader(data, path, format)
        return reader.read(most)


@contextmanager
def _opened(path: Path) -> Iterator[Bytes]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as file:
            yield np.frombuffer(file.read(), np.uint8)
    elif path.stat().st_size == 0:
        yield np.empty(0, np.uint8)
    else:
        with path.open("rb") as file:
            # Closed with the last array that shows it; closing it here would fail while an error's traceback has one.
            yield np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


class _Reader:
    def __init__(self, data: Bytes, path: Path, format: Format) -> None:
        self.data, self.path, self.format = data, path, format
        self.native = LIBRARY.load() is not None
        self.dim: int | None = None
        self.at = 0
        self.line = 1

    def read(self, most: int | None) -> Table:
        self._find_first()
        if self.dim is None:
            raise RuntimeError(f"{os.fspath(self.path)!r} has no vectors; expected lines of a word and its numbers.")
        room = self._count()
        limit = room if most is None else min(most, room)
        vectors = np.empty((limit, self.dim), np.float32)
        words: list[bytes] = []
        filled = 0
        while filled < limit and self.at < len(self.data):
            block = vectors[filled : filled + min(_BLOCK, limit - filled)]
            blob, count = self._block(block)
            words.append(blob)
            filled += count
        if filled < limit:
            vectors = vectors[:filled].copy()
        return Table(b"".join(words), vectors)

    def _find_first(self) -> None:
        """Skip what comes before the first row, and learn from that how long vectors are."""
        while self.at < len(self.data):
            end = self._end_of_line(self.at)
            row = self._row(self.data[self.at : end].tobytes())
            if row is not None:
                self.dim = len(row[1])
                return
            self.at = end
            self.line += 1

    def _block(self, vectors: NDArray[np.float32]) -> tuple[bytes, int]:
        """Fill in as many rows as there is room for, less those that are left out; their words, and their number."""
        starts = self._lines(len(vectors))
        count = len(starts) - 1
        sizes = self._plain(starts, vectors)
        for i in np.flatnonzero(sizes < 0):
            row = self._row(self.data[starts[i] : starts[i + 1]].tobytes(), int(i))
            if row is not None:
                sizes[i] = len(row[0])
                with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
                    vectors[i] = row[1]
        kept = np.flatnonzero(sizes >= 0)
        if len(kept) < count:
            vectors[: len(kept)] = vectors[kept]
        self.at = int(starts[-1])
        self.line += count
        return self._words(starts[kept], sizes[kept]), len(kept)

    def _row(self, line: bytes, offset: int = 0) -> tuple[bytes, list[float]] | None:
        """The reference: what one line says, None where it is to be left out."""
        word, *rest = line.rstrip().split(self.format.delimiter, 1)
        numbers = self._numbers(rest[0]) if rest else []
        where = f"{os.fspath(self.path)!r}, line {self.line + offset}"
        header = self.format.header
        if len(numbers) == header == 1 or (header == 2 and self.dim is None and len(numbers) <= 2):
            logger.warning("%s: %r has a vector of %d numbers; it is left out as a header.", where, word, len(numbers))
            return None
        if len(numbers) != (self.dim or len(numbers)) or not numbers:
            known = f"vectors before it have {self.dim}" if self.dim else "every line has a word and its numbers"
            raise RuntimeError(f"{where}: the vector of {word!r:.60} has {len(numbers)} numbers, but {known}.")
        try:
            word.decode()
        except UnicodeDecodeError:
            logger.warning("%s: %r is not UTF-8; it is left out.", where, word)
            return None
        try:
            return word, [float(number) for number in numbers]
        except ValueError as error:
            raise ValueError(f"{where}: the vector of {word!r:.60} holds no numbers ({error}).") from error

    def _numbers(self, text: bytes) -> list[bytes]:
        # Exactly one space, so that a non-breaking one stays where it is: upstream's own rule.
        return text.split(b" ") if self.format.delimiter == b" " else text.split()

    # By the native library, or without it.

    def _count(self) -> int:
        rest = self.data[self.at :]
        if self.native:
            return int(_function("fb_vectors_count")(rest.ctypes.data, len(rest)))
        return int(np.count_nonzero(rest == ord("\n"))) + int(rest[-1] != ord("\n"))

    def _lines(self, room: int) -> NDArray[np.int64]:
        starts = np.empty(room + 1, np.int64)
        if self.native:
            lines = _function("fb_vectors_lines")
            count = lines(self.data.ctypes.data, len(self.data), self.at, room, starts.ctypes.data)
            return starts[: count + 1]
        count, starts[0] = 0, self.at
        while count < room and starts[count] < len(self.data):
            starts[count + 1] = self._end_of_line(int(starts[count]))
            count += 1
        return starts[: count + 1]

    def _plain(self, starts: NDArray[np.int64], vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Read the rows that are plain; the bytes of each word, -1 for the others."""
        sizes = np.full(len(starts) - 1, -1, np.int64)
        if self.native:
            _function("fb_vectors_rows")(
                self.data.ctypes.data,
                starts.ctypes.data,
                len(sizes),
                self.dim,
                self.format.delimiter[0],
                vectors.ctypes.data,
                sizes.ctypes.data,
            )
        return sizes

    def _words(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bytes:
        if not self.native:
            return b"".join(
                self.data[start : start + size].tobytes() + b"\n" for start, size in zip(starts, sizes, strict=True)
            )
        output = np.empty(int(sizes.sum()) + len(sizes), np.uint8)
        _function("fb_vectors_words")(
            self.data.ctypes.data, starts.ctypes.data, sizes.ctypes.data, len(sizes), output.ctypes.data
        )
        return output.tobytes()

    def _end_of_line(self, at: int) -> int:
        # In growing pieces: a line may be as long as the file.
        size = 4096
        while True:
            piece = self.data[at : at + size].tobytes()
            place = piece.find(b"\n")
            if place >= 0 or at + size >= len(self.data):
                return at + place + 1 if place >= 0 else len(self.data)
            size *= 2


@functools.cache
def _function(name: str) -> Any:
    return LIBRARY.function(name, *_SIGNATURES[name])
