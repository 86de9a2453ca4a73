"""Frames over a stream socket: a JSON object and any number of binary parts.

::

    4 bytes   b"FLB1"
    4 bytes   length of the JSON, big-endian
    8 bytes   length of all parts together
    JSON      {"kind": str, ..., "sizes": [length of each part]}
    parts     one after the other
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from flambeau.serve.errors import FrameError

__all__ = ["Frame", "FrameReader", "frame_bytes", "receive_frame", "send_frame"]

_HEAD = struct.Struct("!4sIQ")
_MAGIC = b"FLB1"
# A header holds no bodies; a body has been measured against the limits of requests and answers before it is sent.
_MOST_JSON = 64 * 2**20
_MOST_PARTS = 64 * 2**30

Buffer = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """One message: its JSON object, and its binary parts."""

    message: dict[str, Any]
    parts: list[bytes]


def frame_bytes(message: dict[str, Any], parts: Sequence[Buffer] = ()) -> list[Buffer]:
    """The buffers to write, in order; parts are not copied."""
    sizes = [memoryview(part).nbytes for part in parts]
    body = orjson.dumps({**message, "sizes": sizes})
    return [_HEAD.pack(_MAGIC, len(body), sum(sizes)) + body, *parts]


def send_frame(connection: socket.socket, message: dict[str, Any], parts: Sequence[Buffer] = ()) -> None:
    """Write a frame to a blocking socket."""
    buffers = frame_bytes(message, parts)
    if sum(memoryview(buffer).nbytes for buffer in buffers) <= 65536:
        connection.sendall(b"".join(buffers))
        return
    for buffer in buffers:
        connection.sendall(buffer)


def receive_frame(connection: socket.socket) -> Frame | None:
    """Read a frame from a blocking socket; None where the other side has closed it between two frames.

    Raises:
        FrameError: no frame, or one that was cut short.
    """
    head = _receive(connection, _HEAD.size, may_end=True)
    if head is None:
        return None
    size, total = _sizes(head)
    body = _receive(connection, size)
    parts = _receive(connection, total)
    assert body is not None and parts is not None
    return _frame(body, memoryview(parts))


class FrameReader:
    """Puts frames together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: Buffer) -> Iterator[Frame]:
        """Take a piece, and give the frames that it completes.

        Raises:
            FrameError: the stream holds something else.
        """
        self._held += data
        while len(self._held) >= _HEAD.size:
            size, total = _sizes(self._held[: _HEAD.size])
            end = _HEAD.size + size + total
            if len(self._held) < end:
                return
            whole = bytes(memoryview(self._held)[:end])
            del self._held[:end]
            yield _frame(whole[_HEAD.size : _HEAD.size + size], memoryview(whole)[_HEAD.size + size :])


def _sizes(head: Buffer) -> tuple[int, int]:
    magic, size, total = _HEAD.unpack(head)
    if magic != _MAGIC or size > _MOST_JSON or total > _MOST_PARTS:
        raise FrameError("the stream of a worker holds something that is no frame; does its code write to the socket?")
    return size, total


def _frame(body: Buffer, parts: memoryview) -> Frame:
    try:
        message = orjson.loads(body)
        sizes = message.pop("sizes")
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise FrameError("a frame's JSON cannot be read.") from error
    if sum(sizes) != len(parts) or min(sizes, default=0) < 0:
        raise FrameError("a frame's parts are not as long as its JSON says.")
    found, start = [], 0
    for size in sizes:
        found.append(bytes(parts[start : start + size]))
        start += size
    return Frame(message, found)


def _receive(connection: socket.socket, size: int, *, may_end: bool = False) -> bytearray | None:
    held = bytearray(size)
    view, got = memoryview(held), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if count == 0:
            if may_end and got == 0:
                return None
            raise FrameError(f"a frame was cut short after {got} of {size} bytes.")
        got += count
    return held
