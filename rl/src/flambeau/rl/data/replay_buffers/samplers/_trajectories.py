"""Where the trajectories of a storage begin and end, kept up while rows are written.

Rows have numbers that only grow: row `n` stands at place `n % size` of the ring. So a write appends ends at the back
and takes rows away in front, and nothing else has to be looked at, however large the storage is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Candidates", "Pieces", "TrajectoryIndex"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Pieces:
    """Trajectories of one column of places, oldest first: numbers of their first and last rows."""

    def __init__(self) -> None:
        self._rows = np.empty((2, 16), np.int64)
        self._head = self._tail = 0
        self.open_since = 0  # first row of the trajectory that is being written
        self.last_id: Any = None

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def starts(self) -> Ints:
        """Numbers of the first rows of finished trajectories."""
        return self._rows[0, self._head : self._tail]

    @property
    def stops(self) -> Ints:
        """Numbers of their last rows."""
        return self._rows[1, self._head : self._tail]

    def append(self, starts: Ints, stops: Ints) -> None:
        """More trajectories, younger than all others."""
        count = len(starts)
        if self._tail + count > self._rows.shape[1]:
            kept = self._rows[:, self._head : self._tail]
            self._rows = np.empty((2, 2 * (kept.shape[1] + count)), np.int64)
            self._rows[:, : kept.shape[1]] = kept
            self._head, self._tail = 0, kept.shape[1]
        self._rows[0, self._tail : self._tail + count] = starts
        self._rows[1, self._tail : self._tail + count] = stops
        self._tail += count

    def drop_before(self, oldest: int) -> None:
        """Rows below a number are gone."""
        if self._head < self._tail and self._rows[1, self._head] < oldest:
            self._head += int(np.searchsorted(self.stops, oldest))
        if self._head < self._tail and self._rows[0, self._head] < oldest:
            self._rows[0, self._head] = oldest
        self.open_since = max(self.open_since, oldest)


class TrajectoryIndex:
    """Trajectories of a ring of rows, each of one or several columns (environments side by side).

    Args:
        size: how many rows the ring has.
        columns: how many columns.
        by_identity: whether a trajectory is told by the numbers of its rows, else by flags at their ends.
    """

    def __init__(self, size: int, columns: int, *, by_identity: bool) -> None:
        self.size = size
        self.columns = [Pieces() for _ in range(columns)]
        self.by_identity = by_identity
        self.next_row = 0
        self.oldest = 0
        # Long enough for a slice length: for each column the finished trajectories, and how many looked at.
        self._long: dict[int, list[Pieces]] = {}

    @property
    def cursor(self) -> int:
        """The place of the next row."""
        return self.next_row % self.size

    def rebuild(self, first: int, marks: NDArray[Any], whole: Flags | None = None) -> None:
        """Begin anew with the rows of a storage.

        Args:
            first: the place of the oldest.
            marks: (rows, columns), from the oldest on: end flags, or numbers of trajectories.
            whole: (rows,), which rows can be read.
        """
        self.columns = [Pieces() for _ in self.columns]
        self._long.clear()
        self.next_row = self.oldest = first
        for column in self.columns:
            column.open_since = first
        self.append(marks, whole)

    def append(self, marks: NDArray[Any], whole: Flags | None = None) -> None:
        """Rows were written behind the last; see `rebuild`."""
        first, count = self.next_row, len(marks)
        before = [len(column) + column._head for column in self.columns]
        for at, column in enumerate(self.columns):
            self._append_column(column, first, marks[:, at], whole)
        self.next_row += count
        self.oldest = max(self.oldest, self.next_row - self.size)
        for column in self.columns:
            column.drop_before(self.oldest)
        self._append_long(before)

    def advance(self, reserved: int) -> None:
        """Rows up to a number are being written: those that stood at their places are gone."""
        self.oldest = max(self.oldest, reserved - self.size)
        for column in self.columns:
            column.drop_before(self.oldest)

    def _append_column(self, column: Pieces, first: int, marks: NDArray[Any], whole: Flags | None) -> None:
        count = len(marks)
        if self.by_identity:
            changed = np.flatnonzero(marks[1:] != marks[:-1])  # the row before a change is an end
            ends = first + changed
            if column.last_id is not None and count and column.open_since < first and marks[0] != column.last_id:
                ends = np.concatenate(([first - 1], ends))
            if count:
                column.last_id = marks[-1]
        else:
            ends = first + np.flatnonzero(marks)
        if whole is not None and not whole.all():
            self._append_broken(column, first, ends, whole)
            return
        starts = np.empty_like(ends)
        if len(ends):
            starts[0] = column.open_since
            starts[1:] = ends[:-1] + 1
            column.open_since = int(ends[-1]) + 1
            column.append(starts, ends)

    def _append_broken(self, column: Pieces, first: int, ends: Ints, whole: Flags) -> None:
        """The same where some rows cannot be read: they are in no trajectory, and nothing goes on over them."""
        is_end = set(ends.tolist())
        for row in range(first, first + len(whole)):
            if not whole[row - first]:
                if column.open_since < row:
                    column.append(np.array([column.open_since]), np.array([row - 1]))
                column.open_since = row + 1
                column.last_id = None
            elif row in is_end and row >= column.open_since:
                column.append(np.array([column.open_since]), np.array([row]))
                column.open_since = row + 1

    def _append_long(self, before: list[int]) -> None:
        for length, kept in self._long.items():
            for column, long, seen in zip(self.columns, kept, before, strict=True):
                self._keep_long(column, long, seen, length)

    def _keep_long(self, column: Pieces, long: Pieces, seen: int, length: int) -> None:
        new = slice(max(seen - column._head, 0), None)
        starts, stops = column.starts[new], column.stops[new]
        enough = stops - starts + 1 >= length
        if enough.any():
            long.append(starts[enough], stops[enough])
        long.drop_before(self.oldest)

    def _with_length(self, length: int) -> list[Pieces]:
        kept = self._long.get(length)
        if kept is None:
            if len(self._long) >= 4:
                self._long.clear()
            kept = self._long[length] = [Pieces() for _ in self.columns]
            for column, long in zip(self.columns, kept, strict=True):
                self._keep_long(column, long, 0, length)
        for long in kept:
            long.drop_before(self.oldest)
            # The oldest has lost rows, and may have become too short.
            if len(long) and long.stops[0] - long.starts[0] + 1 < length:
                long._head += 1
        return kept

    def candidates(self, length: int = 1) -> Candidates:
        """The trajectories of at least `length` rows, as they are now."""
        return Candidates(self, self._with_length(length), length)

    def lengths(self) -> tuple[int, int]:
        """The shortest and the longest trajectory's number of rows."""
        every = self.candidates(1)
        if not every.count:
            return 0, 0
        _, _, lengths = every.at(np.arange(every.count))
        return int(lengths.min()), int(lengths.max())


