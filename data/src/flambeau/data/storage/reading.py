"""Objects as files: seekable, and read ahead by several range requests at a time."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from flambeau.data.storage.engine import Piece
from flambeau.data.storage.errors import StorageError
from flambeau.data.storage.locations import Location, is_remote, locate
from flambeau.data.storage.process import engine, threads

DEFAULT_BUFFER = 32 << 20
_FIRST = 1 << 20  # of a fresh object: most samples come whole with it
_AFTER_SEEK = 128 << 10  # where the caller jumps about, little is fetched on suspicion
_LEAST_PART = 1 << 20
_LARGE_PART = 8 << 20  # where much is asked for at once, fewer requests cost client and server less
_LEAST_BUFFER = 64 << 10  # below that a request costs more than what it brings
_MOST_PARTS = 8


@dataclass
class _Part:
    start: int
    stop: int
    future: Future[Piece]


class ObjectReader(io.BufferedIOBase):
    """A binary file over an object, for reading.

    Reading on from a place fetches ever more ahead of it, up to `buffer_size`, in up to eight requests at a time;
    jumping fetches little. The first bytes are there as soon as the first part is, so that streams (`tarfile` in mode
    `r|`, decompressors) begin at once.

    Args:
        location: the object.
        buffer_size: bytes to hold and fetch ahead at most.
        parallel: whether the bytes ahead come in several requests at a time.
    """

    def __init__(self, location: Location, buffer_size: int = DEFAULT_BUFFER, *, parallel: bool = True) -> None:
        super().__init__()
        self.name = location.url
        self.mode = "rb"
        self._location = location
        self._buffer_size = buffer_size = max(buffer_size, _LEAST_BUFFER)
        self._most_parts = _MOST_PARTS if parallel else 1
        self._position = 0
        self._size: int | None = None
        self._tag: str | None = None
        self._parts: deque[_Part] = deque()
        self._next = 0
        self._entire: memoryview | None = None  # of a server that knows no ranges
        self._window = min(_FIRST, buffer_size)

    @property
    def size(self) -> int:
        """Size of the object in bytes."""
        self._check_open()
        if self._size is None:
            if not self._parts:
                self._size = engine().size(self._location.store, self._location.key)
            else:
                self._read_size_and_tag()
        assert self._size is not None
        return self._size

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a place; beyond the end is allowed and reads as empty."""
        self._check_open()
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        if whence == os.SEEK_END:
            origin[whence] = self.size
        if whence not in origin:
            raise ValueError(f"whence is {whence}, expected 0, 1 or 2.")
        target = origin[whence] + offset
        if target < 0:
            raise ValueError(f"{self.name}: cannot seek to {target}, before the beginning.")
        self._position = target
        return target

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes, fewer only at the end; all that remain where `size` is None or negative.

        Raises:
            StorageError: the store refused, or failed repeatedly.
        """
        self._check_open()
        if size is None or size < 0:
            size = self._remaining()
        pieces = []
        while size > 0 and (piece := self._take(size)):
            pieces.append(piece)
            size -= len(piece)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def read1(self, size: int = -1, /) -> bytes:
        """What is there without a further request, at least one byte unless at the end."""
        self._check_open()
        return bytes(self._take(size if size >= 0 else self._buffer_size))

    def peek(self, size: int = 0, /) -> bytes:
        """What is there without a further request, without moving."""
        self._check_open()
        return bytes(self._take(max(size, 1 << 16), move=False))

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer; returns how many bytes there were for it."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and (piece := self._take(len(view) - done)):
            view[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def close(self) -> None:
        """Let go of what was fetched."""
        self._drop()
        super().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._location, self._buffer_size, self._most_parts > 1, self._position)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name} is closed.")

    def _remaining(self) -> int:
        if self._size is None:
            self._schedule(self._buffer_size)
            self._read_size_and_tag()
        return max(0, self.size - self._position)

    def _take(self, most: int, *, move: bool = True) -> memoryview:
        """Up to `most` bytes from one part, and move on behind them; empty at the end."""
        if most <= 0 or (self._size is not None and self._position >= self._size):
            return memoryview(b"")
        if self._entire is None:
            self._schedule(most)
            if self._size is None:
                self._read_size_and_tag()
        if self._entire is not None:
            found = self._entire[self._position : self._position + most]
            self._position += len(found) if move else 0
            return found
        if not self._parts:  # the place lies beyond the end
            return memoryview(b"")
        part = self._parts[0]
        piece = part.future.result()
        self._check_size(piece)
        begin = self._position - part.start
        found = piece.content[begin : begin + most]
        self._position += len(found) if move else 0
        if self._position >= part.start + len(piece.content):
            self._parts.popleft()
            self._window = min(2 * self._window, self._buffer_size)
        return found

    def _schedule(self, wanted: int) -> None:
        """Ask for the parts that hold the next `wanted` bytes and the window ahead, as many as may be under way."""
        position = self._position
        while self._parts and self._parts[0].stop <= position:
            self._parts.popleft().future.cancel()
        if (self._parts and position < self._parts[0].start) or (not self._parts and position != self._next):
            self._drop()
            self._window = min(_AFTER_SEEK, self._buffer_size)
        if not self._parts:
            self._next = position
        most_parts = self._most_parts if self._size is not None else 1
        goal = position + min(max(wanted, self._window), max(self._buffer_size, self._window))
        end = goal if self._size is None else min(goal, self._size)
        length = self._part_length(end - position, wanted)
        while self._next < end and len(self._parts) < most_parts:
            stop = self._next + length
            stop = stop if self._size is None else min(stop, self._size)
            self._parts.append(_Part(self._next, stop, self._request(self._next, stop)))
            self._next = stop

    def _part_length(self, span: int, wanted: int) -> int:
        if self._size is None:
            return min(max(span, self._window), max(_FIRST, self._window))
        if self._most_parts == 1:
            return max(span, 1)
        least = _LARGE_PART if wanted >= _LARGE_PART else min(_LEAST_PART, self._window)
        return min(max(-(-span // self._most_parts), least), self._buffer_size)

    def _request(self, start: int, stop: int) -> Future[Piece]:
        return threads().submit(engine().get, self._location.store, self._location.key, start, stop, self._tag)

    def _read_size_and_tag(self) -> None:
        """Learn size and tag from the first part, or from a request of its own where the part lies beyond the end."""
        part = self._parts[0]
        location = self._location
        try:
            piece = part.future.result()
        except StorageError:
            # An empty object, a place beyond the end, a server without ranges: all refuse a range.
            self._size = engine().size(location.store, location.key)
            if part.start >= self._size:
                self._drop()
                return
            if location.store.kind != "http":
                raise
            self._drop()
            whole = engine().get(location.store, location.key, 0, None)
            self._entire, self._size = whole.content, whole.size
            return
        self._size = piece.size
        # Weak tags of web servers may not be asked for again (RFC 9110, section 13.1.1).
        self._tag = piece.e_tag if location.store.kind != "http" else None
        part.stop = self._next = part.start + len(piece.content)

    def _check_size(self, piece: Piece) -> None:
        if piece.size != self._size:
            raise StorageError(
                f"{self.name}: {self._size} bytes at first and {piece.size} now, so the object was replaced while it "
                "was being read; open it again.",
                url=self.name,
            )

    def _drop(self) -> None:
        for part in self._parts:
            part.future.cancel()
        self._parts.clear()


def _reopen(location: Location, buffer_size: int, parallel: bool, position: int) -> ObjectReader:
    reader = ObjectReader(location, buffer_size, parallel=parallel)
    reader.seek(position)
    return reader


def open_object(
    url: str,
    *,
    buffer_size: int | None = None,
    multi_part_download: bool | None = None,
    region: str = "",
    request_timeout_ms: int = -1,
    endpoint_url: str | None = None,
    anonymous: bool | None = None,
    options: Mapping[str, str] | None = None,
) -> io.BufferedIOBase:
    """Open an object for reading. Nothing is requested before the first read.

    Args:
        url: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`, `http(s)://...`; other schemes go to fsspec
            where that is installed.
        buffer_size: bytes to hold and fetch ahead at most, > 0; less than 64 KiB counts as 64 KiB; None: 32 MiB.
        multi_part_download: whether several parts are fetched at a time; None means yes.
        region: of the bucket; "" takes the environment's or the configuration file's.
        request_timeout_ms: time for one request, > 0; -1: five minutes, and one for each piece of an answer.
        endpoint_url: an S3-compatible server, for example `http://127.0.0.1:9000`.
        anonymous: True sends unsigned requests, for public buckets.
        options: further settings of the store by obstore's names, for example `{"request_payer": "true"}`.

    Returns:
        A seekable binary file. It can be pickled, and used in a process that was forked.

    Raises:
        StorageError: a URL that cannot be an object's. Reading raises it, or one of its kinds, for what the store says.
        ValueError: `buffer_size` or `request_timeout_ms` out of range.

    Example:
        >>> with open_object("s3://bucket/shard-000.tar") as file:  # doctest: +SKIP
        ...     archive = tarfile.open(fileobj=file, mode="r|")
    """
    if buffer_size is not None and buffer_size <= 0:
        raise ValueError(f"buffer_size is {buffer_size}, expected a positive number of bytes, or None.")
    if "://" in url and not is_remote(url):
        return _by_fsspec(url)
    location = locate(
        url, region=region, request_timeout_ms=request_timeout_ms, endpoint_url=endpoint_url, anonymous=anonymous,
        options=options,
    )  # fmt: skip
    if location.store.kind != "http" and (not location.key or location.key.endswith("/")):
        raise StorageError(f"{url!r} is a folder, not an object; list it with list_objects({url!r}).", url=url)
    return ObjectReader(location, buffer_size or DEFAULT_BUFFER, parallel=multi_part_download is not False)


def read_range(url: str, start: int, stop: int, **settings: Any) -> memoryview:
    """The bytes [start, stop) of an object, in one request.

    Args:
        url: as for `open_object`.
        start: first byte, >= 0.
        stop: one behind the last byte; what lies beyond the end is left out.
        settings: the keywords of `open_object` from `region` on.

    Raises:
        StorageError: the store refused, or failed repeatedly.
    """
    if stop <= start:
        return memoryview(b"")
    location = locate(url, **settings)
    return engine().get(location.store, location.key, start, stop).content


def read_object(url: str, **settings: Any) -> bytes:
    """A whole object: one request where it has less than a mebibyte, several at a time where it has more.

    Args:
        url: as for `open_object`.
        settings: its keywords.

    Raises:
        StorageError: the store refused, or failed repeatedly.
    """
    with open_object(url, **settings) as file:
        return file.read()


def _by_fsspec(url: str) -> io.BufferedIOBase:
    try:
        import fsspec
    except ImportError as error:
        raise StorageError(
            f"{url}: this scheme is read by fsspec, which is not installed. Run: pip install fsspec", url=url
        ) from error
    opened: io.BufferedIOBase = fsspec.open(url, "rb").open()
    return opened
