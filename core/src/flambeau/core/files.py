"""Files that are either old or new, never half-written: atomic writing, advisory locks, safe names."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

_REPORT_EVERY_S = 10.0


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a whole file so that a reader, or a crash, sees the old content or the new, and nothing between."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        # 0666 before the umask: `tempfile` would leave a 0600 file that others on the machine cannot read.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace(source: Path, target: Path) -> None:
    """Move a finished file into place and make the move durable."""
    for attempt in range(10):
        try:
            source.replace(target)
            break
        except PermissionError:
            # Windows refuses while another process has the target open or scanned; it lets go within moments.
            if os.name != "nt" or attempt == 9:
                raise
            time.sleep(0.05 * 2**attempt)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to disk, where the platform and file system can."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):  # network file systems may refuse; the rename itself stands
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def lock(path: Path, *, timeout_s: float = 60.0, waiting: Callable[[float], object] | None = None) -> Iterator[bool]:
    """Hold the advisory lock beside `path`; yields whether it was obtained.

    It saves work, and nothing may rest on it: some network file systems grant it to everybody, others to nobody.
    Callers stay correct without it.

    Args:
        path: the file that is worked on; its folder exists.
        timeout_s: how long to wait for another holder.
        waiting: called about every ten seconds with the seconds waited so far.
    """
    import filelock

    held = filelock.FileLock(path.with_name(f"{path.name}.lock"))
    obtained = _acquire(held, timeout_s, waiting)
    try:
        yield obtained
    finally:
        if obtained:
            held.release()


def _acquire(held: BaseFileLock, timeout_s: float, waiting: Callable[[float], object] | None) -> bool:
    from filelock import Timeout

    start = time.monotonic()
    while True:
        try:
            held.acquire(timeout=max(0.0, min(_REPORT_EVERY_S, start + timeout_s - time.monotonic())))
            return True
        except Timeout:
            waited = time.monotonic() - start
            if waited >= timeout_s:
                return False
            if waiting is not None:
                waiting(waited)
        except (OSError, NotImplementedError):  # no locks on this file system
            return False


def safe_name(name: str, *, most_bytes: int = 200) -> str:
    """A single path component that any file system takes.

    Raises:
        ValueError: `name` is empty, holds a separator or drive, or is a relative reference such as `..`.
    """
    if name in ("", ".", "..") or any(c in name for c in "/\\\0") or name[1:2] == ":":
        raise ValueError(f"{name!r} is not a plain file name; expected one path component without separators or '..'.")
    clean = "".join("_" if ord(c) < 32 or 127 <= ord(c) < 160 or c in '<>:"|?*' else c for c in name).lstrip(".") or "_"
    data = clean.encode("utf-8", "surrogateescape")
    if len(data) > most_bytes:  # keep the end: it has the extension and, upstream's way, the hash
        clean = data[-most_bytes:].decode("utf-8", "ignore").lstrip(".") or "_"
    return clean
