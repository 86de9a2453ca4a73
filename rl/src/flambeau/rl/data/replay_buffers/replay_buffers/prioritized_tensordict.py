"""The buffer of tensordicts, drawn by priorities."""

from __future__ import annotations

from typing import Any

from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer
from flambeau.rl.data.replay_buffers.samplers.prioritized import PrioritizedSampler
from flambeau.rl.data.replay_buffers.storages.list import ListStorage

__all__ = ["TensorDictPrioritizedReplayBuffer"]


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """A buffer of tensordicts whose sampler is a `PrioritizedSampler`; see there.

    Args:
        alpha: how much priorities count.
        beta: how much of the draws' unevenness the weights make up for.
        priority_key: the entry of priorities.
        eps: added to priorities.
        storage: by default a `ListStorage` of 1000.
        reduction: how priorities of several numbers become one.
        kwargs: see `TensorDictReplayBuffer`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        priority_key: Any = "td_error",
        eps: float = 1e-8,
        storage: Any = None,
        reduction: str = "max",
        **kwargs: Any,
    ) -> None:
        storage = ListStorage(1000) if storage is None else storage
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, reduction=reduction)
        super().__init__(priority_key=priority_key, storage=storage, sampler=sampler, **kwargs)
