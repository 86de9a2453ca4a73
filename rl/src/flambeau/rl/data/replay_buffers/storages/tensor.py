"""Storages that keep tensors: one for each entry of an item, with places in front."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from flambeau.data.tensordict import TensorDict, is_tensor_collection
from flambeau.rl.data.replay_buffers._counters import Counters
from flambeau.rl.data.replay_buffers._publication import Publication
from flambeau.rl.data.replay_buffers.storages import _mapped_files as mapped_files
from flambeau.rl.data.replay_buffers.storages import _rows
from flambeau.rl.data.replay_buffers.storages.base import Storage, as_places

__all__ = ["LazyTensorStorage", "TensorStorage"]


class TensorStorage(Storage):
    """Items in tensors that exist already: a tensordict, a tensor, or a pytree of tensors, with places in front.

    Args:
        storage: the tensors; all places count as taken. None for none yet.
        max_size: how many places there are, over all of the first `ndim` dimensions; by default as many as `storage`
            has.
        device: where the items live; "auto" for where the first ones that are added do.
        ndim: how many dimensions of `storage` count places: with 2, [time, environment].
        compilable: see `Storage`.

    Raises:
        ValueError: max_size < 1, or no storage and no max_size.
    """

    supports_conditional_update: ClassVar[bool] = True
    _default_checkpointer: ClassVar[str] = "TensorStorageCheckpointer"

    def __init__(
        self,
        storage: Any,
        max_size: int | None = None,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
    ) -> None:
        if storage is None and max_size is None:
            raise ValueError(f"{type(self).__name__}: give a storage, or max_size, how many places it will have.")
        if max_size is None:
            max_size = math.prod(_leading(storage, ndim))
        self.ndim = ndim
        super().__init__(max_size, compilable=compilable)
        self.initialized = storage is not None
        self._counters = Counters(1)
        self._storage = storage
        self.device: Any = device if device == "auto" else torch.device(device)
        if storage is not None:
            if device == "auto":
                self.device = _device_of(storage)
            self._len = max_size

    @property
    def _len(self) -> int:
        return int(self._counters[0])

    @_len.setter
    def _len(self, value: int) -> None:
        self._counters[0] = value

    def __len__(self) -> int:
        """How many places are taken, over all dimensions of places."""
        if self.ndim == 1 or not self._known():
            return self._len
        return self._len * math.prod(_leading(self._storage, self.ndim)[1:])

    @property
    def _rows_taken(self) -> int:
        return self._len

    @property
    def _max_size_along_dim0(self) -> int:
        if self.ndim == 1:
            return self.max_size
        if not self._known():
            raise RuntimeError(
                f"{type(self).__name__}: how many rows fit is known once the first data gave the other {self.ndim - 1} "
                "dimensions of places."
            )
        return int(_leading(self._storage, self.ndim)[0])

    @property
    def _is_full(self) -> bool:
        return self._known() and self._rows() == self._max_size_along_dim0

    def _rows(self) -> int:
        """Rows taken along the first dimension."""
        if self.ndim == 1:
            return self._len
        full = math.prod(_leading(self._storage, self.ndim)[1:])
        return self._len if self._len * full <= self.max_size else self._len // full

    @property
    def shape(self) -> torch.Size | None:
        """Sizes of the dimensions of places, as far as they are taken; None before there is anything."""
        if not self._known():
            return None
        leading = _leading(self._storage, self.ndim)
        if self._is_full:
            return torch.Size(leading)
        return torch.Size([self._rows(), *leading[1:]])

    def _known(self) -> bool:
        """Whether the tensors exist, which another process may have made."""
        return self.initialized

    # Writing

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write items at places: one at an int, else rows of `data` at a range, a slice or an index.

        Raises:
            RuntimeError: no room at a place, or data that does not fit what is stored.
        """
        if set_cursor:
            self._last_cursor = cursor
        if isinstance(data, list):
            data = _stacked(data, type(self))
        single = isinstance(cursor, (int, np.integer)) or (isinstance(cursor, Tensor) and cursor.ndim == 0)
        if not self._known():
            self._init(data if single else tree_first(data))
        run = self._run(cursor, single)
        if run is None:
            places = torch.as_tensor(cursor) if not isinstance(cursor, (tuple, slice)) else cursor
            highest = self._highest(places)
            self._check_room(highest)
            _put(self._storage, places, data)
            self._note_any()
        else:
            first, count = run
            self._check_room(first + count - 1)
            highest = first + count - 1
            if single:
                data = _with_row(data)
            _rows.scatter_run(self._storage, first, data, count)
            self._note(first, count)
        self._grow(highest + 1)

    def _grow(self, taken: int) -> None:
        """At least so many rows are taken."""
        if taken <= self._len:
            return
        if self.publication is None:
            self._len = taken
            return
        with self.publication.lock:
            self._len = max(self._len, taken)

    def _run(self, cursor: Any, single: bool) -> tuple[int, int] | None:
        """First row and number of rows of places that follow one another."""
        if single:
            place = int(cursor)
            return (place + self._len if place < 0 else place), 1
        if isinstance(cursor, range) and cursor.step == 1:
            return cursor.start, len(cursor)
        if isinstance(cursor, slice) and cursor.step in (None, 1):
            start, stop, _ = cursor.indices(max(self._len, cursor.stop or 0))
            return (start, stop - start) if stop > start else None
        return None

    def _highest(self, places: Any) -> int:
        if isinstance(places, tuple):
            return self._highest(places[0])
        if isinstance(places, slice):
            return max(places.indices(self._len)[1] - 1, 0)
        if isinstance(places, int):
            return places
        if places.dtype == torch.bool:
            places = places.nonzero()
        return int(places.max()) if places.numel() else -1

    def _check_room(self, highest: int) -> None:
        rows = self._max_size_along_dim0
        if highest >= rows:
            raise RuntimeError(
                f"{type(self).__name__}: place {highest} is outside of the storage, which has {rows} places."
            )

    def _note(self, first: int, count: int) -> None:
        self.journal.note(first, count)

    def _note_any(self) -> None:
        self.journal.note_any()
        if self.publication is not None:
            self.publication.note_out_of_order()

    def _init(self, example: Any) -> None:
        raise RuntimeError(f"A {type(self).__name__} has no tensors yet; use a LazyTensorStorage to have them made.")

    # Reading

    def get(self, index: Any) -> Any:
        """Items at places.

        Raises:
            IndexError: a place that is not taken.
            RuntimeError: there is nothing yet.
        """
        if not self._known():
            raise RuntimeError(
                f"This {type(self).__name__} has no items yet; add some before reading. (Cannot get elements out of a "
                "non-initialized storage.)"
            )
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        index = _plain_index(index)
        return self._read(index) if self.publication is None else self._read_published(index)

    def _read_published(self, index: Any) -> Any:
        """Whole rows only: those that are being written are waited for, those left half written are left out.

        Raises:
            IndexError: a single row that its writer left half written when it died.
        """
        publication = self.publication
        assert publication is not None
        rows = as_places(index[0] if isinstance(index, tuple) else index, self._rows())
        if rows is None:
            rows = torch.arange(self._rows())
        places = rows.numpy()
        while True:
            versions, whole = publication.settled(places)
            if not whole.all():
                if isinstance(index, int):
                    raise IndexError(f"row {index} was left half written by a process that died; write it anew.")
                kept = rows[torch.from_numpy(whole)]
                return self._read_published((kept, *index[1:]) if isinstance(index, tuple) else kept)
            found = self._read(index)
            # What is a view must be copied before it is known to be whole.
            found = found.clone() if isinstance(found, Tensor) or is_tensor_collection(found) else found
            if publication.unchanged(places, versions):
                return found

    def _read(self, index: Any) -> Any:
        taken = self._rows()
        if self._is_full:
            return _get(self._storage, index)
        if isinstance(index, int) and not isinstance(index, bool):
            if not -taken <= index < taken:
                raise IndexError(f"index {index} is out of bounds: {taken} places are taken.")
            return _get(self._storage, index % taken)
        if isinstance(index, slice):
            return _get(self._storage, _bounded(index, taken))
        if isinstance(index, Tensor) and index.dtype == torch.int64 and index.numel():
            low, high = index.aminmax()
            if int(low) < -taken or int(high) >= taken:
                wrong = int(low) if int(low) < -taken else int(high)
                raise IndexError(f"index {wrong} is out of bounds: {taken} places are taken.")
            return _get(self._storage, torch.where(index < 0, index + taken, index))
        return _get(_get(self._storage, slice(taken)), index)

    def take(self, index: Any) -> Any:
        """Items at places that a sampler drew: a tensor of places, or one tensor a dimension of places."""
        if isinstance(index, tuple):
            if self.ndim == 1:
                return _rows.take_rows(self._storage, index[0], 1)
            leading = _leading(self._storage, self.ndim)
            places = index[0]
            for size, part in zip(leading[1:], index[1:], strict=True):
                places = places * size + part
            return _rows.take_rows(self._storage, places, self.ndim)
        if isinstance(index, Tensor) and index.ndim == 1 and index.dtype == torch.int64 and self._known():
            return _rows.take_rows(self._storage, index, 1)
        return self.get(index)

    def contains(self, item: Any) -> Any:
        """Whether there is something at a place; for a tensor of places, a tensor."""
        taken = self._len
        if isinstance(item, int):
            return -taken <= item < taken
        if isinstance(item, Tensor):
            return (item >= -taken) & (item < taken)
        if isinstance(item, tuple):
            return self.contains(item[0])
        raise NotImplementedError(f"contains: item has type {type(item).__name__}, expected an int or a tensor.")

    def flatten(self) -> TensorStorage:
        """The items that are taken, in one dimension of places; memory is shared where strides allow."""
        content = self.get(slice(None))
        if self.ndim > 1:
            if is_tensor_collection(content):
                content = content.flatten(0, self.ndim - 1)
            else:
                content = tree_map(lambda leaf: leaf.flatten(0, self.ndim - 1), content)
        return TensorStorage(content, device=self.device)

    def _random_places(self, count: int) -> Any:
        if self.ndim == 1:
            return torch.randint(0, self._len, (count,), generator=self._rng, device=self.device)
        shape = self.shape
        assert shape is not None
        return tuple(torch.randint(0, size, (count,), generator=self._rng, device=self.device) for size in shape)

    # State

    def state_dict(self) -> dict[str, Any]:
        """The tensors with all places, and how many are taken."""
        storage = self._storage
        if not self._known():
            content: Any = {}
        elif isinstance(storage, Tensor):
            content = storage
        elif is_tensor_collection(storage):
            content = storage.state_dict()
        else:
            content = storage
        return {"_storage": content, "initialized": self._known(), "_len": self._len}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the content of a `state_dict`.

        Raises:
            RuntimeError: content of another kind than what is stored, or with more places than there are here.
        """
        content = state_dict["_storage"]
        if not state_dict["initialized"]:
            self._len = int(state_dict["_len"])
            return
        if isinstance(content, Tensor):
            self._load_content(content.clone() if not self.initialized else content)
        elif isinstance(content, (dict, OrderedDict)) and "__batch_size" in content:
            loaded = TensorDict({}, []).load_state_dict(content)
            self._load_content(loaded if self.initialized else loaded.clone())
        else:
            self._load_content(tree_map(lambda leaf: leaf.clone(), content))
        self._len = int(state_dict["_len"])
        self.journal.note_any()

    def _load_content(self, content: Any) -> None:
        """Take tensors over, into those that exist."""
        if not self.initialized:
            self._take_over(content)
            return
        here, there = _leading(self._storage, self.ndim), _leading(content, self.ndim)
        if tuple(here) != tuple(there):
            raise RuntimeError(
                f"{type(self).__name__}: the saved content has {tuple(there)} places, this storage {tuple(here)}; make "
                f"one with max_size={math.prod(there)}."
            )
        if isinstance(self._storage, Tensor):
            self._storage.copy_(content)
        elif is_tensor_collection(self._storage):
            if set(self._storage.keys(True, True)) != set(content.keys(True, True)):
                raise RuntimeError(
                    f"{type(self).__name__}: the saved content has {sorted(map(str, content.keys(True, True)))}, "
                    f"this storage {sorted(map(str, self._storage.keys(True, True)))}."
                )
            self._storage.update_(content)
        else:
            for mine, other in zip(tree_flatten(self._storage)[0], tree_flatten(content)[0], strict=True):
                mine.copy_(other)

    def _take_over(self, content: Any) -> None:
        self._storage = content
        self.initialized = True

    def _empty(self) -> None:
        self._len = 0
        self.journal.note_any()

    # Processes

    def share_(self) -> TensorStorage:
        """Keep the items, and how many there are, in memory that processes share."""
        if self.publication is None:
            self.publication = Publication(self.max_size)
        self._counters.share()
        if self.initialized and not _is_shared(self._storage):
            if isinstance(self._storage, Tensor) or is_tensor_collection(self._storage):
                self._storage = self._storage.share_memory_()
            else:
                tree_map(lambda leaf: leaf.share_memory_(), self._storage)
        return self

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            self.share_()
        return super().__getstate__()

    def __repr__(self) -> str:
        if not self._known():
            content, shape = "<empty>", None
        else:
            content, shape = repr(self._storage).replace("\n", "\n" + " " * 8), self.shape
        return (
            f"{type(self).__name__}(\n    data={content}, \n    shape={shape}, \n    len={len(self)}, \n"
            f"    max_size={self.max_size})"
        )


class LazyTensorStorage(TensorStorage):
    """Items in tensors that are made, with all places, when the first item shows what they are like.

    Args:
        max_size: how many places there are, > 0, over all dimensions of places.
        device: where the items live; "auto" for where the first ones do.
        ndim: how many dimensions of the data count places: with 2, data [time, environment] is stored as such.
        compilable: see `Storage`.
        consolidated: whether all entries lie in one piece of memory.
        shared_init: whether another process may add the first item: memory is then made in files, in the system's
            shared memory where it has such a folder, which all processes open that this storage was sent to.
        cleanup_memmap: whether those files are removed with the storage.

    Raises:
        ValueError: max_size < 1.
    """

    def __init__(
        self,
        max_size: int,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
        consolidated: bool = False,
        shared_init: bool = False,
        cleanup_memmap: bool = True,
    ) -> None:
        super().__init__(None, max_size, device=device, ndim=ndim, compilable=compilable)
        self.consolidated = consolidated
        self.shared_init = shared_init
        self.cleanup_memmap = cleanup_memmap
        self._folder: str | None = None
        if shared_init:
            self.share_()

    def _known(self) -> bool:
        if self.initialized:
            return True
        if self.publication is not None and self.publication.allocated:
            self._open_shared()
            return True
        return False

    def share_(self) -> LazyTensorStorage:
        """Keep the items, and how many there are, in memory that processes share, now or when there are any."""
        super().share_()
        if not self.initialized and self._folder is None:
            self.shared_init = True
            place = "/dev/shm" if Path("/dev/shm").is_dir() else None
            self._folder = tempfile.mkdtemp(prefix="flambeau-replay-", dir=place)
            if self.cleanup_memmap:
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self

    def _init(self, example: Any) -> None:
        if self.device == "auto":
            self.device = _device_of(example)
        if self._folder is None:
            self._take_over(self._allocated(example))
            return
        assert self.publication is not None
        with self.publication.lock:
            if self.publication.allocated:
                self._open_shared()
                return
            self._take_over(self._mapped(example, self._folder))
            self.publication.set_allocated()

    def _open_shared(self) -> None:
        """Open the tensors that another process made."""
        assert self._folder is not None
        self._take_over(mapped_files.open_all(self._folder))

    def _allocated(self, example: Any) -> Any:
        """Tensors for all places, of what one item is like."""
        if isinstance(example, Tensor):
            return torch.zeros(self._full_shape(example), dtype=example.dtype, device=self.device)
        if is_tensor_collection(example):
            size = self._full_shape(example)
            made = example.to(self.device).expand(size).clone().zero_()
            return made.consolidate() if self.consolidated else made
        return tree_map(self._allocated, example)

    def _full_shape(self, example: Any) -> torch.Size:
        """[rows, the other dimensions of places, the item's own]."""
        others = example.shape[: self.ndim - 1]
        return torch.Size([self.max_size // max(math.prod(others), 1), *example.shape])

    def _mapped(self, example: Any, folder: str) -> Any:
        """Tensors for all places in files below a folder."""
        return mapped_files.allocate(example, self._full_shape, folder)


def tree_first(data: Any) -> Any:
    """The first row of rows."""
    if isinstance(data, Tensor) or is_tensor_collection(data):
        return data[0]
    return tree_map(lambda leaf: leaf[0], data)


def _leading(storage: Any, ndim: int) -> tuple[int, ...]:
    if not isinstance(storage, Tensor) and not is_tensor_collection(storage):
        storage = tree_flatten(storage)[0][0]
    return tuple(storage.shape[:ndim])


def _device_of(data: Any) -> torch.device:
    if isinstance(data, Tensor):
        return data.device
    if is_tensor_collection(data):
        if data.device is not None:
            return torch.device(data.device)
        leaves = [leaf for leaf in data.values(True, True) if isinstance(leaf, Tensor)]
    else:
        leaves = tree_flatten(data)[0]
    return leaves[0].device if leaves else torch.device("cpu")


def _with_row(data: Any) -> Any:
    """One item as one row."""
    if type(data) is TensorDict:
        return _one_row(data)
    if isinstance(data, Tensor) or is_tensor_collection(data):
        return data.unsqueeze(0)
    return tree_map(lambda leaf: leaf.unsqueeze(0), data)


def _one_row(data: TensorDict) -> Any:
    found = {}
    for key, value in data.items():
        found[key] = _one_row(value) if type(value) is TensorDict else value.unsqueeze(0)
    return TensorDict._new_unsafe(found, batch_size=torch.Size((1, *data.batch_size)), device=data.device)


def _stacked(data: Sequence[Any], kind: type) -> Any:
    if not data:
        raise RuntimeError(f"{kind.__name__}: data has no items; give at least one.")
    try:
        if is_tensor_collection(data[0]):
            return torch.stack(list(data))
        if isinstance(data[0], Tensor):
            return torch.stack(list(data))
        leaves, shape = zip(*(tree_flatten(item) for item in data), strict=True)
        if any(one != shape[0] for one in shape):
            raise TypeError("the items have different structures")
        return tree_unflatten([torch.stack(list(column)) for column in zip(*leaves, strict=True)], shape[0])
    except (RuntimeError, TypeError, ValueError) as error:
        raise RuntimeError(
            f"{kind.__name__}: the items of the list could not be stacked ({error}). They must have the same structure "
            "and shapes; a list is taken as one of items, so give tensors that hold all items in a tuple instead, or "
            "take a ListStorage for items that differ."
        ) from error


def _put(storage: Any, index: Any, data: Any) -> None:
    if isinstance(storage, Tensor):
        storage[index] = data if isinstance(data, Tensor) else torch.as_tensor(data)
    elif is_tensor_collection(storage):
        storage[index] = data
    else:
        stored, shape = tree_flatten(storage)
        given, other = tree_flatten(data)
        if shape != other:
            raise RuntimeError(f"The data has the structure {other}, but what is stored has {shape}.")
        for each, it in zip(stored, given, strict=True):
            each[index] = it


def _get(storage: Any, index: Any) -> Any:
    if isinstance(storage, Tensor) or is_tensor_collection(storage):
        return storage[index]
    return tree_map(lambda leaf: leaf[index], storage)


def _plain_index(index: Any) -> Any:
    if isinstance(index, np.integer):
        return int(index)
    if isinstance(index, (np.ndarray, list, range)):
        return torch.as_tensor(np.asarray(index))
    if isinstance(index, Tensor) and index.ndim == 0 and index.dtype != torch.bool:
        return int(index)
    return index


def _bounded(index: slice, taken: int) -> slice:
    start, stop, step = index.indices(taken)
    return slice(start, stop, step) if step > 0 else index


def _is_shared(storage: Any) -> bool:
    if isinstance(storage, Tensor):
        return bool(storage.is_shared())
    if is_tensor_collection(storage):
        return bool(storage.is_memmap() or storage.is_shared())
    return all(bool(leaf.is_shared()) for leaf in tree_flatten(storage)[0])
