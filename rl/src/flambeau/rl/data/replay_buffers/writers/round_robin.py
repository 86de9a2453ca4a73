"""Writers that fill a storage from the first place to the last, then from the first again."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from flambeau.data.tensordict import TensorDict, is_tensor_collection
from flambeau.rl.data.replay_buffers._counters import Counters
from flambeau.rl.data.replay_buffers._publication import Publication
from flambeau.rl.data.replay_buffers.storages import Storage, _rows
from flambeau.rl.data.replay_buffers.writers.base import Writer

__all__ = ["RoundRobinWriter", "TensorDictRoundRobinWriter"]

_CURSOR, _WRITTEN = 0, 1


class RoundRobinWriter(Writer):
    """Fills a storage as a ring: the oldest item is written over once all places are taken.

    Several processes may write to a storage that they share: each reserves its places under a lock, copies, and
    publishes what it copied; see `_publication`.

    Args:
        compilable: see `Writer`.
        track_generations: count how often each place was written over, which tells whether an item is still the one
            that was sampled; see `generations_of`.
    """

    def __init__(self, compilable: bool = False, *, track_generations: bool = False) -> None:
        super().__init__(compilable)
        self._counters = Counters(2)
        self._track_generations = bool(track_generations)
        self._generations: Counters | None = None

    @property
    def tracks_generations(self) -> bool:
        """Whether it counts how often places were written over."""
        return self._track_generations

    @property
    def _cursor(self) -> int:
        """The place where the next item goes."""
        return int(self._counters[_CURSOR])

    @_cursor.setter
    def _cursor(self, value: int) -> None:
        self._counters[_CURSOR] = value

    @property
    def _write_count(self) -> int:
        """How many items were written so far."""
        return int(self._counters[_WRITTEN])

    @_write_count.setter
    def _write_count(self, value: int) -> None:
        self._counters[_WRITTEN] = value

    def register_storage(self, storage: Storage) -> None:
        """Write to this storage from now on."""
        super().register_storage(storage)
        if self._track_generations and self._generations is None:
            self._generations = Counters(storage.max_size, -1)
        if storage.publication is not None:
            self.share_()
            storage.ring_counters = self._counters

    def share_(self) -> None:
        """Keep the cursor in memory that processes share."""
        self._counters.share()
        if self._generations is not None:
            self._generations.share()

    def add(self, data: Any) -> int | Tensor:
        """Write one item; its place: an int, or a row of places for storages with several dimensions of them."""
        storage = self._registered
        if storage.publication is not None:
            first = self._extend_shared(storage, _Single(data), 1)
        else:
            first = self._cursor
            storage.set(first, self._prepared(data, first))
            self._advance(storage, first, 1)
        place: int | Tensor = self._places(storage, first, 1, single=True)
        return place

    def extend(self, data: Any) -> Tensor:
        """Write several items, rows of `data`; their places.

        Raises:
            RuntimeError: data without rows.
        """
        storage = self._registered
        count = _rows.row_count(data)
        if not count:
            raise RuntimeError(
                f"extend: data of type {type(data).__name__} has no rows; expected at least one element in extend. Use "
                "add for a single item."
            )
        if storage.publication is not None:
            first = self._extend_shared(storage, data, count)
        else:
            first = self._cursor
            self._write_rows(storage, first, data, count)
            self._advance(storage, first, count)
        places: Tensor = self._places(storage, first, count)
        return places

    def write_at(self, index: int | Tensor, data: Any) -> int | Tensor:
        """Write items at places of the caller's choice; the ring's next place stays what it is."""
        storage = self._registered
        with _exclusive(storage):
            if isinstance(index, int) or index.ndim == 0:
                data = self._prepared(data, int(index))
            else:
                data = self._prepared_rows(data, torch.as_tensor(index))
            storage.set(index, data)
            if self._generations is not None:
                self._generations[np.asarray(index)] += 1
        return index

    def generations_of(self, index: int | Tensor) -> Tensor:
        """How often places were written over: 0 after the first write, -1 before, or where nobody counts."""
        index = torch.as_tensor(index)
        if self._generations is None:
            return super().generations_of(index)
        return torch.as_tensor(self._generations[index.numpy()]).clone()

    def _write_rows(self, storage: Storage, first: int, data: Any, count: int) -> None:
        """Rows to the places from `first` on, around the ring's end; of rows that fall on one place the last stays."""
        size = self._ring_size(storage, data)
        skipped = 0 if storage.appends else max(count - size, 0)
        if skipped:
            data = _rows.select_rows(data, slice(skipped, None))
        at, left, used = (first + skipped) % size, count - skipped, 0
        while left:
            part = min(left, size - at)
            rows = data if part == count - skipped else _rows.select_rows(data, slice(used, used + part))
            places = range(at, at + part)
            storage.set(places, self._prepared_rows(rows, torch.arange(at, at + part)))
            at, used, left = 0, used + part, left - part

    def _ring_size(self, storage: Storage, data: Any) -> int:
        if storage.ndim == 1 or getattr(storage, "initialized", True):
            return int(storage._max_size_along_dim0)
        example = (
            data[0] if isinstance(data, list) or not isinstance(data, (tuple, dict)) else tree_flatten(data)[0][0][0]
        )
        others = 1
        for extent in example.shape[: storage.ndim - 1]:
            others *= int(extent)
        return int(storage.max_size) // others

    def _advance(self, storage: Storage, first: int, count: int) -> None:
        size = storage._max_size_along_dim0
        if self._generations is not None:
            self._count_generations(first, count, size)
        self._counters[_CURSOR] = (first + count) % size
        self._counters[_WRITTEN] += count

    def _count_generations(self, first: int, count: int, size: int) -> None:
        assert self._generations is not None
        np.add.at(self._generations.values, (first + np.arange(count)) % size, 1)

    def _extend_shared(self, storage: Storage, data: Any, count: int) -> int:
        """Reserve places under the lock, copy outside of it, publish: for storages that processes share."""
        publication = storage.publication
        assert publication is not None
        single = isinstance(data, _Single)
        if not getattr(storage, "_known", lambda: True)():
            # Memory must be there before places are reserved in it.
            with publication.lock:
                if not storage._known():
                    example = self._prepared(data.item, 0) if single else None
                    if example is None:
                        first_row = _rows.select_rows(data, slice(0, 1))
                        example = _first_of(self._prepared_rows(first_row, torch.zeros(1, dtype=torch.int64)))
                    storage._init(example)
        size = storage._max_size_along_dim0
        begun = -1
        done = 0
        while done < count:
            part = min(count - done, size)
            first = self._reserve(storage, publication, part, size)
            begun = first if begun < 0 else begun
            at, left = first, part
            while left:
                piece = min(left, size - at)
                try:
                    if single:
                        storage.set(at, self._prepared(data.item, at))
                    else:
                        rows = data if piece == count else _rows.select_rows(data, slice(done, done + piece))
                        storage.set(range(at, at + piece), self._prepared_rows(rows, torch.arange(at, at + piece)))
                except BaseException:
                    publication.abandon((at + np.arange(left)) % size)
                    raise
                publication.end(slice(at, at + piece))
                at, left, done = 0, left - piece, done + piece
        return begun

    def _reserve(self, storage: Any, publication: Publication, count: int, size: int) -> int:
        while True:
            with publication.lock:
                first = self._cursor
                rows = (first + np.arange(count)) % size if first + count > size else slice(first, first + count)
                if publication.begin(rows):
                    if self._generations is not None:
                        self._count_generations(first, count, size)
                    self._counters[_CURSOR] = (first + count) % size
                    self._counters[_WRITTEN] += count
                    storage._grow(min(first + count, size))
                    return first
            time.sleep(20e-6)  # a whole lap behind, another process still copies to these places

    def _prepared(self, data: Any, place: int) -> Any:
        """An item as it is stored."""
        return data

    def _prepared_rows(self, data: Any, places: Tensor) -> Any:
        """Rows as they are stored."""
        return data

    def _places(self, storage: Storage, first: int, count: int, *, single: bool = False) -> Any:
        size = storage._max_size_along_dim0
        if storage.ndim == 1:
            if single:
                return first
            places = torch.arange(first, first + count)
            return places if first + count <= size else places % size
        shape = storage.shape
        assert shape is not None
        rows = torch.arange(first, first + count) % size
        parts = torch.meshgrid(rows, *(torch.arange(extent) for extent in shape[1:]), indexing="ij")
        return torch.stack([part.reshape(-1) for part in parts], -1)

    def _empty(self, empty_write_count: bool = True) -> None:
        self._cursor = 0
        if empty_write_count:
            self._write_count = 0
        if self._generations is not None:
            self._generations.values[:] = -1

    def state_dict(self) -> dict[str, Any]:
        """The cursor, how many items were written, and generations where they are tracked."""
        state: dict[str, Any] = {"_cursor": self._cursor, "_write_count": self._write_count}
        if self._generations is not None:
            state["_generation"] = self._generations.tensor.clone()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another writer's `state_dict` was made."""
        self._cursor = int(state_dict["_cursor"])
        self._write_count = int(state_dict.get("_write_count", 0))
        if self._generations is not None and state_dict.get("_generation") is not None:
            self._generations.load(state_dict["_generation"].numpy())

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as `metadata.json`."""
        content: dict[str, Any] = {"cursor": self._cursor, "write_count": self._write_count}
        if self._generations is not None:
            content["generation"] = self._generations.values.tolist()
        self._dump(path, content)

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        found = self._loaded(path)
        self.load_state_dict(
            {
                "_cursor": found["cursor"],
                "_write_count": found.get("write_count", 0),
                "_generation": torch.tensor(found["generation"]) if "generation" in found else None,
            }
        )

    def __repr__(self) -> str:
        full = self._storage is not None and self._storage._is_full
        return f"{type(self).__name__}(cursor={self._cursor}, full_storage={full})"


class TensorDictRoundRobinWriter(RoundRobinWriter):
    """The same for tensordicts, each of which is stored with its place, under "index"."""

    def _prepared(self, data: Any, place: int) -> Any:
        if not is_tensor_collection(data):
            return data
        data = _shallow(data)
        data.set("index", torch.full(data.shape, place, dtype=torch.int64, device=data.device))
        return data

    def _prepared_rows(self, data: Any, places: Tensor) -> Any:
        if isinstance(data, list):
            return [self._prepared(item, place) for item, place in zip(data, places.tolist(), strict=True)]
        if not is_tensor_collection(data):
            return data
        data = _shallow(data)
        shape = data.shape
        index = places.to(data.device) if data.device is not None else places
        data.set("index", index.reshape(-1, *[1] * (len(shape) - 1)).expand(shape))
        return data


class _Single:
    """One item, where rows are expected as well."""

    def __init__(self, item: Any) -> None:
        self.item = item


def _first_of(rows: Any) -> Any:
    from flambeau.rl.data.replay_buffers.storages.tensor import tree_first

    return rows[0] if isinstance(rows, list) else tree_first(rows)


def _shallow(data: Any) -> Any:
    """A collection of the same entries, to which one can be added without its owner's seeing it."""
    return data.copy() if type(data) is TensorDict else data.clone(False)


def _exclusive(storage: Storage) -> Any:
    return nullcontext() if storage.publication is None else storage.publication.lock
