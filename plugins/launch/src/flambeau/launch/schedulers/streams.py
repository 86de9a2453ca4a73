"""Several files that are written to, read as one."""

from __future__ import annotations

import io
import threading
from pathlib import Path

__all__ = ["Tee"]

_EVERY_S = 0.01


class Tee:
    """Copies what is appended to some files to another, whole lines at a time, until it is closed.

    Args:
        out: where to; it is closed with this object.
        sources: the files to follow; they may not be there yet.
    """

    def __init__(self, out: io.FileIO, *sources: str) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(Path(path),), daemon=True) for path in sources]
        for thread in self._threads:
            thread.start()

    def write(self, s: bytes) -> int:
        """Write between two lines of the sources; returns how many bytes."""
        with self._lock:
            return self._out.write(s) or 0

    def close(self) -> None:
        """Copy what is there, then stop."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if not self._out.closed:
            self._out.close()

    def _follow(self, path: Path) -> None:
        while not path.exists():
            if self._stop.wait(_EVERY_S):
                return
        with path.open("rb") as source:
            rest = b""
            while True:
                ending = self._stop.is_set()  # asked before reading: what was written until then is read once more
                rest = self._copy_lines(rest + source.read())
                if ending:
                    if rest:
                        self.write(rest)
                    return
                self._stop.wait(_EVERY_S)

    def _copy_lines(self, text: bytes) -> bytes:
        lines, separator, rest = text.rpartition(b"\n")
        if separator:
            self.write(lines + separator)
        return rest
