"""A file that is still coming in.

A partial file has one writer, ever. It is created exclusively under a name with host, process and random part, only
appended to, and described by a `.json` that is written before its first byte and never changed. What a crashed
process left is taken over by copying its bytes: the old file may still be open somewhere, for example in a process that
sleeps on a network file system, and what such a process writes later must not end up in ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from flambeau.core.files import replace, write_atomic
from flambeau.core.hub.temporary_files import abandoned, claim, release

BLOCK = 1 << 20


@dataclass(frozen=True)
class Origin:
    """What a partial file is a part of, as the first answer told: enough to ask for the rest and for nothing else."""

    url: str
    etag: str | None = None
    last_modified: str | None = None
    total: int | None = None
    sha256: str | None = None

    @property
    def validator(self) -> str | None:
        """A value for `If-Range`: a weak etag promises equal meaning, not equal bytes, and is of no use."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class Partial:
    """The growing file of this writer, hashed as it grows; `head` is how it begins."""

    def __init__(self, final: Path, origin: Origin) -> None:
        self.path, self.origin, self.size, self.head = claim(final, "part"), origin, 0, b""
        self._hash, self._descriptor = hashlib.sha256(), -1
        try:
            # 0666 before the umask, as for any file the user makes; exclusive, so that nobody else has it open.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(self.path, flags, 0o666)
            write_atomic(_description(self.path), json.dumps(asdict(origin)))
        except BaseException:
            self.discard()
            raise

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes so far, in hex."""
        return self._hash.hexdigest()

    def append(self, block: bytes) -> None:
        """Add bytes. They are with the operating system at once, so a killed process loses none."""
        self.head = self.head or block[:512]
        rest = memoryview(block)
        while rest:
            written = os.write(self._descriptor, rest)
            self._hash.update(rest[:written])
            self.size += written
            rest = rest[written:]

    def publish(self, final: Path) -> os.stat_result:
        """Make the finished file durable and visible under its final name; returns its state.

        Raises:
            FileNotFoundError: another process took this file for abandoned and removed it.
        """
        os.fsync(self._descriptor)
        stat = os.fstat(self._descriptor)
        self.close()
        replace(self.path, final)
        _remove(self.path)
        return stat

    def close(self) -> None:
        """Stop writing and leave what came for a later call to take over."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        release(self.path)

    def discard(self) -> None:
        """Stop writing and remove the file."""
        self.close()
        _remove(self.path)


def adopt(final: Path, matches: Callable[[Origin], bool]) -> Partial | None:
    """Copy the largest abandoned partial file that `matches` into a new one, and remove all abandoned ones.

    Raises:
        OSError: the copy could not be written; the abandoned files are still there.
    """
    left = list(abandoned(final, "part"))
    origins = {path: origin for path in left if (origin := _read(path)) is not None and matches(origin)}
    partial: Partial | None = None
    if best := max(origins, key=_size, default=None):
        partial = Partial(final, origins[best])
        try:
            with best.open("rb") as source:
                while block := source.read(BLOCK):
                    partial.append(block)
        except FileNotFoundError:  # another process was quicker to tidy up
            partial.discard()
            partial = None
        except BaseException:
            partial.discard()
            raise
    remove_abandoned(final)
    return partial


def remove_abandoned(final: Path) -> None:
    """Remove the partial files of `final` that nobody is writing."""
    for path in abandoned(final, "part"):
        _remove(path)


def _description(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read(part: Path) -> Origin | None:
    try:
        return Origin(**json.loads(_description(part).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return -1


def _remove(part: Path) -> None:
    for path in (part, _description(part)):
        with contextlib.suppress(OSError):  # gone already, or open in another process on Windows: `purge` will have it
            path.unlink()