class Candidates:
    """Trajectories that can be drawn, numbered by column and then by the place of their last row."""

    def __init__(self, index: TrajectoryIndex, kept: list[Pieces], length: int) -> None:
        self._index, self._kept = index, kept
        self._last = index.next_row - 1
        # Places before the cursor hold the rows of the present lap, which therefore come first.
        self._lap = index.next_row - index.next_row % index.size
        counts = np.empty(len(kept) + 1, np.int64)
        counts[0] = 0
        self._open: list[bool] = []
        for at, (column, long) in enumerate(zip(index.columns, kept, strict=True)):
            begun = self._last - column.open_since + 1 >= length
            self._open.append(begun)
            counts[at + 1] = len(long) + begun
        self._bounds = np.cumsum(counts)
        self.count = int(self._bounds[-1])

    def at(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Column, number of the first row and length of trajectories."""
        if len(self._kept) == 1:
            starts, stops = self._of_column(0, numbers)
            return np.zeros_like(numbers), starts, stops - starts + 1
        columns = np.searchsorted(self._bounds, numbers, side="right") - 1
        starts, stops = np.empty_like(numbers), np.empty_like(numbers)
        for column in np.unique(columns):
            chosen = columns == column
            starts[chosen], stops[chosen] = self._of_column(int(column), numbers[chosen] - self._bounds[column])
        return columns, starts, stops - starts + 1

    def _of_column(self, at: int, numbers: Ints) -> tuple[Ints, Ints]:
        long, column = self._kept[at], self._index.columns[at]
        finished, begun = len(long), self._open[at]
        total = finished + begun
        older = int(np.searchsorted(long.stops, self._lap))
        # The present lap's trajectories, the open one last of them, then those of the lap before.
        if self._last < self._lap:
            older = 0
            by_age = numbers
        else:
            by_age = (numbers + older) % total if total else numbers
        if not begun:
            return long.starts[by_age], long.stops[by_age]
        is_open = by_age == finished
        chosen = np.where(is_open, 0, by_age)
        starts = long.starts[chosen] if finished else np.zeros_like(numbers)
        stops = long.stops[chosen] if finished else np.zeros_like(numbers)
        starts, stops = starts.copy(), stops.copy()
        starts[is_open], stops[is_open] = column.open_since, self._last
        return starts, stops


Read = Callable[[int, int], tuple[NDArray[Any], Flags | None]]
"""Marks of the rows at some places: first place, number of rows -> (rows, columns), and which rows can be read."""
