"""Items that are changed where they are stored."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorClass, TensorDict, TensorDictBase, is_tensor_collection
from flambeau.rl.data.replay_buffers.replay_buffers._service import DirectService

__all__ = ["ConditionalUpdateResult", "InPlaceUpdates"]


class ConditionalUpdateResult(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What `ReplayBuffer.update_if_present` did with each item.

    Args:
        updated: bool (N,): the item was there still, and is changed.
        version_rejected: bool (N,): it was there, and had a version that counts for more; None where none are compared.
    """

    updated: Any
    version_rejected: Any = None

    @property
    def updated_count(self) -> int:
        """How many are changed."""
        return int(self.updated.sum())

    @property
    def version_rejected_count(self) -> int:
        """How many had a version that counts for more."""
        return 0 if self.version_rejected is None else int(self.version_rejected.sum())

    @property
    def stale_count(self) -> int:
        """How many were not there any more."""
        return int(self.updated.numel()) - self.updated_count - self.version_rejected_count


class InPlaceUpdates(DirectService):
    """The part of a replay buffer that changes items where they are."""

    _writer: Any
    _sampler: Any
    _lock: Any

    # Items that may be gone

    def update_if_present(
        self,
        *,
        index: Tensor,
        generation: Tensor,
        patch: Mapping[Any, Tensor] | TensorDictBase,
        version_key: Any = None,
        version: int | Tensor | None = None,
        require_newer: bool = False,
    ) -> ConditionalUpdateResult:
        """Change items, unless others were written in their places meanwhile.

        All is looked at before anything is written.

        Args:
            index: places (N,), as `extend` or a batch tells them.
            generation: (N,), as `writer.generations_of(index)` or a batch at "index_generation" told them then.
            patch: entries that are written, each (N, ...).
            version_key: an entry of one integer for each item: an item is changed where the version that comes is at
                least the one it has, which becomes the new one. Of several for one place the highest counts.
            version: the version that comes: a number, or (N,).
            require_newer: it has to be higher than the one that the item has.

        Raises:
            RuntimeError: the writer does not count generations, or the storage cannot be changed by entries.
            KeyError: an entry does not exist.
            ValueError: a tensor has another shape or dtype, or one of `version_key` and `version` alone is given.
        """
        if not self._writer.tracks_generations:
            raise RuntimeError(
                "the writer does not count generations, which tell whether an item is still there; make it with "
                "track_generations=True."
            )
        if not getattr(self._storage, "supports_conditional_update", False):
            raise RuntimeError(
                f"a {type(self._storage).__name__} cannot be changed by entries; use a LazyTensorStorage or a "
                "LazyMemmapStorage of tensordicts."
            )
        index = torch.as_tensor(index).reshape(-1)
        generation = torch.as_tensor(generation).reshape(-1)
        values = _entries(patch)
        with self._lock:
            content = self._content()
            _check(content, values, index, generation)
            incoming = _versions(content, values, version_key, version, index)
            live = self._writer.generations_of(index) == generation
            taken, rejected = live, None
            if incoming is not None:
                taken = live & _counts(content.get(version_key), index, incoming, live, require_newer)
                rejected = live & ~taken
                values[version_key] = incoming.reshape(-1, *content.get(version_key).shape[1:])
            self._write(content, index, taken, values)
        return ConditionalUpdateResult(updated=taken, version_rejected=rejected, batch_size=taken.shape)

    def submit_update_if_present(
        self,
        *,
        index: Tensor,
        generation: Tensor,
        patch: Mapping[Any, Tensor] | TensorDictBase,
        version_key: Any = None,
        version: int | Tensor | None = None,
        require_newer: bool = False,
    ) -> Future[ConditionalUpdateResult]:
        """As `update_if_present`, in a thread: after the batches that are being prefetched, one update after another.

        The tensors are not copied: they may not be changed before the future is done.
        """
        waiting = [*self._waiting]

        def update() -> ConditionalUpdateResult:
            for each in waiting:
                each.exception()  # whoever samples gets it
            return self.update_if_present(
                index=index,
                generation=generation,
                patch=patch,
                version_key=version_key,
                version=version,
                require_newer=require_newer,
            )

        with self._lock:
            if self._updates is None:
                self._updates = ThreadPoolExecutor(1, thread_name_prefix="replay-updates")
            self._last_update = self._updates.submit(update)
            return self._last_update

    def _content(self) -> Any:
        content = getattr(self._storage, "_storage", None)
        if content is None or isinstance(content, Tensor) or not is_tensor_collection(content):
            raise RuntimeError("the buffer has no tensordicts in it that could be changed by entries.")
        return content

    def _write(self, content: Any, index: Tensor, taken: Tensor, values: dict[Any, Tensor]) -> None:
        if not bool(taken.any()):
            return
        places = index[taken]
        # Of several for one place the last counts, as in `extend`.
        _, inverse = places.unique(return_inverse=True)
        last = torch.zeros(int(inverse.max()) + 1, dtype=torch.int64).scatter_reduce_(
            0, inverse, torch.arange(len(places)), "amax", include_self=False
        )
        rows = content[places[last]]
        for key, value in values.items():
            rows.set(key, value[taken][last].to(rows.get(key).device))
        self._storage.set(places[last], rows, set_cursor=False)

    # All items

    def read_all_in_order(self, end: int | None = None) -> Any:
        """Items by their places, the first `end` of them; default: all."""
        return self[:] if end is None else self[:end]  # type: ignore[index]

    def write_all(self, data: Any, end: int | None = None) -> None:
        """Write items to the first places, as many as there are or the first `end`."""
        count = (data.shape[0] if hasattr(data, "shape") else len(data)) if end is None else end
        self[:count] = data[:count] if end is not None else data  # type: ignore[index]

    def set_at_(self, key: Any, value: Any, index: Any) -> Any:
        """Write one entry of items.

        Args:
            key: the entry.
            value: (N, ...).
            index: places.

        Raises:
            KeyError: there is no such entry.
        """
        with self._lock:
            content = self._content()
            _known(content, key)
            rows = content[index].clone()
            rows.set_(key, value)
            self._storage[index] = rows
            self._sampler.mark_update(index, storage=self._storage)
        return self

    def set_(self, key: Any, value: Any) -> Any:
        """Write one entry of all items.

        Args:
            key: the entry.
            value: (items, ...).

        Raises:
            KeyError: there is no such entry.
        """
        return self.set_at_(key, value, slice(None, len(self._storage)))

    def update_(
        self, input_dict_or_td: Any, clone: bool = False, *, keys_to_update: Sequence[Any] | None = None
    ) -> Any:
        """Write several entries of all items.

        Args:
            input_dict_or_td: entries, each (items, ...).
            clone: kept for upstream's signature: values are copied in any case.
            keys_to_update: those of them that are written; default: all.

        Raises:
            KeyError: there is no such entry.
        """
        values = _entries(input_dict_or_td)
        for key, value in values.items():
            if keys_to_update is None or key in keys_to_update:
                self.set_(key, value)
        return self


