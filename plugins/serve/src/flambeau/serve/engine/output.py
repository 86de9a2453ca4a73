"""What workers print: read as it comes, limited, and the last lines kept to tell why a worker ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable

__all__ = ["Output"]

_MOST_LINE = 8192
_KEPT = 20


class Output:
    """One worker's standard output and error. A worker that floods it is never blocked: the rest is dropped.

    Args:
        say: called with each line.
        most_bytes_per_s: what is taken on; more is dropped, and how much is said once a second.
    """

    def __init__(self, say: Callable[[str], None], most_bytes_per_s: int = 1 << 20) -> None:
        self.last: deque[str] = deque(maxlen=_KEPT)
        self._say = say
        self._rate = most_bytes_per_s
        self._held = b""
        self._window, self._taken, self._dropped = 0.0, 0, 0
        self._read, self.descriptor = os.pipe()
        os.set_blocking(self._read, False)
        asyncio.get_running_loop().add_reader(self._read, self._more)

    def close(self) -> None:
        """Take what is left, and stop."""
        if self._read < 0:
            return
        self._more()
        if self._read < 0:
            return
        asyncio.get_running_loop().remove_reader(self._read)
        os.close(self._read)
        self._read = -1
        if self._held:
            self._line(self._held)
            self._held = b""

    def _more(self) -> None:
        try:
            data = os.read(self._read, 65536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._read)
            os.close(self._read)
            self._read = -1
            return
        now = asyncio.get_running_loop().time()
        if now - self._window >= 1.0:
            if self._dropped:
                self._say(f"[{self._dropped} bytes of output were dropped]")
            self._window, self._taken, self._dropped = now, 0, 0
        self._taken += len(data)
        if self._taken > self._rate:
            self._dropped += len(data)
            self._held = b""
            return
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._held) > _MOST_LINE:
            self._line(self._held)
            self._held = b""

    def _line(self, line: bytes) -> None:
        text = line[:_MOST_LINE].decode("utf-8", "replace").rstrip()
        text = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
        if text:
            self.last.append(text)
            with contextlib.suppress(ValueError):  # a log that was closed before
                self._say(text)
