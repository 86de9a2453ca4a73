"""Tables of OpenML as contextual bandits: one step an episode, and a reward where the class is guessed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.datasets.openml import OpenMLExperienceReplay
from flambeau.rl.data.tensor_specs import Categorical, Composite, Unbounded
from flambeau.rl.envs.common import EnvBase

__all__ = ["OpenMLEnv"]


class _Available:
    def __get__(self, instance: Any, owner: Any) -> Any:
        return OpenMLExperienceReplay.available_datasets


class OpenMLEnv(EnvBase):
    """A table as a contextual bandit: "observation" is a row, the right action its class "y".

    An episode has one step, with reward 1 for the right action and 0 for others.

    Args:
        dataset_name: one of `available_envs`; see `OpenMLExperienceReplay`, which fetches and reads it.
        device: of what it gives.
        batch_size: of the rows that are drawn at once, with replacement.
        kwargs: `root` and `download`, as for `OpenMLExperienceReplay`.

    References:
        Riquelme et al. 2018, Deep Bayesian Bandits Showdown, arXiv:1802.09127.
    """

    available_envs = _Available()

    def __init__(self, dataset_name: str, device: Any = "cpu", batch_size: Any = None, **kwargs: Any) -> None:
        size = Size([]) if batch_size is None else Size([batch_size] if isinstance(batch_size, int) else batch_size)
        super().__init__(device=device, batch_size=size)
        self.dataset_name = dataset_name
        rows = OpenMLExperienceReplay(dataset_name, 1, **kwargs)[:]
        self._features, self._classes = rows["X"].float(), rows["y"].long()
        count = int(self._classes.max()) + 1
        width = self._features.shape[-1]
        label = Categorical(count, size)
        self.full_observation_spec = Composite(
            observation=Unbounded((*size, width)), y=label, shape=size, device=self.device
        )
        self.full_action_spec = Composite(action=label.clone(), shape=size, device=self.device)
        self.full_reward_spec = Composite(reward=Unbounded((*size, 1)), shape=size, device=self.device)
        end = Categorical(2, (*size, 1), dtype=torch.bool)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), truncated=end.clone(), shape=size).to(
            self.device
        )
        self._generator: torch.Generator | None = None

    def _set_seed(self, seed: int | None) -> None:
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        drawn = torch.randint(len(self._classes), self.batch_size, generator=self._generator)
        entries = {"observation": self._features[drawn], "y": self._classes[drawn]}
        return TensorDict(entries, self.batch_size).to(self.device)

    def _step(self, tensordict: Any) -> Any:
        right = (tensordict["action"] == tensordict["y"]).unsqueeze(-1)
        entries = {
            "observation": tensordict["observation"].clone(), "y": tensordict["y"].clone(), "reward": right.float(),
            "done": torch.ones_like(right), "terminated": torch.ones_like(right), "truncated": torch.zeros_like(right),
        }  # fmt: skip
        return TensorDict(entries, self.batch_size, device=self.device)
