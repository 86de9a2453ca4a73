"""Reading Kaldi's archives: vectors and matrices by key, binary or text, also compressed, and lists of places in them.

An archive (ark) holds keys and values one after the other. A list (scp) has a line `key path:offset` for each value,
with `[first:last,first:last]` for a part of a matrix, both ends included. Nothing is run and nothing unpacked unless
`permit` allows it: a list is text from anywhere, and Kaldi's own readers run what it names.
"""

from __future__ import annotations

import contextlib
import gzip as gzip_files
import re
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError

__all__ = ["read_mat_ark", "read_mat_scp", "read_vec_flt_ark", "read_vec_flt_scp", "read_vec_int_ark"]


class KaldiFileError(FlambeauError, ValueError):
    """A file that is not what it should be, or that asks for what is not permitted."""


_permitted: ContextVar[frozenset[str]] = ContextVar("permitted", default=frozenset())


@contextlib.contextmanager
def permit(*, gzip: bool = False, pipes: bool = False) -> Iterator[None]:
    """Allow, inside a with statement, what is refused elsewhere.

    Args:
        gzip: paths that end in `.gz` are unpacked.
        pipes: `command |` in place of a path is run by the shell. Only for lists that you wrote yourself.
    """
    allowed = {name for name, wanted in (("gzip", gzip), ("pipes", pipes)) if wanted}
    token = _permitted.set(frozenset(allowed))
    try:
        yield
    finally:
        _permitted.reset(token)


def read_vec_int_ark(file_or_fd: Any) -> Iterable[tuple[str, Tensor]]:
    """Read vectors of integers, such as alignments.

    Args:
        file_or_fd: path of an archive, also as `ark:path`, or a binary file object.

    Yields:
        Key and (size,) int32.

    Raises:
        KaldiFileError: (a ValueError) the file is damaged, or holds something else.
        FileNotFoundError: there is no such file.
    """
    return _read_archive(file_or_fd, _int_vector)


def read_vec_flt_ark(file_or_fd: Any) -> Iterable[tuple[str, Tensor]]:
    """Read vectors of numbers from an archive.

    Args:
        file_or_fd: path of an archive, also as `ark:path`, or a binary file object.

    Yields:
        Key and (size,) float32 or float64, as stored; float32 from text.

    Raises:
        KaldiFileError: (a ValueError) the file is damaged, or holds something else.
        FileNotFoundError: there is no such file.
    """
    return _read_archive(file_or_fd, _vector)


def read_vec_flt_scp(file_or_fd: Any) -> Iterable[tuple[str, Tensor]]:
    """Read vectors of numbers by a list of places.

    Args:
        file_or_fd: path of a list, also as `scp:path`, or a binary file object.

    Yields:
        Key and (size,) float32 or float64, as stored; float32 from text.

    Raises:
        KaldiFileError: (a ValueError) a file is damaged, or a line names what is not permitted.
        FileNotFoundError: there is no such file.
    """
    return _read_list(file_or_fd, _vector)


def read_mat_ark(file_or_fd: Any) -> Iterable[tuple[str, Tensor]]:
    """Read matrices from an archive.

    Args:
        file_or_fd: path of an archive, also as `ark:path`, or a binary file object.

    Yields:
        Key and (rows, columns) float32 or float64, as stored; compressed matrices and text give float32.

    Raises:
        KaldiFileError: (a ValueError) the file is damaged, or holds something else.
        FileNotFoundError: there is no such file.
    """
    return _read_archive(file_or_fd, _matrix)


def read_mat_scp(file_or_fd: Any) -> Iterable[tuple[str, Tensor]]:
    """Read matrices by a list of places.

    Args:
        file_or_fd: path of a list, also as `scp:path`, or a binary file object.

    Yields:
        Key and (rows, columns) float32 or float64, as stored; compressed matrices and text give float32.

    Raises:
        KaldiFileError: (a ValueError) a file is damaged, or a line names what is not permitted.
        FileNotFoundError: there is no such file.
    """
    return _read_list(file_or_fd, _matrix)


_Reader = Callable[["_Source"], Tensor]

# --- files ----------------------------------------------------------------------------------------

# Read at once: what a damaged header asks for is not believed before it is there.
_PORTION = 2**24


