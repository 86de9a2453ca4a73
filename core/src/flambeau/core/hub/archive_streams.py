"""Reading an archive's files one after the other, without unpacking it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from flambeau.core.errors import UnsafeArchiveError
from flambeau.core.hub.archive_formats import members, readable
from flambeau.core.hub.archive_rules import Limits, limits_for, plain_parts
from flambeau.core.hub.archives import explained

# Beyond what may be read of the files: headers and padding.
_HEADERS = 1 << 30


def read_archive(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    max_ratio: float | None = None,
) -> Iterator[tuple[str, IO[bytes]]]:
    """Go through the files of a tar (plain, gz, bz2, xz, zst), a zip, or a single file compressed so.

    For those who need few files of a large archive, or other ones than it has. Nothing is written.

    Args:
        path: the archive; its content tells its kind.
        max_bytes: most bytes to read; default: what the archive's disk holds less 1 GiB, and at most 200 times the
            archive's size plus 1 GiB.
        max_files: most members, default 5,000,000.
        max_ratio: most bytes per byte of the archive, default 200; not applied below 100 MiB.

    Yields:
        (name, stream) of each regular file, in the archive's order; the name is a plain relative path with single
        slashes, and the stream can be read until the next file is asked for. Links and folders are left out.

    Raises:
        UnsafeArchiveError: a member's name leads outside, or a limit is exceeded.
        HubError: not an archive, damaged or truncated.
    """
    path = Path(path)
    limits = limits_for(path, path.parent, max_bytes, max_files, max_ratio)
    tally = _Tally(path, limits)
    with explained(path), readable(path):
        for count, member in enumerate(members(path, limits.bytes + _HEADERS), start=1):
            if count > limits.files:
                raise UnsafeArchiveError(f"it has more than max_files={limits.files:,} members.")
            name = "/".join(plain_parts(member.name))
            if member.kind == "file":
                with member.open() as source, io.BufferedReader(_Counted(source, tally), 1 << 16) as stream:
                    yield name, stream


class _Tally:
    """An archive, and how many bytes came out of it so far."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits, self.count = path, limits, 0

    def read(self, source: IO[bytes], size: int) -> bytes:
        with explained(self.path), readable(self.path):
            block = source.read(size)
            self.count += len(block)
            self.limits.check_bytes(self.count)
            return block


class _Counted(io.RawIOBase):
    """A member as a file whose bytes count against the archive's limits."""

    def __init__(self, source: IO[bytes], tally: _Tally) -> None:
        self._source, self._tally = source, tally

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader passes
        block = self._tally.read(self._source, len(buffer))
        buffer[: len(block)] = block
        return len(block)
