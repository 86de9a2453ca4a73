"""The rows of tables on disk that are in memory, side by side, as kernels look them up and train them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm
from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import BlockFile, Bytes, Rows
from flambeau.rec.fbgemm_gpu.tbe.ssd._row_format import RowFormat

__all__ = ["Arena", "CacheCounts", "Region"]

logger = logging.getLogger("flambeau.rec.tbe.ssd")

Slots = npt.NDArray[np.int64]


@dataclass
class CacheCounts:
    """What became of rows that were asked for; each row counts once for each batch."""

    calls: int = 0
    requested: int = 0
    unique: int = 0
    misses: int = 0
    evicted: int = 0
    written: int = 0


class Region:
    """The cached rows of tables that are equally wide.

    Rows of all its tables are numbered one after another. A row that is cached has a slot, in which its numbers are.

    Args:
        files: of the tables.
        form: of their rows.
        capacity: slots to begin with.
        algorithm: who leaves when there is no slot left.
    """

    def __init__(
        self, files: Sequence[BlockFile], form: RowFormat, capacity: int, algorithm: CacheAlgorithm, counts: CacheCounts
    ) -> None:
        self.files, self.form, self.capacity, self._algorithm = list(files), form, capacity, algorithm
        self.counts = counts
        self.bases = [0, *accumulate(file.rows for file in files)]
        # One more than the slot, so that an array of zeros, which takes no memory until it is used, says "none".
        self._slot_of = np.zeros(self.bases[-1], np.int32)
        self._row_of = np.full(capacity, -1, np.int64)
        self._used, self._uses = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self.dirty = np.zeros(capacity, np.bool_)
        self._free = np.arange(capacity - 1, -1, -1)
        self._clock = 0
        self.evictions = 0  # where it is as it was, slots that were found are still right
        self.parts: list[Bytes] = []

    def attach(self, parts: list[Bytes]) -> None:
        """Have the numbers of slots in other memory, which begins with those there were.

        Args:
            parts: the rows, and each state: (slots, bytes).
        """
        for old, new in zip(self.parts, parts, strict=False):
            new[: len(old)] = old
        self.parts = parts
        more = len(parts[0]) - self.capacity
        if more > 0:
            self._free = np.concatenate([np.arange(len(parts[0]) - 1, self.capacity - 1, -1), self._free])
            self._row_of = np.concatenate([self._row_of, np.full(more, -1, np.int64)])
            self._used, self._uses = (
                np.concatenate([old, np.zeros(more, np.int64)]) for old in (self._used, self._uses)
            )
            self.dirty = np.concatenate([self.dirty, np.zeros(more, np.bool_)])
            self.capacity = len(parts[0])
        self.evictions += 1

    def extend(self) -> None:
        """Take notice of rows that were added to the only table."""
        more = self.files[0].rows - len(self._slot_of)
        if not more:
            return
        self._slot_of = np.concatenate([self._slot_of, np.zeros(more, np.int32)])
        self.bases[-1] = self.files[0].rows

    # ----- slots ------------------------------------------------------------------------------------------------------

    def missing(self, rows: Rows) -> int:
        """How many of some rows have no slot."""
        return int((self._slot_of[rows] == 0).sum())

    def slots(self, rows: Rows) -> Slots:
        """Where rows are, -1 for those that are not cached."""
        return self._slot_of[rows].astype(np.int64) - 1

    def resolve(self, rows: Rows, new: npt.NDArray[np.bool_] | None = None, records: Bytes | None = None) -> Slots:
        """Fetch rows that are not cached, and say where all are.

        Args:
            rows: each once; no more than `capacity`.
            new: which of them there is nothing of on disk.
            records: what those begin with.
        """
        self._clock += 1
        self.counts.unique += len(rows)
        slots = self.slots(rows)
        absent = slots < 0
        self._used[slots[~absent]] = self._clock
        if absent.any():
            wanted = rows[absent]
            self.counts.misses += len(wanted)
            taken = self._take(len(wanted))
            if new is None or not new.any():
                self._fill(taken, self._read(wanted))
            else:
                old = ~new[absent]
                self._fill(taken[old], self._read(wanted[old]))
            self._row_of[taken], self._slot_of[wanted] = wanted, taken + 1
            self._used[taken], self._uses[taken] = self._clock, 0
            self.dirty[taken] = False
            slots[absent] = taken
        if new is not None and records is not None and new.any():
            self._fill(slots[new], records)
            self.dirty[slots[new]] = True
        self._uses[slots] += 1
        return slots

    def borrow(self, count: int) -> Slots:
        """Slots that stay free: what is written to them holds until rows are fetched again."""
        taken = self._take(count)
        self._free = np.concatenate([self._free, taken])
        return taken

    def room(self, count: int) -> bool:
        """Whether slots for so many rows of one batch exist."""
        return count <= self.capacity

    def _take(self, count: int) -> Slots:
        if len(self._free) < count:
            self._evict(count - len(self._free))
        keep = len(self._free) - count
        taken, self._free = self._free[keep:], self._free[:keep]
        return taken

    def _evict(self, count: int) -> None:
        # Many at a time, since who leaves is found among all.
        candidates = np.flatnonzero((self._row_of >= 0) & (self._used < self._clock))
        count = min(max(count, self.capacity // 16), len(candidates))
        rank = self._used[candidates]
        if self._algorithm == CacheAlgorithm.LFU:
            rank = rank + (self._uses[candidates] << 40)
        leaving = candidates if count == len(candidates) else candidates[np.argpartition(rank, count)[:count]]
        self._write_back(leaving[self.dirty[leaving]])
        self._forget(leaving)
        self.counts.evicted += count

    def _forget(self, slots: Slots) -> None:
        self._slot_of[self._row_of[slots]] = 0
        self._row_of[slots] = -1
        self.dirty[slots] = False
        self._free = np.concatenate([self._free, slots])
        self.evictions += 1

    def drop(self, rows: Rows) -> None:
        """Forget rows, also what was not written back of them."""
        slots = self.slots(rows)
        self._forget(slots[slots >= 0])

    # ----- numbers ----------------------------------------------------------------------------------------------------

    def _split(self, rows: Rows) -> list[tuple[BlockFile, npt.NDArray[np.bool_] | slice, Rows]]:
        if len(self.files) == 1:
            return [(self.files[0], slice(None), rows)]
        found: list[tuple[BlockFile, npt.NDArray[np.bool_] | slice, Rows]] = []
        for file, begin, end in zip(self.files, self.bases, self.bases[1:], strict=False):
            mine = (rows >= begin) & (rows < end)
            if mine.any():
                found.append((file, mine, rows[mine] - begin))
        return found

    def _read(self, rows: Rows) -> Bytes:
        if len(self.files) == 1:
            return self.files[0].read(rows)
        records = np.empty((len(rows), self.form.record_bytes), np.uint8)
        for file, mine, of_file in self._split(rows):
            records[mine] = file.read(of_file)
        return records

    def _fill(self, slots: Slots, records: Bytes) -> None:
        for part, where in zip(self.parts, self.form.parts, strict=True):
            part[slots] = records[:, where]

    def _records(self, slots: Slots) -> Bytes:
        records = np.zeros((len(slots), self.form.record_bytes), np.uint8)
        for part, where in zip(self.parts, self.form.parts, strict=True):
            records[:, where] = part[slots]
        return records

    def read(self, rows: Rows) -> Bytes:
        """Rows as they are now, cached or not; the cache stays as it is."""
        records = self._read(rows)
        slots = self.slots(rows)
        cached = slots >= 0
        if cached.any():
            records[cached] = self._records(slots[cached])
        return records

    def write(self, rows: Rows, records: Bytes) -> None:
        """Overwrite rows, each once, on disk and in the cache."""
        for file, mine, of_file in self._split(rows):
            file.write(of_file, records[mine])
        slots = self.slots(rows)
        cached = slots >= 0
        self._fill(slots[cached], records[cached])
        self.dirty[slots[cached]] = False

    def _write_back(self, slots: Slots) -> None:
        rows = self._row_of[slots]
        order = np.argsort(rows)  # neighbours on disk one after another
        slots, rows = slots[order], rows[order]
        step = max((32 << 20) // max(self.form.record_bytes, 1), 1)
        for begin in range(0, len(rows), step):
            some = slice(begin, begin + step)
            records = self._records(slots[some])
            for file, mine, of_file in self._split(rows[some]):
                file.write(of_file, records[mine])
        self.dirty[slots] = False
        self.counts.written += len(rows)

    def flush(self) -> None:
        """Write rows that were trained to their files."""
        self._write_back(np.flatnonzero(self.dirty))

    def clear(self) -> None:
        """Write back, and forget all."""
        self.flush()
        self._forget(np.flatnonzero(self._row_of >= 0))


class Arena:
    """The memory of all regions, as kernels are told of it: rows one after another, and each state likewise.

    Args:
        regions: of which each has rows of one width.
        dtype: of rows.
        by_element: of each state, whether it has a number for each element of a row, or one for the row.
    """

    def __init__(self, regions: Sequence[Region], dtype: torch.dtype, by_element: Sequence[bool]) -> None:
        self.regions, self._dtype, self._by_element = list(regions), dtype, list(by_element)
        self._allocate([region.capacity for region in regions])

    def _allocate(self, capacities: Sequence[int]) -> None:
        widths = [region.form.columns for region in self.regions]
        sizes = [count * width for count, width in zip(capacities, widths, strict=True)]
        self.elements, self.slots = [0, *accumulate(sizes)], [0, *accumulate(capacities)]
        weights = torch.zeros(self.elements[-1], dtype=self._dtype)
        states = [
            torch.zeros(self.elements[-1] if whole else self.slots[-1], dtype=torch.float32)
            for whole in self._by_element
        ]
        for at, (region, count) in enumerate(zip(self.regions, capacities, strict=True)):
            parts = [_rows(weights, self.elements[at], self.elements[at + 1], count)]
            for state, whole in zip(states, self._by_element, strict=True):
                ends = self.elements if whole else self.slots
                parts.append(_rows(state, ends[at], ends[at + 1], count))
            region.attach(parts)
        self.weights: Tensor = weights
        self.states: list[Tensor] = states

    def make_room(self, wanted: Sequence[int]) -> None:
        """Have slots for so many rows of each region at once, also more than the cache was to have."""
        if all(region.room(count) for region, count in zip(self.regions, wanted, strict=True)):
            return
        capacities = [
            region.capacity if region.room(count) else count + count // 8
            for region, count in zip(self.regions, wanted, strict=True)
        ]
        logger.warning(
            "a batch needs %d rows of tables on disk at once, and the cache has %d; it grows. Give it more rows from "
            "the beginning (cache_sets), or make batches smaller",
            sum(wanted), self.slots[-1],
        )  # fmt: skip
        self._allocate(capacities)


def _rows(flat: Tensor, begin: int, end: int, count: int) -> Bytes:
    found: Bytes = flat[begin:end].view(torch.uint8).numpy().reshape(count, -1)
    return found