class _Source:
    """A binary file with a name for messages, read without trusting sizes."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file = file
        self.name = name

    def error(self, message: str) -> KaldiFileError:
        return KaldiFileError(f"{self.name}: {message}")

    def exactly(self, count: int) -> bytes:
        content = bytearray()
        while len(content) < count:
            portion = self.file.read(min(count - len(content), _PORTION))
            if not portion:
                raise self.error(f"ends after {len(content)} of {count} bytes; it was cut off.")
            content += portion
        return bytes(content)

    def word(self) -> bytes:
        """Up to the next white space, which is taken too; empty at the end of the file."""
        found = bytearray()
        while byte := self.file.read(1):
            if byte in b" \n\t\r":
                if found:
                    break
            else:
                found += byte
            if len(found) > 4096:
                raise self.error(f"no white space in 4096 bytes that begin with {bytes(found[:20])!r}; not an archive.")
        return bytes(found)

    def number(self) -> int:
        """A 32-bit integer, with its size in front."""
        size, value = struct.unpack("<bi", self.exactly(5))
        if size != 4:
            raise self.error(f"an integer of {size} bytes, expected 4.")
        return int(value)

    def count(self) -> int:
        value = self.number()
        if value < 0:
            raise self.error(f"a size of {value}; it is damaged.")
        return value

    def array(self, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
        wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.exactly(wanted), dtype=dtype).reshape(shape)


@contextlib.contextmanager
def _open(place: Any, prefix: str) -> Iterator[_Source]:
    if hasattr(place, "read"):
        yield _Source(place, str(getattr(place, "name", "archive")))
        return
    path = str(place)
    path = re.sub(rf"^{prefix}(,\w+)*:", "", path).strip()
    if path.endswith("|"):
        with _run(path[:-1].strip()) as source:
            yield source
        return
    if path.endswith(".gz"):
        if "gzip" not in _permitted.get():
            raise KaldiFileError(f"{path}: is compressed; read it inside `with kaldi_io.permit(gzip=True):`.")
        with gzip_files.open(path, "rb") as unpacked:
            yield _Source(unpacked, path)  # type: ignore[arg-type]
        return
    with Path(path).open("rb") as file:
        yield _Source(file, path)


@contextlib.contextmanager
def _run(command: str) -> Iterator[_Source]:
    if "pipes" not in _permitted.get():
        raise KaldiFileError(
            f"{command} |: is a command to run; if you trust it, read it inside `with kaldi_io.permit(pipes=True):`."
        )
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield _Source(process.stdout, f"{command} |")
        process.stdout.close()
        status = process.wait()
    if status > 0:
        raise KaldiFileError(f"{command} |: ended with status {status}.")


def _read_archive(place: Any, reader: _Reader) -> Iterator[tuple[str, Tensor]]:
    with _open(place, "ark") as source:
        while word := source.word():
            try:
                key = word.decode()
            except UnicodeDecodeError as error:
                raise source.error(f"{word[:20]!r} is no key: {error.reason}.") from error
            yield key, reader(source)


# A path, an offset, and ranges of rows and columns; all but the path may be missing.
_PLACE = re.compile(r"(?P<path>.*?)(?::(?P<offset>\d+))?(?:\[(?P<part>[\d:,]*)\])?$")


def _read_list(place: Any, reader: _Reader) -> Iterator[tuple[str, Tensor]]:
    with _open(place, "scp") as source:
        lines = source.file.read().decode().splitlines()
    for number, line in enumerate(lines, start=1):
        key, _, where = line.strip().partition(" ")
        if not key:
            continue
        found = _PLACE.match(where.strip())
        if found is None or not found["path"]:
            raise source.error(f"line {number} is {line!r}, expected `key path:offset`.")
        with _open(found["path"], "ark") as archive:
            if found["offset"]:
                archive.file.seek(int(found["offset"]))
            yield key, _part(reader(archive), found["part"], f"{source.name}, line {number}")


def _part(value: Tensor, part: str | None, where: str) -> Tensor:
    for dimension, limits in enumerate((part or "").split(",")):
        if limits in ("", ":"):
            continue
        first, separator, last = limits.partition(":")
        ends = (int(first), int(last)) if separator and first and last else None
        if ends is None or dimension >= value.ndim or not 0 <= ends[0] <= ends[1] < value.shape[dimension]:
            raise KaldiFileError(f"{where}: no part [{part}] in a value of shape {tuple(value.shape)}.")
        value = value.narrow(dimension, ends[0], ends[1] - ends[0] + 1)
    return value


# --- values ---------------------------------------------------------------------------------------

_FLOATS = {b"F": "<f4", b"D": "<f8"}


def _tensor(values: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(values.copy())


def _kind(source: _Source) -> tuple[bytes, bytes]:
    """The binary mark and type, or an empty mark and the first two bytes of a text."""
    begin = source.exactly(2)
    return (begin, source.word()) if begin == b"\0B" else (b"", begin)


def _int_vector(source: _Source) -> Tensor:
    begin = source.exactly(1)
    if begin == b"\0":
        if source.exactly(1) != b"B":
            raise source.error("no binary mark where a vector of integers should begin.")
        entries = source.array("i1,<i4", source.count())
        if (entries["f0"] != 4).any():
            raise source.error("integers of another size than 4 bytes.")
        return _tensor(entries["f1"].astype(np.int32))
    words = b"" if begin == b"\n" else begin + source.file.readline()
    try:
        return torch.tensor([int(word) for word in words.split()], dtype=torch.int32)
    except ValueError as error:
        raise source.error(f"{error}; expected integers.") from error


def _vector(source: _Source) -> Tensor:
    mark, kind = _kind(source)
    if not mark:
        rows = _text_rows(source, kind)
        if len(rows) > 1:
            raise source.error("a matrix where a vector should be; read it with read_mat_ark or read_mat_scp.")
        return torch.tensor(rows[0] if rows else [], dtype=torch.float32)
    if kind[1:] != b"V" or kind[:1] not in _FLOATS:
        raise source.error(f"a value of type {kind.decode('latin-1')!r}, expected a vector, 'FV' or 'DV'.")
    return _tensor(source.array(_FLOATS[kind[:1]], source.count()))


def _matrix(source: _Source) -> Tensor:
    mark, kind = _kind(source)
    if not mark:
        rows = _text_rows(source, kind)
        if any(len(row) != len(rows[0]) for row in rows):
            raise source.error("rows of different lengths.")
        return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), -1 if rows else 0)
    if kind in (b"CM", b"CM2", b"CM3"):
        return _compressed(source, kind)
    if kind[1:] != b"M" or kind[:1] not in _FLOATS:
        raise source.error(f"a value of type {kind.decode('latin-1')!r}, expected a matrix, 'FM', 'DM' or 'CM'.")
    rows_count, columns = source.count(), source.count()
    return _tensor(source.array(_FLOATS[kind[:1]], rows_count, columns))


def _text_rows(source: _Source, begin: bytes) -> list[list[float]]:
    """Numbers between brackets, a row for each line."""
    content = bytearray(begin)
    while b"]" not in content:
        line = source.file.readline()
        if not line:
            raise source.error("no closing bracket.")
        content += line
    inside = bytes(content).strip()
    if not inside.startswith(b"[") or not inside.endswith(b"]"):
        raise source.error(f"{inside[:20]!r} where numbers in brackets should be.")
    try:
        rows = [[float(word) for word in line.split()] for line in inside[1:-1].splitlines()]
    except ValueError as error:
        raise source.error(f"{error}; expected numbers.") from error
    return [row for row in rows if row]


def _compressed(source: _Source, kind: bytes) -> Tensor:
    """One byte or two for each number: evenly spaced, or for CM by four percentiles of each column."""
    lowest, spread, rows, columns = struct.unpack("<ffii", source.exactly(16))
    if rows < 0 or columns < 0:
        raise source.error(f"a compressed matrix of {rows} x {columns}; it is damaged.")
    if kind == b"CM2":
        return _tensor(lowest + source.array("<u2", rows, columns).astype(np.float32) * np.float32(spread / 65535))
    if kind == b"CM3":
        return _tensor(lowest + source.array("u1", rows, columns).astype(np.float32) * np.float32(spread / 255))
    percentiles = lowest + source.array("<u2", columns, 4).astype(np.float32) * np.float32(spread / 65535)
    codes = source.array("u1", columns, rows).astype(np.float32)
    p0, p25, p75, p100 = (percentiles[:, i : i + 1] for i in range(4))
    low = p0 + (p25 - p0) * codes / np.float32(64)
    middle = p25 + (p75 - p25) * (codes - 64) / np.float32(128)
    high = p75 + (p100 - p75) * (codes - 192) / np.float32(63)
    values = np.where(codes <= 64, low, np.where(codes <= 192, middle, high)).astype(np.float32)
    return _tensor(np.ascontiguousarray(values.T))
