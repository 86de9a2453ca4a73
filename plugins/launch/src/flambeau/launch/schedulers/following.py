"""Following files that jobs write to, perhaps on other machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flambeau.launch.errors import LogsUnavailable
from flambeau.launch.schedulers.api import joined_lines

__all__ = ["follow"]

_EVERY_S = 0.05


def follow(files: Sequence[Path], has_ended: Callable[[], bool], *, what: str) -> Iterator[str]:
    """The lines of files as they are written, of each file in its order, until their writer has ended.

    Args:
        files: they may not be there yet.
        has_ended: whether nothing more will be written.
        what: whose files they are, for messages.

    Raises:
        LogsUnavailable: none of them was ever there when the writer had ended.
    """
    tails = [_Tail(path) for path in files]
    while True:
        ended = has_ended()  # asked before reading, so that nothing is missed
        wrote = False
        for tail in tails:
            for line in tail.lines(last=ended):
                wrote = True
                yield line
        if ended:
            if not any(path.exists() for path in files):
                listed = ", ".join(map(str, files))
                raise LogsUnavailable(f"{what} has no logs: {listed} were cleaned away, or never written.")
            return
        if not wrote:
            time.sleep(_EVERY_S)


class _Tail:
    """The lines of a file that were not read yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""

    def lines(self, *, last: bool) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return
        self._at += len(text)
        whole, separator, rest = (self._rest + text).rpartition(b"\n")
        self._rest = rest
        if last:
            whole, self._rest = whole + separator + rest, b""
        else:
            whole += separator
        yield from joined_lines([whole])
