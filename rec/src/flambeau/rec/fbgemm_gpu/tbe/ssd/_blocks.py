"""One table in a file: blocks of rows, of which the last committed state stays until another one is committed.

A block has two places in the file, one beside the other. The first write to a block after a commit copies it to its
other place and goes on there (shadow paging, Lorie 1977), so that the committed place is not touched. A commit writes
the file to the disk, and then says, by a byte for each block, which of its places holds it. Blocks that were never
written have no place: the file is sparse, and their rows are computed.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BlockFile", "Bytes", "Rows", "block_bytes_of"]

Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

PAGE = 4096
_CHUNK_BYTES = 32 << 20  # copied at a time
_GIVE_BACK_S = 5.0  # for giving back places, at each commit


def block_bytes_of(record_bytes: int) -> int:
    """Bytes of a block: pages enough that at most a sixteenth is lost at its end, and as few as that takes."""
    sizes = [size * PAGE for size in (1, 2, 4, 8, 16) if size * PAGE >= record_bytes]
    if not sizes:
        return -(-record_bytes // PAGE) * PAGE
    thrifty = [size for size in sizes if size % record_bytes <= size // 16]
    return thrifty[0] if thrifty else min(sizes, key=lambda size: (size % record_bytes / size, size))


class BlockFile:
    """Rows of one size in a sparse file.

    Args:
        path: of the file; made where there is none.
        record_bytes: of a row.
        rows: how many there are.
        initial: computes rows that were never written: (len(rows), record_bytes).
        places: of each block the place of the committed state, 1 or 2, or 0 where it was never written; none was
            by default.
        resident_bytes: about how much of the file stays in the memory of the process; what is dropped stays in
            that of the system as long as there is room.
    """

    def __init__(
        self,
        path: Path,
        record_bytes: int,
        rows: int,
        initial: Callable[[Rows], Bytes],
        places: Bytes | None = None,
        resident_bytes: int = 1 << 30,
    ) -> None:
        self.path, self.record_bytes, self.rows = path, record_bytes, rows
        self.block_bytes = block_bytes_of(record_bytes)
        self.rows_per_block = self.block_bytes // record_bytes
        self.blocks = -(-rows // self.rows_per_block)
        self._initial, self._resident_bytes, self._touched = initial, resident_bytes, 0
        self._place = np.zeros(self.blocks, np.uint8) if places is None else places
        self._fresh = np.zeros(self.blocks, np.bool_)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        self.settle: Callable[[], object] | None = None  # is called before anything is written, where it is set
        self._map()

    def _map(self) -> None:
        size = 2 * self.blocks * self.block_bytes
        if os.fstat(self._file).st_size < size:
            os.ftruncate(self._file, size)  # a hole: no space is taken
        self._mapping = mmap.mmap(self._file, size) if size else None
        if self._mapping is None:
            self._blocks = np.empty((0, self.block_bytes), np.uint8)
        else:
            if hasattr(mmap, "MADV_RANDOM"):
                self._mapping.madvise(mmap.MADV_RANDOM)  # reading ahead would fetch rows that nobody asked for
            self._blocks = np.frombuffer(self._mapping, np.uint8).reshape(2 * self.blocks, self.block_bytes)
        self._records = np.lib.stride_tricks.as_strided(
            self._blocks,
            (2 * self.blocks, self.rows_per_block, self.record_bytes),
            (self.block_bytes, self.record_bytes, 1),
        )

    def grow(self, rows: int) -> None:
        """Have at least so many rows, twice as many as before where that is more."""
        if rows <= self.rows:
            return
        self._unmap()
        self.rows = max(rows, 2 * self.rows)
        blocks = -(-self.rows // self.rows_per_block)
        self.rows = blocks * self.rows_per_block
        more = blocks - self.blocks
        self._place = np.concatenate([self._place, np.zeros(more, np.uint8)])
        self._fresh = np.concatenate([self._fresh, np.zeros(more, np.bool_)])
        self.blocks = blocks
        self._map()

    # ----- rows -------------------------------------------------------------------------------------------------------

    def read(self, rows: Rows) -> Bytes:
        """Rows by number: (len(rows), record_bytes), a copy."""
        block, within = np.divmod(rows, self.rows_per_block)
        place = self._place[block].astype(np.int64)
        there = place > 0
        if there.all():
            return self._gathered(2 * block + place - 1, within)
        found = np.empty((len(rows), self.record_bytes), np.uint8)
        if there.any():
            found[there] = self._gathered(2 * block[there] + place[there] - 1, within[there])
        found[~there] = self._initial(rows[~there])
        return found

    def _gathered(self, at: Rows, within: Rows) -> Bytes:
        self._announce(np.unique(at))
        found: Bytes = self._records[at, within]
        self._touch(len(at))
        return found

    def write(self, rows: Rows, records: Bytes) -> None:
        """Write rows by number, each of them once.

        Raises:
            OSError: the disk has no room left; nothing was written then.
        """
        if not len(rows):
            return
        if self.settle is not None:
            self.settle()
        block, within = np.divmod(rows, self.rows_per_block)
        blocks = np.unique(block)
        self._shadow(blocks[~self._fresh[blocks]])
        self._records[2 * block + self._place[block] - 1, within] = records
        self._touch(len(rows))

    def _shadow(self, blocks: Rows) -> None:
        """Copy blocks to where they may be written."""
        if not len(blocks):
            return
        self._check_room(len(blocks) * self.block_bytes)
        step = max(_CHUNK_BYTES // self.block_bytes, 1)
        for begin in range(0, len(blocks), step):
            some = blocks[begin : begin + step]
            place = self._place[some]
            target = np.where(place == 1, 2, 1).astype(np.uint8)
            copied, blank = some[place > 0], some[place == 0]
            if len(copied):
                self._announce(2 * copied + place[place > 0] - 1)
                self._blocks[2 * copied + target[place > 0] - 1] = self._blocks[2 * copied + place[place > 0] - 1]
            if len(blank):
                rows = (blank[:, None] * self.rows_per_block + np.arange(self.rows_per_block)).reshape(-1)
                made = self._initial(rows).reshape(len(blank), self.rows_per_block, self.record_bytes)
                self._records[2 * blank] = made
            self._place[some], self._fresh[some] = target, True
            self._touch(2 * len(some))

    def written(self) -> Iterator[Rows]:
        """Numbers of rows in blocks that were ever written, some at a time."""
        blocks = np.flatnonzero(self._place)
        step = max(_CHUNK_BYTES // self.block_bytes, 1)
        for begin in range(0, len(blocks), step):
            some = blocks[begin : begin + step, None] * self.rows_per_block + np.arange(self.rows_per_block)
            rows = some.reshape(-1)
            yield rows[rows < self.rows]

    # ----- commits ----------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether anything was written since the last commit."""
        return bool(self._fresh.any())

    def sync(self) -> Bytes:
        """Have everything that was written on the disk; returns the places of all blocks, for the commit."""
        if self._mapping is not None:
            self._mapping.flush()
        os.fsync(self._file)
        return self._place.copy()

    def committed(self) -> None:
        """What was synchronized is the committed state now; its places are not written to any more."""
        fresh = np.flatnonzero(self._fresh)
        self._fresh[:] = False
        # The places that it replaces are used again later; where the disk is short of room, they are given back.
        if len(fresh) and shutil.disk_usage(self.path.parent).free < self.blocks * self.block_bytes:
            self._give_back(2 * fresh + 2 - self._place[fresh])

    def _give_back(self, places: Rows) -> None:
        if not sys.platform.startswith("linux"):
            return
        punch, deadline = _fallocate(), time.monotonic() + _GIVE_BACK_S
        for place in places.tolist():
            if time.monotonic() > deadline:  # disks that are told of every hole take long; the next commit goes on
                return
            # Keep the size, punch a hole; a file system that cannot do it keeps the space, which is no harm.
            if punch(self._file, 0x01 | 0x02, place * self.block_bytes, self.block_bytes):
                return

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            self._unmap()
            os.close(self._file)
            self._file = -1

    def _unmap(self) -> None:
        mapping, self._mapping = self._mapping, None
        self._blocks = self._records = np.empty((0, 0), np.uint8)
        if mapping is not None:
            mapping.close()

    # ----- memory and disk --------------------------------------------------------------------------------------------

    def _announce(self, places: Rows) -> None:
        """Have the system fetch blocks at once, rather than one after another when each is touched."""
        if not hasattr(os, "posix_fadvise") or not len(places):
            return
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        starts = places[np.concatenate([[0], breaks])]
        lengths = np.diff(np.concatenate([[0], breaks, [len(places)]]))
        size, file, advise, wanted = self.block_bytes, self._file, os.posix_fadvise, os.POSIX_FADV_WILLNEED
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            advise(file, start * size, length * size, wanted)

    def _touch(self, blocks: int) -> None:
        self._touched += blocks * self.block_bytes
        if self._touched > self._resident_bytes and hasattr(mmap, "MADV_DONTNEED"):
            self.drop()

    def drop(self) -> None:
        """Drop the file from the memory of the process; of a shared file, nothing that was written is lost by it."""
        self._touched = 0
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def _check_room(self, needed: int) -> None:
        # A mapped file has no way to say that the disk is full but to end the process.
        free = shutil.disk_usage(self.path.parent).free
        if free < needed + (16 << 20):
            raise OSError(
                errno.ENOSPC,
                f"{needed:,} bytes are to be written and {free:,} are free on the disk; make room, or move the tables "
                "to another one. The last checkpoint is as it was",
                str(self.path),
            )


def _fallocate() -> Callable[..., Any]:
    function = ctypes.CDLL(None, use_errno=True).fallocate
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_int
    return function
