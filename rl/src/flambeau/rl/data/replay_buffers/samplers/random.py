"""Uniform draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.rl.data.replay_buffers.samplers.base import Sampler, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["RandomSampler"]


class RandomSampler(Sampler):
    """Draws uniformly, with replacement."""

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places.

        Raises:
            RuntimeError: the storage is empty.
        """
        if not len(storage):
            raise no_items()
        storage._rng = self._rng
        return storage._random_places(batch_size), {}
