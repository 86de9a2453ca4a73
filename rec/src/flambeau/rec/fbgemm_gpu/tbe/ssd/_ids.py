"""Tables without fixed rows: any number may be an id, and a row is made when its id first comes up."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import BlockFile, Bytes, Rows

__all__ = ["RECORD", "IdTable"]

RECORD = np.dtype([("id", "<i8"), ("used", "<i4"), ("minute", "<i4"), ("count", "<f4"), ("score", "<f4")])
"""Of each row on disk: its id, whether it is one, when it was last looked up, how often, and what features gave it."""

_NONE = -1


class IdTable:
    """The row of each id, in memory, and on disk beside the table.

    Ids are found by open addressing with linear probes, a whole batch at a time.

    Args:
        file: of records as `RECORD` says, which is read once.
    """

    def __init__(self, file: BlockFile) -> None:
        self.file = file
        self.facts = np.zeros(file.rows, RECORD)
        for rows in file.written():
            self.facts[rows] = file.read(rows).view(RECORD)[:, 0]
        self._changed = np.zeros(file.rows, np.bool_)
        self._vacant = np.flatnonzero(self.facts["used"] == 0)[::-1]
        self._build()

    def __len__(self) -> int:
        return int((self.facts["used"] != 0).sum())

    def _build(self) -> None:
        rows = np.flatnonzero(self.facts["used"])
        size = 1 << max(int(2 * max(len(rows), 512) - 1).bit_length(), 10)
        self._held, self._keys = len(rows), np.zeros(size, np.int64)
        self._rows = np.full(size, _NONE, np.int64)
        self._insert(self.facts["id"][rows], rows)

    def _home(self, ids: Rows) -> Rows:
        with np.errstate(over="ignore"):
            mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(32)
        return (mixed & np.uint64(len(self._rows) - 1)).astype(np.int64)

    def _insert(self, ids: Rows, rows: Rows) -> None:
        """Ids that are not there, each once."""
        place, last = self._home(ids), len(self._rows) - 1
        while len(ids):
            empty = self._rows[place] == _NONE
            self._rows[place[empty]] = rows[empty]  # of several that want one place, one gets it
            lost = self._rows[place] != rows
            self._keys[place[~lost]] = ids[~lost]
            ids, rows, place = ids[lost], rows[lost], (place[lost] + 1) & last

    def find(self, ids: Rows) -> Rows:
        """The rows of ids, -1 for those that have none."""
        found = np.full(len(ids), _NONE, np.int64)
        place, last = self._home(ids), len(self._rows) - 1
        active = np.arange(len(ids))
        while len(active):
            at = place[active]
            row = self._rows[at]
            hit = (row != _NONE) & (self._keys[at] == ids[active])
            found[active[hit]] = row[hit]
            active = active[(row != _NONE) & ~hit]
            place[active] = (place[active] + 1) & last
        return found

    def add(self, ids: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """The rows of ids, each once; those that have none are given one. Also says which these are."""
        rows = self.find(ids)
        new = rows == _NONE
        count = int(new.sum())
        if count:
            if count > len(self._vacant):
                self._grow(count)
            keep = len(self._vacant) - count
            rows[new], self._vacant = self._vacant[keep:][::-1], self._vacant[:keep]
            facts = np.zeros(count, RECORD)
            facts["id"], facts["used"] = ids[new], 1
            self.facts[rows[new]] = facts
            self._changed[rows[new]] = True
            self._held += count
            if 2 * self._held > len(self._rows):
                self._build()
            else:
                self._insert(ids[new], rows[new])
        return rows, new

    def _grow(self, count: int) -> None:
        before = self.file.rows
        self.file.grow(before + count)
        more = self.file.rows - before
        self.facts = np.concatenate([self.facts, np.zeros(more, RECORD)])
        self._changed = np.concatenate([self._changed, np.zeros(more, np.bool_)])
        self._vacant = np.concatenate([np.arange(self.file.rows - 1, before - 1, -1), self._vacant])

    def touch(self, rows: Rows, score: npt.NDArray[np.float32] | None = None) -> None:
        """Note that rows were looked up, each once."""
        self.facts["minute"][rows] = int(time.time() // 60)
        self.facts["count"][rows] += 1
        if score is not None:
            self.facts["score"][rows] += score
        self._changed[rows] = True

    def decay(self, rate: float) -> None:
        """Multiply all counts and scores."""
        self.facts["count"] *= np.float32(rate)
        self.facts["score"] *= np.float32(rate)
        self._changed |= self.facts["used"] != 0

    def remove(self, rows: Rows) -> None:
        """Forget the ids of rows; the rows may be given to others."""
        self.facts[rows] = np.zeros(1, RECORD)
        self._changed[rows] = True
        self._vacant = np.concatenate([self._vacant, rows])
        self._build()

    def rows(self) -> Rows:
        """All rows that have ids, in the order of these."""
        rows = np.flatnonzero(self.facts["used"])
        return rows[np.argsort(self.facts["id"][rows])]

    def flush(self) -> None:
        """Write what changed to the file."""
        rows = np.flatnonzero(self._changed)
        records: Bytes = np.ascontiguousarray(self.facts[rows]).view(np.uint8).reshape(len(rows), RECORD.itemsize)
        self.file.write(rows, records)
        self._changed[:] = False
