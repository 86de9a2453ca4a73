"""Temporary files and folders that say whose they are, so that what a crash left can be told from work in progress.

The name is `<final name>.<host>.<pid>.<random>.<suffix>`: a process can be asked whether it lives on its own host;
elsewhere the age has to tell.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

# A writer touches its partial file all the time, but an extraction its folder only now and then.
_ABANDONED_S = {"part": 600.0, "tmp": 24 * 3600.0}
_NAME = re.compile(r"\.(?P<host>[^.]+)\.(?P<pid>\d+)\.[0-9a-f]{8}\.(?P<suffix>part|tmp)(\.json)?$")
# What this process is writing: that its own number is alive says nothing about an interrupted call's leftovers.
_claimed: set[Path] = set()


def claim(final: Path, suffix: str) -> Path:
    """A new name beside `final`, for this process alone until it is released."""
    path = final.with_name(f"{final.name}.{_host()}.{os.getpid()}.{secrets.token_hex(4)}.{suffix}")
    _claimed.add(path)
    return path


def release(path: Path) -> None:
    """Say that this process no longer works on what it claimed."""
    _claimed.discard(path)


def in_progress(path: Path) -> bool:
    """Whether somebody is still at work on a temporary file or folder; its `.json` counts as part of it."""
    match = _NAME.search(path.name)
    if match is None:
        return False
    path = path.with_name(path.name.removesuffix(".json"))
    pid, here = int(match["pid"]), match["host"] == _host()
    if here and pid == os.getpid():
        return path in _claimed
    if here and not _alive(pid):
        return False
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime < _ABANDONED_S[match["suffix"]]
    return False


def abandoned(final: Path, suffix: str) -> Iterator[Path]:
    """What was claimed for `final` and is no longer worked on."""
    for path in siblings(final, ""):
        match = _NAME.fullmatch(path.name.removeprefix(final.name))
        if match and path.name.endswith(f".{suffix}") and not in_progress(path):
            yield path


def siblings(path: Path, infix: str) -> Iterator[Path]:
    """Files beside `path` whose name continues with a dot and `infix`."""
    start = f"{path.name}.{infix}"
    with contextlib.suppress(FileNotFoundError):
        yield from [entry for entry in path.parent.iterdir() if entry.name.startswith(start)]


def _alive(pid: int) -> bool:
    if os.name == "nt":  # signal 0 would end the process there; the age has to tell
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is someone else's, or no number of this system
        return True
    return True


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:16] or "localhost"
