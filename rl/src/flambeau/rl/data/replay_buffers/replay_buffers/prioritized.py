"""The buffer of any items, drawn by priorities."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.data.replay_buffers.replay_buffers.base import ReplayBuffer
from flambeau.rl.data.replay_buffers.samplers.prioritized import PrioritizedSampler
from flambeau.rl.data.replay_buffers.storages.list import ListStorage

__all__ = ["PrioritizedReplayBuffer"]


class PrioritizedReplayBuffer(ReplayBuffer):
    """A buffer whose sampler is a `PrioritizedSampler`; see there.

    Args:
        alpha: how much priorities count.
        beta: how much of the draws' unevenness the weights make up for.
        eps: added to priorities.
        dtype: of the trees.
        storage: by default a `ListStorage` of 1000.
        kwargs: see `ReplayBuffer`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        storage: Any = None,
        **kwargs: Any,
    ) -> None:
        storage = ListStorage(1000) if storage is None else storage
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, dtype)
        super().__init__(storage=storage, sampler=sampler, **kwargs)
