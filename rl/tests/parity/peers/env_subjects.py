"""Small environments, made of either library."""

from __future__ import annotations

import importlib
import types
from typing import Any

import torch


def counting(library: Any, batch_size: tuple[int, ...] = (), **options: Any) -> Any:
    """Counts its steps, and is done at the fourth."""

    class Counting(library.EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=batch_size, **options)
            size = tuple(batch_size)
            self.observation_spec = library.Composite(count=library.Unbounded((*size, 3)), shape=size)
            self.action_spec = library.Categorical(4, shape=size)
            self.reward_spec = library.Unbounded((*size, 1))
            self.count = torch.zeros(*size, 1)

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            if mask is None:
                self.count = torch.zeros(*self.batch_size, 1)
            else:
                self.count = torch.where(mask.reshape(self.count.shape), 0.0, self.count)
            return library.TensorDict({"count": self.count.expand(*self.batch_size, 3)}, self.batch_size)

        def _step(self, tensordict: Any) -> Any:
            # Entries of a batch count at their own pace.
            pace = torch.arange(1.0, 1 + self.count.numel()).reshape(self.count.shape)
            self.count = self.count + pace
            values = {"count": self.count.expand(*self.batch_size, 3), "reward": self.count * 2, "done": self.count > 3}
            return library.TensorDict(values, self.batch_size)

        def _set_seed(self, seed: Any) -> None:
            self.seed_given = seed

    return Counting()


def counting_of(root: str, tensordict: str) -> Any:
    """`counting` of a library that is known by name, for other processes."""
    names = types.SimpleNamespace()
    for module in (f"{root}.envs", f"{root}.data", tensordict):
        names.__dict__.update(vars(importlib.import_module(module)))
        for name in importlib.import_module(module).__all__:
            setattr(names, name, getattr(importlib.import_module(module), name))
    return counting(names)


def agents(library: Any) -> Any:
    """Two agents below "agents", with rewards and ends of their own besides a common end."""

    class Agents(library.EnvBase):
        def __init__(self) -> None:
            super().__init__()
            composite, unbounded = library.Composite, library.Unbounded
            end = library.Categorical(2, (2, 1), dtype=torch.bool)
            self.observation_spec = composite(
                state=unbounded((1,)), agents=composite(seen=unbounded((2, 3)), shape=(2,))
            )
            self.action_spec = composite(agents=composite(action=library.Bounded(-1, 1, (2, 2)), shape=(2,)))
            self.reward_spec = composite(agents=composite(reward=unbounded((2, 1)), shape=(2,)))
            self.done_spec = composite(
                done=library.Categorical(2, (1,), dtype=torch.bool), agents=composite(done=end, shape=(2,))
            )
            self.count = 0

        def _observed(self) -> Any:
            seen = library.TensorDict({"seen": torch.full((2, 3), float(self.count))}, [2])
            return library.TensorDict({"state": torch.full((1,), float(self.count)), "agents": seen}, [])

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            self.count = 0
            return self._observed()

        def _step(self, tensordict: Any) -> Any:
            self.count += 1
            out = self._observed()
            out["agents", "reward"] = tensordict["agents", "action"].sum(-1, keepdim=True)
            out["agents", "done"] = torch.tensor([[self.count > 1], [self.count > 2]])
            out["done"] = torch.tensor([self.count > 2])
            return out

        def _set_seed(self, seed: Any) -> None:
            self.seed_given = seed

    return Agents()
