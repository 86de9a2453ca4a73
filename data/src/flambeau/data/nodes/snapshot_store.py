"""Snapshots of a source that runs ahead, kept until what followed them has been given out."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol


class SnapshotStore(Protocol):
    """Hands snapshots from the thread that reads to the one that gives out."""

    def append(self, snapshot: Any, version: int) -> None:
        """Keep the snapshot that was taken behind item number `version`."""
        ...

    def pop_version(self, version: int) -> Any | None:
        """Forget all snapshots up to a version; returns the one of exactly this version, None where there is none."""
        ...


class QueueSnapshotStore:
    """Snapshots in the order of their versions; one thread appends, one takes."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Any]] = deque()
        self._newest: int | None = None

    def append(self, snapshot: Any, version: int) -> None:
        """Keep the snapshot that was taken behind item number `version`.

        Raises:
            ValueError: a version that is not above the ones before.
        """
        if self._newest is not None and version <= self._newest:
            raise ValueError(f"version is {version}, expected more than the last one, {self._newest}.")
        self._newest = version
        self._kept.append((version, snapshot))

    def pop_version(self, version: int) -> Any | None:
        """Forget all snapshots up to a version; returns the one of exactly this version, None where there is none."""
        found = None
        while self._kept and self._kept[0][0] <= version:
            number, snapshot = self._kept.popleft()
            found = snapshot if number == version else None
        return found