def _entries(patch: Any) -> dict[Any, Any]:
    if isinstance(patch, TensorDictBase):
        return dict(patch.items(True, True))
    return dict(TensorDict(dict(patch)).items(True, True))


def _known(content: Any, key: Any) -> Tensor:
    found = content.get(key, None)
    if found is None:
        raise KeyError(f"the buffer has no entry {key!r}; there are {list(content.keys(True, True))}.")
    value: Tensor = found
    return value


def _check(content: Any, values: dict[Any, Any], index: Tensor, generation: Tensor) -> None:
    if index.shape != generation.shape:
        raise ValueError(f"there are {len(index)} places and {len(generation)} generations.")
    for key, value in values.items():
        stored = _known(content, key)
        expected = (len(index), *stored.shape[1:])
        if tuple(value.shape) != expected:
            raise ValueError(f"patch is {tuple(value.shape)} at {key!r}, expected {expected}.")
        if value.dtype != stored.dtype:
            raise ValueError(f"patch is {value.dtype} at {key!r}, expected {stored.dtype}.")


def _versions(content: Any, values: dict[Any, Any], key: Any, version: Any, index: Tensor) -> Tensor | None:
    """The version that comes for each item; None where none are compared."""
    if (key is None) != (version is None):
        raise ValueError("version_key and version belong together; give both.")
    if key is None:
        return None
    if key in values:
        raise ValueError(f"version_key {key!r} is in patch as well; leave it out there.")
    stored = _known(content, key)
    if stored[:1].numel() > 1:
        raise ValueError(f"{key!r} has {stored[:1].numel()} numbers for each item, expected one.")
    incoming = torch.as_tensor(version, dtype=stored.dtype)
    return incoming.reshape(-1).expand(len(index)) if incoming.numel() == 1 else incoming.reshape(len(index))


def _counts(stored: Tensor, index: Tensor, incoming: Tensor, live: Tensor, newer: bool) -> Tensor:
    """Whether versions count for more than those that items have, and than others for the same item."""
    known = stored[index].reshape(-1).cpu()
    wins = incoming > known if newer else incoming >= known
    places, inverse = index.unique(return_inverse=True)
    candidates = torch.where(live & wins, incoming, known.new_full((), _LEAST))
    best = known.new_full((len(places),), _LEAST).scatter_reduce_(0, inverse, candidates, "amax")
    wins = wins & live & (incoming == best[inverse])
    # Of several with the highest version the last one counts.
    order = torch.arange(len(index))
    last = torch.full((len(places),), -1).scatter_reduce_(0, inverse, torch.where(wins, order, -1), "amax")
    return wins & (order == last[inverse])


_LEAST = -(2**31)


class InPlaceSampler:
    """Stacks lists of tensordicts into the same memory again and again.

    Args:
        device: where that memory is; default: that of the first ones.
    """

    def __init__(self, device: torch.device | str | None = None) -> None:
        self.device = None if device is None else torch.device(device)
        self._out: Any = None
        self._guard = threading.Lock()

    def __call__(self, list_of_tds: Sequence[TensorDictBase]) -> TensorDictBase:
        """The stack, (N, ...), whose memory the next call writes to."""
        with self._guard:
            if self._out is None:
                made = torch.stack(list(list_of_tds))
                self._out = made.contiguous() if self.device is None else made.to(self.device)
            else:
                torch.stack(list(list_of_tds), out=self._out)
            found: TensorDictBase = self._out
            return found


def stack_tensors(list_of_tensor_iterators: Sequence[Any]) -> tuple[Tensor, ...]:
    """Stack tuples of tensors place by place: the n-th of the result is the stack of all n-th ones."""
    return tuple(torch.stack(list(each)) for each in zip(*list_of_tensor_iterators, strict=True))
