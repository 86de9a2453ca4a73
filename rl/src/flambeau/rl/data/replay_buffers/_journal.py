"""What was written to a storage since somebody last looked: an index over the rows need not look at all of them."""

from __future__ import annotations

from collections import deque

__all__ = ["Journal", "Position"]

Position = tuple[int, int]
"""How far somebody has read: how many entries, and how many rows of the entry behind them."""

_LONGEST = 1024


class Journal:
    """Runs of rows in the order they were written; runs that follow one another make up one entry."""

    def __init__(self) -> None:
        self._entries: deque[list[int]] = deque()  # first row, number of rows
        self._dropped = 0

    def note(self, first: int, count: int) -> None:
        """`count` rows from `first` on were written, without passing the ring's end."""
        if self._entries and sum(self._entries[-1]) == first:
            self._entries[-1][1] += count
            return
        self._entries.append([first, count])
        if len(self._entries) > _LONGEST:
            self._entries.popleft()
            self._dropped += 1

    def note_any(self) -> None:
        """Something was written somewhere: whoever keeps an index has to look at all rows."""
        self._dropped += len(self._entries) + 1
        self._entries.clear()

    @property
    def now(self) -> Position:
        """The position behind all entries."""
        if not self._entries:
            return self._dropped, 0
        return self._dropped + len(self._entries) - 1, self._entries[-1][1]

    def since(self, position: Position) -> list[tuple[int, int]] | None:
        """Runs (first row, number of rows) behind a position; None where that cannot be told any more."""
        at, used = position
        at -= self._dropped
        if at < 0:
            return None
        runs = []
        for first, count in list(self._entries)[at:]:
            if count > used:
                runs.append((first + used, count - used))
            used = 0
        return runs
