"""Reading from a storage where trajectories end, and keeping the index over them up with what is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.samplers._trajectories import TrajectoryIndex

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["Marks"]


class Marks:
    """The entries that tell where trajectories end, and the index that is kept of them.

    Args:
        keys: the entries: end flags, of which any ends a trajectory, or one that numbers trajectories.
        by_identity: whether it is the latter.
        missing_allowed: whether entries that are not stored are left out.
        given: flags or numbers of all rows, instead of entries.
    """

    def __init__(
        self, keys: Sequence[Any], *, by_identity: bool, missing_allowed: bool = False, given: Tensor | None = None
    ) -> None:
        self._keys, self._by_identity, self._missing_allowed = list(keys), by_identity, missing_allowed
        self._given = given
        self._index: TrajectoryIndex | None = None
        self._storage: Any = None
        self._content: Any = None
        self._position: Any = None
        self._unsettled = 0

    @property
    def lags(self) -> bool:
        """Whether the index ends before rows that another process is still writing."""
        return self._unsettled > 0

    def forget(self) -> None:
        """Look at all rows again next time."""
        self._index = None

    def index(self, storage: Storage) -> TrajectoryIndex:
        """The index, with all that was written."""
        if (
            self._index is None
            or self._storage is not storage
            or self._content is not getattr(storage, "_storage", None)
        ):
            return self._rebuilt(storage)
        if storage.publication is not None:
            return self._followed_shared(storage)
        runs = storage.journal.since(self._position)
        if runs is None:
            return self._rebuilt(storage)
        if runs:
            total = sum(count for _, count in runs)
            if total >= self._index.size:
                return self._rebuilt(storage)
            for first, count in runs:
                if first != self._index.cursor:
                    return self._rebuilt(storage)
                self._index.append(self._read(storage, first, count))
            self._position = storage.journal.now
        return self._index

    def _rebuilt(self, storage: Storage) -> TrajectoryIndex:
        self._storage = storage
        self._position = storage.journal.now
        if storage.publication is not None:
            return self._rebuilt_shared(storage)
        taken = _rows_taken(storage)
        size = max(storage._max_size_along_dim0, 1)
        marks = self._read(storage, 0, taken)
        # Fetched after reading, which may have opened the tensors that another process made.
        self._content = getattr(storage, "_storage", None)
        index = TrajectoryIndex(size, marks.shape[1], by_identity=self._by_identity)
        first = 0
        if taken == size:
            first = self._oldest(storage, marks) % size
            marks = np.roll(marks, -first, 0)
        index.rebuild(first, marks)
        self._index = index
        return index

    def _oldest(self, storage: Storage, marks: NDArray[Any]) -> int:
        """The place of the oldest row of a full ring: behind the one that was written last."""
        last = _last_place(storage._last_cursor, len(marks))
        if last is not None:
            return last + 1
        # Nothing was written here: the rows go round, so that a trajectory may pass the end.
        if marks.shape[1] != 1:
            return 0
        column = marks[:, 0]
        ends = np.flatnonzero(column != np.roll(column, -1, 0)) if self._by_identity else np.flatnonzero(column)
        return int(ends[-1]) + 1 if len(ends) else 0

    # Shared by processes

    def _rebuilt_shared(self, storage: Any) -> TrajectoryIndex:
        writer_rows, cursor = _reserved(storage)
        taken = _rows_taken(storage)
        size = max(storage._max_size_along_dim0, 1)
        self._content = storage._storage
        oldest = cursor if taken == size else 0
        marks, whole, count = self._read_settled(storage, oldest, taken, size)
        index = TrajectoryIndex(size, marks.shape[1], by_identity=self._by_identity)
        index.rebuild(oldest, marks[:count], whole[:count])
        self._index = index
        self._unsettled = taken - count
        self._position = (writer_rows - (taken - count), storage.publication.out_of_order)
        return index

    def _followed_shared(self, storage: Any) -> TrajectoryIndex:
        index = self._index
        assert index is not None
        seen, out_of_order = self._position
        written, cursor = _reserved(storage)
        if out_of_order != storage.publication.out_of_order or written - seen >= index.size or written < seen:
            return self._rebuilt_shared(storage)
        new = written - seen
        if new:
            if (index.cursor + new) % index.size != cursor:
                return self._rebuilt_shared(storage)
            marks, whole, count = self._read_settled(storage, index.cursor, new, index.size)
            before = index.next_row
            if count:
                index.append(marks[:count], whole[:count])
            index.advance(before + new)
            self._unsettled = new - count
            self._position = (seen + count, out_of_order)
        return index

    def _read_settled(self, storage: Any, first: int, count: int, size: int) -> tuple[Any, Any, int]:
        """Marks of rows, which of them are whole, and how many come before one that is still being written."""
        places = (first + np.arange(count)) % size
        versions = storage.publication.versions[places]
        odd = (versions & 1) == 1
        whole = ~odd
        settled = count
        if odd.any():
            owners = storage.publication.owners[places]
            alive = {int(owner): storage.publication.lock.is_alive(int(owner)) for owner in np.unique(owners[odd])}
            waiting = odd & np.array([alive.get(int(owner), False) for owner in owners])
            if waiting.any():
                settled = int(np.argmax(waiting))
        parts = [self._read(storage, first, min(count, size - first))]
        if first + count > size:
            parts.append(self._read(storage, 0, first + count - size))
        return np.concatenate(parts), whole, settled

    # Reading

    def _read(self, storage: Storage, first: int, count: int) -> NDArray[Any]:
        """(rows, columns) from a place on."""
        if self._given is not None:
            found = self._given[first : first + count]
        else:
            found = self._stored(storage, first, count)
        columns = math.prod(found.shape[1:])
        plain = found.reshape(found.shape[0], columns).cpu().numpy()
        return plain if self._by_identity else plain.astype(bool)

    def _stored(self, storage: Storage, first: int, count: int) -> Tensor:
        stored: Any = getattr(storage, "_storage", None)
        rows = slice(first, first + count)
        if isinstance(stored, list):
            stored, rows = storage.get(rows), slice(None)
            if stored and is_tensor_collection(stored[0]):
                stored = torch.stack(list(stored))
        if stored is None or not is_tensor_collection(stored):
            raise RuntimeError(
                "SliceSampler: the storage holds no tensordict, so that no key says where trajectories end; "
                "store tensordicts, or give `ends` or `trajectories`."
            )
        found: Tensor | None = None
        for key in self._keys:
            value = stored.get(key, None)
            if value is None and self._missing_allowed:
                continue
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"SliceSampler: the storage has no entry {key!r}, which tells where trajectories end; it has "
                    f"{', '.join(map(repr, stored.keys(True, True)))}. Give end_key or traj_key."
                )
            value = value.as_subclass(Tensor)[rows]
            found = value if found is None else found | value
        if found is None:
            raise RuntimeError(f"SliceSampler: the storage has none of the entries {self._keys}; give end_keys.")
        return found.reshape(found.shape[: storage.ndim]) if found.ndim > storage.ndim else found


def _rows_taken(storage: Any) -> int:
    rows = getattr(storage, "_rows", None)
    return int(rows()) if rows is not None else len(storage)


def _last_place(cursor: Any, size: int) -> int | None:
    """The last of the places that were written last."""
    if cursor is None:
        return None
    if isinstance(cursor, slice):
        return range(*cursor.indices(size))[-1] if range(*cursor.indices(size)) else None
    if isinstance(cursor, tuple):
        return _last_place(cursor[0], size)
    if isinstance(cursor, Tensor):
        return int(cursor.reshape(-1)[-1]) if cursor.numel() else None
    if isinstance(cursor, (list, range)):
        return int(cursor[-1]) if len(cursor) else None
    return int(cursor)


def _reserved(storage: Any) -> tuple[int, int]:
    """How many rows the ring's writers have reserved so far, and the place of the next."""
    with storage.publication.lock:
        counters = storage.ring_counters
        if counters is None:
            taken = _rows_taken(storage)
            return taken, taken % max(storage._max_size_along_dim0, 1)
        return int(counters[1]), int(counters[0])
