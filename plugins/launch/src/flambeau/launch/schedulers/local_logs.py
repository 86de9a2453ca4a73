"""The lines of a local log, also of one that is still written to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flambeau.launch.errors import LogsUnavailable
from flambeau.launch.schedulers.api import Scheduler, joined_lines
from flambeau.launch.specs.status import is_terminal

__all__ = ["LogIterator"]

_EVERY_S = 0.01
_CHUNK = 1 << 16


class LogIterator:
    """Iterates over the lines of a file, without their ends, until the application has ended.

    Args:
        app_id: the application.
        log_file: the file; it may not be there yet.
        scheduler: which knows whether the application has ended.
        should_tail: go on until then; otherwise stop at the file's end.
    """

    def __init__(self, app_id: str, log_file: str, scheduler: Scheduler[Any], should_tail: bool = True) -> None:
        self._app_id, self._path = app_id, Path(log_file)
        self._scheduler, self._should_tail = scheduler, should_tail
        self._lines = self._read()

    def __iter__(self) -> LogIterator:
        return self

    def __next__(self) -> str:
        return next(self._lines).removesuffix("\n")

    def with_ends(self) -> Iterator[str]:
        """The lines with their ends."""
        return self._lines

    def _read(self) -> Iterator[str]:
        yield from joined_lines(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        while not self._path.exists():
            if not self._should_tail or self._has_ended():
                if self._path.exists():
                    break
                raise LogsUnavailable(
                    f"the log {self._path} of {self._app_id} is not there: it was cleaned away, or never written. "
                    "Logs stay where the option log_dir says; without it they go when the launcher ends."
                )
            time.sleep(_EVERY_S)
        with self._path.open("rb") as file:
            while True:
                ended = not self._should_tail or self._has_ended()  # asked before reading, so that nothing is missed
                while chunk := file.read(_CHUNK):
                    yield chunk
                if ended:
                    return
                time.sleep(_EVERY_S)

    def _has_ended(self) -> bool:
        about = self._scheduler.describe(self._app_id)
        return about is None or is_terminal(about.state)
