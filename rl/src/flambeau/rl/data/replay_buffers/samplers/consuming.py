"""Draws that use items up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.samplers.base import Sampler, dump_json, load_json

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["ConsumingSampler"]


class ConsumingSampler(Sampler):
    """Draws each item at most so many times; then its place is free, and new items go there first.

    A batch has no item twice, and is smaller than asked when fewer are left. The length of a buffer with this sampler
    is the number of items that can still be drawn.

    Args:
        max_sample_count: how many times an item is drawn, > 0.

    Raises:
        ValueError: max_sample_count < 1.
    """

    def __init__(self, max_sample_count: int = 1) -> None:
        if max_sample_count < 1:
            raise ValueError(f"ConsumingSampler: max_sample_count is {max_sample_count}, expected at least 1.")
        self.max_sample_count = max_sample_count
        self._empty()

    def _empty(self) -> None:
        self._sample_count = torch.zeros(0, dtype=torch.int64)
        self._live = torch.zeros(0, dtype=torch.bool)
        self._free: list[int] = []
        self._ran_out = False

    @property
    def ran_out(self) -> bool:
        """Whether the last batch used up what was left."""
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    @property
    def sampleable(self) -> int:
        """How many items can still be drawn."""
        return int(self._live.sum())

    def can_sample(self, storage: Storage, batch_size: int | None) -> bool:
        """Whether there is something left."""
        self._know(len(storage))
        return bool(self._live.any())

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places.

        Raises:
            RuntimeError: nothing is left.
            ValueError: a storage with several dimensions of places.
        """
        if storage.ndim > 1:
            raise ValueError(
                f"A ConsumingSampler counts single items; the storage has ndim={storage.ndim}, expected 1."
            )
        self._know(len(storage))
        left = self._live.nonzero().squeeze(-1)
        if not len(left):
            raise RuntimeError("Cannot sample from an empty storage: all its items were used up. Extend the buffer.")
        places = left[torch.randperm(len(left), generator=self._rng)[:batch_size]]
        self._sample_count[places] += 1
        used = places[self._sample_count[places] >= self.max_sample_count]
        self._live[used] = False
        self._free += used.tolist()
        self._ran_out = not bool(self._live.any())
        return places, {}

    def _know(self, taken: int) -> None:
        """Items that were there before the sampler was are fresh."""
        known = len(self._live)
        if taken > known:
            self._live = torch.cat((self._live, torch.ones(taken - known, dtype=torch.bool)))
            self._sample_count = torch.cat((self._sample_count, torch.zeros(taken - known, dtype=torch.int64)))

    def _freed(self, count: int) -> list[int]:
        """Up to `count` places of used items, in the order they were used up; they are taken from now on."""
        given, self._free = self._free[:count], self._free[count:]
        return given

    def _left(self, taken: int) -> int:
        self._know(taken)
        return self.sampleable

    def add(self, index: Any) -> None:
        """An item was written at a place: it is fresh."""
        self.extend(torch.as_tensor([int(index)]))

    def extend(self, index: Any) -> None:
        """Items were written at places: they are fresh."""
        places = torch.as_tensor(index).reshape(-1)
        if not len(places):
            return
        self._know(int(places.max()) + 1)
        self._sample_count[places] = 0
        self._live[places] = True
        if self._free:
            written = set(places.tolist())
            self._free = [place for place in self._free if place not in written]

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Items at places were changed: they are fresh."""
        if isinstance(index, slice):
            index = torch.arange(len(self._live))[index]
        index = torch.as_tensor(index)
        self.extend(index.nonzero() if index.dtype == torch.bool else index)

    def share_(self) -> None:
        """Refuse: each process would use up the items on its own.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "A ConsumingSampler cannot be shared by processes, which would use up items each on its own; sample in one."
        )

    def state_dict(self) -> dict[str, Any]:
        """How often each item was drawn, and which places are free."""
        return {
            "max_sample_count": self.max_sample_count,
            "_sample_count": self._sample_count.clone(),
            "_live_mask": self._live.clone(),
            "_known_storage_len": len(self._live),
            "_free_indices": torch.tensor(self._free, dtype=torch.int64),
            "_free_head": 0,
            "_ran_out": self._ran_out,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        self.max_sample_count = state_dict["max_sample_count"]
        self._sample_count = torch.as_tensor(state_dict["_sample_count"], dtype=torch.int64).clone()
        self._live = torch.as_tensor(state_dict["_live_mask"], dtype=torch.bool).clone()
        free: Tensor = torch.as_tensor(state_dict["_free_indices"], dtype=torch.int64)
        self._free = free[int(state_dict.get("_free_head", 0)) :].tolist()
        self._ran_out = state_dict["_ran_out"]

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as JSON."""
        dump_json(path, self.state_dict())

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        self.load_state_dict(load_json(path))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_sample_count={self.max_sample_count}, sampleable={self.sampleable})"
