"""Rows of bytes by the numbers of 64 bits that name them, in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["ByteRows"]

_FEWEST = 1024


class ByteRows:
    """Rows of bytes by keys. Those that were never written are made from their keys when they are asked for.

    Keys are kept in order, and found by binary search, a whole batch at a time. Threads may read and write at once.

    Args:
        row_bytes: of each row.
        missing: what makes rows, (count, row_bytes) uint8, from (count,) int64 keys.
    """

    def __init__(self, row_bytes: int, missing: Callable[[Tensor], Tensor]) -> None:
        self.row_bytes, self._missing = row_bytes, missing
        self._keys, self._slots = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
        self._rows = torch.empty(_FEWEST, row_bytes, dtype=torch.uint8)
        self._written_s = torch.zeros(_FEWEST, dtype=torch.int64)
        self._vacant = torch.arange(_FEWEST)
        self._lock = threading.RLock()
        self.written = self.inserted = self.evicted = 0

    def __len__(self) -> int:
        return self._keys.numel()

    def _find(self, keys: Tensor) -> Tensor:
        """Where in the ordered keys each is, -1 for those that are not there."""
        if not len(self):
            return torch.full_like(keys, -1)
        at = torch.searchsorted(self._keys, keys).clamp(max=len(self) - 1)
        return at.where(self._keys[at] == keys, -1)

    def get(self, keys: Tensor) -> Tensor:
        """(count, row_bytes) uint8, the rows of (count,) int64 keys."""
        with self._lock:
            at = self._find(keys)
            there = at >= 0
            if bool(there.all()):
                return self._rows[self._slots[at]]
            found = torch.empty(keys.numel(), self.row_bytes, dtype=torch.uint8)
            found[there] = self._rows[self._slots[at[there]]]
        found[~there] = self._missing(keys[~there])
        return found

    def set(self, keys: Tensor, rows: Tensor, written_s: int | None = None) -> None:
        """Write rows; of a key that is given several times, the last counts.

        Args:
            keys: (count,) int64.
            rows: (count, up to row_bytes) uint8; what is missing at the end of a row is zeros.
            written_s: when, in seconds since 1970; now by default.
        """
        keys, at = _last_of_each(keys)
        rows = rows[at]
        with self._lock:
            old = self._find(keys) >= 0
            self._insert(keys[~old])
            slots = self._slots[self._find(keys)]
            self._rows[slots, : rows.shape[1]] = rows
            self._rows[slots, rows.shape[1] :] = 0
            self._written_s[slots] = int(time.time()) if written_s is None else written_s
            self.written += keys.numel()

    def _insert(self, keys: Tensor) -> None:
        """Make room for keys that are not there, in order and each once."""
        count, room = keys.numel(), self._vacant.numel()
        if count > room:
            before = self._rows.shape[0]
            more = max(before, count - room)
            self._rows = torch.cat([self._rows, self._rows.new_empty(more, self.row_bytes)])
            self._written_s = torch.cat([self._written_s, self._written_s.new_zeros(more)])
            self._vacant = torch.cat([self._vacant, torch.arange(before, before + more)])
        slots, self._vacant = self._vacant[:count], self._vacant[count:]
        new = torch.zeros(len(self) + count, dtype=torch.bool)
        new[torch.searchsorted(self._keys, keys) + torch.arange(count)] = True
        self._keys, self._slots = _merged(new, self._keys, keys), _merged(new, self._slots, slots)
        self.inserted += count

    def evict(self, before_s: int) -> int:
        """Forget rows that were last written before a time; returns how many.

        Args:
            before_s: in seconds since 1970.
        """
        with self._lock:
            leaving = self._written_s[self._slots] < before_s
            self._vacant = torch.cat([self._vacant, self._slots[leaving]])
            self._keys, self._slots = self._keys[~leaving], self._slots[~leaving]
            count = int(leaving.sum())
            self.evicted += count
            return count


def _merged(new: Tensor, old_values: Tensor, new_values: Tensor) -> Tensor:
    made = torch.empty(new.numel(), dtype=torch.int64)
    made[new], made[~new] = new_values, old_values
    return made


def _last_of_each(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct keys in order, and the last place of each."""
    ordered, places = torch.sort(keys, stable=True)
    last = torch.ones(ordered.numel(), dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return ordered[last], places[last]
