"""An environment whose observations tell the step, for transforms of observations."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Bounded, Composite, Unbounded
from flambeau.rl.envs import EnvBase


class Observing(EnvBase):
    """Images full of the step's number, and vectors of it; entries of a batch count at their own pace, to 3."""

    def __init__(self, batch_size: tuple[int, ...] = ()) -> None:
        super().__init__(batch_size=batch_size)
        self.observation_spec = Composite(
            pixels=Bounded(0, 255, (*batch_size, 6, 8, 3), dtype=torch.uint8),
            observation=Unbounded((*batch_size, 2)),
            shape=batch_size,
        )
        self.action_spec = Bounded(-1, 1, (*batch_size, 1))
        self.reward_spec = Unbounded((*batch_size, 1))
        self.count = torch.zeros(*batch_size, 1)

    def _seen(self) -> TensorDict:
        pixels = self.count[..., None, None].expand(*self.batch_size, 6, 8, 3).to(torch.uint8)
        return TensorDict({"pixels": pixels, "observation": torch.cat([self.count, -self.count], -1)}, self.batch_size)

    def _reset(self, tensordict: Any, **_: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        zeros = torch.zeros_like(self.count)
        self.count = zeros if mask is None else torch.where(mask, zeros, self.count)
        return self._seen()

    def _step(self, tensordict: Any) -> TensorDict:
        self.count = self.count + torch.arange(1.0, 1 + self.count.numel()).reshape(self.count.shape)
        return self._seen().update({"reward": self.count.clone(), "done": self.count >= 3})

    def _set_seed(self, seed: Any) -> None:
        pass
