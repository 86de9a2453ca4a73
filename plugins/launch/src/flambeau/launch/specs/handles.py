"""Names of submitted applications: `scheduler://session/app_id`."""

from __future__ import annotations

import re
from typing import NamedTuple

from flambeau.launch.errors import MalformedAppHandleException

__all__ = ["AppHandle", "ParsedAppHandle", "make_app_handle", "parse_app_handle"]

AppHandle = str


class ParsedAppHandle(NamedTuple):
    """The parts of a handle."""

    scheduler_backend: str
    session_name: str
    app_id: str


_HANDLE = re.compile(r"(?P<scheduler_backend>.+)://(?P<session_name>.+)/(?P<app_id>.+)")


def parse_app_handle(app_handle: AppHandle) -> ParsedAppHandle:
    """Take a handle apart.

    Raises:
        MalformedAppHandleException: a part is missing.

    Example:
        >>> parse_app_handle("slurm://session/1234").app_id
        '1234'
    """
    match = _HANDLE.match(app_handle)
    if not match:
        raise MalformedAppHandleException(app_handle)
    return ParsedAppHandle(**match.groupdict())


def make_app_handle(scheduler_backend: str, session_name: str, app_id: str) -> str:
    """Put a handle together."""
    return f"{scheduler_backend}://{session_name}/{app_id}"
