"""An environment that counts, and a policy for it."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Composite, Unbounded
from flambeau.rl.envs import EnvBase


class Counting(EnvBase):
    """Counts its steps, and ends after `length` of them; a batch of two begins anew by mask."""

    def __init__(self, length: int = 3, batch_size: tuple[int, ...] = ()) -> None:
        super().__init__(batch_size=batch_size)
        self.length = length
        self.observation_spec = Composite(count=Unbounded((*batch_size, 1)), shape=batch_size)
        self.action_spec = Unbounded((*batch_size, 1))
        self.reward_spec = Unbounded((*batch_size, 1))
        self.count = torch.zeros(*batch_size, 1)
        self.seen: list[Any] = []

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.count = torch.zeros_like(self.count) if mask is None else torch.where(mask, 0.0, self.count)
        return TensorDict({"count": self.count.clone()}, self.batch_size)

    def _step(self, tensordict: Any) -> Any:
        self.seen.append(tensordict["action"].clone())
        self.count = self.count + tensordict["action"]
        done = self.count >= self.length
        return TensorDict({"count": self.count.clone(), "reward": self.count.clone(), "done": done}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        self.seed = seed


def ones(tensordict: Any) -> Any:
    return tensordict.set("action", torch.ones(*tensordict.batch_size, 1))
