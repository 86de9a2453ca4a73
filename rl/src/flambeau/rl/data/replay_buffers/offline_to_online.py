"""From recorded data to what an agent collects itself: batches of both, in a fixed share.

References:
    Ball, Smith, Kostrikov and Levine 2023, Efficient Online Reinforcement Learning with Offline Data. arXiv:2302.02948.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer
from flambeau.rl.data.replay_buffers.replay_buffers.ensemble import ReplayBufferEnsemble
from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer
from flambeau.rl.data.replay_buffers.storages.base import Storage
from flambeau.rl.data.replay_buffers.storages.tensor import LazyTensorStorage

__all__ = ["OfflineToOnlineReplayBuffer", "prefill_replay_buffer"]


class OfflineToOnlineReplayBuffer(ReplayBufferEnsemble):
    """A recorded data set, which stays as it is, and a buffer that grows. Batches (items,) have a fixed share of each.

    While one of the two has nothing, or no share, a batch is drawn from the other alone.

    Args:
        offline_dataset: a buffer, or the name of a data set for `load_dataset`.
        online_storage: of the buffer that grows.
        online_capacity: instead, how many items a `LazyTensorStorage` for it has; exactly one of the two.
        offline_fraction: the recorded share of a batch, between 0 and 1; rounded to whole items.
        batch_size: how many items a batch has; else `sample` must be told.
        transform: changes batches.
        dataset_kwargs: for the data set's class.

    Raises:
        ValueError: a share that is not between 0 and 1, or not exactly one of storage and capacity.
        TypeError: something that is no buffer.
    """

    def __init__(
        self,
        offline_dataset: str | ReplayBuffer,
        *,
        online_storage: Storage | None = None,
        online_capacity: int | None = None,
        offline_fraction: float = 0.5,
        batch_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        **dataset_kwargs: Any,
    ) -> None:
        if (online_storage is None) == (online_capacity is None):
            raise ValueError("Give exactly one of online_storage and online_capacity.")
        if not 0 < offline_fraction < 1:
            raise ValueError(f"offline_fraction is {offline_fraction}, expected a share between 0 and 1.")
        if isinstance(offline_dataset, str):
            if batch_size is None:
                raise ValueError("A data set by its name needs batch_size.")
            offline_dataset = _loaded(offline_dataset, batch_size=batch_size, **dataset_kwargs)
        elif dataset_kwargs:
            raise TypeError(f"{sorted(dataset_kwargs)} are for data sets by name; this one is there already.")
        if not isinstance(offline_dataset, ReplayBuffer):
            raise TypeError(f"offline_dataset is a {type(offline_dataset).__name__}, expected a buffer or a name.")
        storage = LazyTensorStorage(online_capacity) if online_capacity is not None else online_storage
        online = TensorDictReplayBuffer(storage=storage, batch_size=batch_size)
        super().__init__(offline_dataset, online, batch_size=batch_size, transform=transform, p=[0.5, 0.5])
        self._offline_fraction = float(offline_fraction)

    @property
    def offline_fraction(self) -> float:
        """The recorded share of a batch."""
        return self._offline_fraction

    @property
    def offline_buffer(self) -> ReplayBuffer:
        """The recorded data set."""
        return self._rbs[0]

    @property
    def online_buffer(self) -> ReplayBuffer:
        """The buffer that grows."""
        return self._rbs[1]

    def anneal(self, target_fraction: float, step_count: int, total_steps: int) -> None:
        """Move the recorded share to where it is on the straight way to another.

        Args:
            target_fraction: in [0, 1], where it arrives.
            step_count: how far it is, in steps.
            total_steps: how many steps there are.

        Raises:
            ValueError: a share that is not between 0 and 1, or steps beyond the last.
        """
        if not 0 <= target_fraction <= 1 or total_steps < 1 or not 0 <= step_count <= total_steps:
            raise ValueError(
                f"anneal({target_fraction}, {step_count}, {total_steps}): expected a share in [0, 1], and a "
                "step from 0 to the last."
            )
        if not hasattr(self, "_first_fraction"):
            self._first_fraction = self._offline_fraction
        way = step_count / total_steps
        self._offline_fraction = self._first_fraction + way * (target_fraction - self._first_fraction)

    def extend(self, data: Any, *, update_priority: bool | None = None) -> Tensor:
        """Add rows to the buffer that grows; their places."""
        return self.online_buffer.extend(data, update_priority=update_priority)

    def add(self, data: Any) -> Any:
        """Add one item to the buffer that grows; its place."""
        return self.online_buffer.add(data)

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """A batch, the recorded items first.

        Args:
            batch_size: how many items; by default as the buffer was told.
            return_info: whether what the samplers know comes with it: a dictionary, "offline" and "online".

        Raises:
            RuntimeError: no batch size, or nothing to draw from.
        """
        size = self._batch_size if batch_size is None else batch_size
        if size is None:
            raise RuntimeError("batch_size not specified. Give it to the buffer, or to sample.")
        recorded = round(self._offline_fraction * size) if self._has_items(self.online_buffer) else size
        parts, known = [], {}
        for name, buffer, count in (
            ("offline", self.offline_buffer, recorded),
            ("online", self.online_buffer, size - recorded),
        ):
            if count:
                part, info = buffer.sample(count, return_info=True)
                parts.append(part)
                known[name] = info
        batch = parts[0] if len(parts) == 1 else torch.cat([_alike(part, parts) for part in parts])
        batch = self._transformed(batch) if len(self._transform) else batch
        return (batch, known) if return_info else batch

    @staticmethod
    def _has_items(buffer: ReplayBuffer) -> bool:
        return len(buffer) > 0


def _alike(part: Any, parts: list[Any]) -> Any:
    """The entries that all parts have."""
    keys = set.intersection(*(set(each.keys(True, True)) for each in parts))
    return part.select(*keys)


def _loaded(name: str, **arguments: Any) -> Any:
    from flambeau.rl.data.datasets.utils import load_dataset

    return load_dataset(name, **arguments)


def prefill_replay_buffer(
    rb: ReplayBuffer, dataset: str | ReplayBuffer, n_samples: int | None = None, chunk_size: int = 1000
) -> ReplayBuffer:
    """Copy recorded items into a buffer, from the first on.

    Args:
        rb: the buffer to write to.
        dataset: a buffer, or the name of a data set for `load_dataset`.
        n_samples: how many items; all by default.
        chunk_size: how many are copied at once.

    Returns:
        `rb`.

    Raises:
        ValueError: chunk_size < 1 or n_samples < 0.
    """
    if chunk_size < 1 or (n_samples is not None and n_samples < 0):
        raise ValueError(f"chunk_size is {chunk_size} and n_samples {n_samples}, expected 1 or more, and 0 or more.")
    found = _loaded(dataset, batch_size=chunk_size) if isinstance(dataset, str) else dataset
    count = len(found) if n_samples is None else min(n_samples, len(found))
    for first in range(0, count, chunk_size):
        rb.extend(found[first : min(first + chunk_size, count)])
    return rb
