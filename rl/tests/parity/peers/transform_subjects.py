"""Environments and data for transforms, made of either library."""

from __future__ import annotations

from typing import Any

import torch


def masking(library: Any, batch_size: tuple[int, ...] = (), one_hot: bool = True) -> Any:
    """Says which of four actions may be taken; the one taken last may not be taken again."""

    class Masking(library.EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=batch_size)
            size = tuple(batch_size)
            self.observation_spec = library.Composite(
                action_mask=library.Binary(4, (*size, 4), dtype=torch.bool),
                seen=library.Unbounded((*size, 1)),
                shape=size,
            )
            kind = library.OneHot if one_hot else library.Categorical
            self.action_spec = kind(4, (*size, 4)) if one_hot else kind(4, size)
            self.reward_spec = library.Unbounded((*size, 1))

        def _observed(self, mask: Any) -> Any:
            return library.TensorDict({"action_mask": mask, "seen": torch.zeros(*batch_size, 1)}, self.batch_size)

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            mask = torch.ones(*batch_size, 4, dtype=torch.bool)
            mask[..., 0] = False
            return self._observed(mask)

        def _step(self, tensordict: Any) -> Any:
            taken = tensordict["action"]
            if not one_hot:
                taken = torch.nn.functional.one_hot(taken, 4)
            out = self._observed(~taken.bool())
            out["reward"] = torch.ones(*batch_size, 1)
            out["done"] = torch.zeros(*batch_size, 1, dtype=torch.bool)
            return out

        def _set_seed(self, seed: Any) -> None:
            self.seed_given = seed

    return Masking()


def acting(library: Any, batch_size: tuple[int, ...] = (), *, state: bool = True, dtype: Any = torch.float64) -> Any:
    """A point moved by two bounded numbers, all of it in double precision; reads a state besides, if asked to."""

    class Acting(library.EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=batch_size)
            size = tuple(batch_size)
            self.observation_spec = library.Composite(
                place=library.Unbounded((*size, 2), dtype=dtype), name=library.Unbounded((*size, 1), dtype=torch.int64),
                shape=size,
            )  # fmt: skip
            if state:
                self.state_spec = library.Composite(wind=library.Unbounded((*size, 2), dtype=dtype), shape=size)
            self.action_spec = library.Bounded(-1.0, 1.0, (*size, 2), dtype=dtype)
            self.reward_spec = library.Unbounded((*size, 1), dtype=dtype)
            self.place = torch.zeros(*size, 2, dtype=dtype)

        def _observed(self) -> Any:
            name = torch.full((*batch_size, 1), 7)
            return library.TensorDict({"place": self.place.clone(), "name": name}, self.batch_size)

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            self.place = torch.zeros(*batch_size, 2, dtype=dtype)
            out = self._observed()
            if state:
                out["wind"] = torch.ones(*batch_size, 2, dtype=dtype)
            return out

        def _step(self, tensordict: Any) -> Any:
            assert tensordict["action"].dtype is dtype
            self.place = self.place + tensordict["action"]
            if state:
                assert tensordict["wind"].dtype is dtype
                self.place = self.place + 0.1 * tensordict["wind"]
            out = self._observed()
            out["reward"] = self.place.sum(-1, keepdim=True)
            out["done"] = out["reward"].abs() > 2
            return out

        def _set_seed(self, seed: Any) -> None:
            self.seed_given = seed

    return Acting()


def steps(library: Any, batch_size: tuple[int, ...] = (2, 5), *, named: bool = True, dtype: Any = torch.float32) -> Any:
    """Steps of trajectories, of which the first has an end in its middle, and each at its end."""
    size = tuple(batch_size)
    count = torch.arange(torch.Size(size).numel(), dtype=dtype).reshape(*size, 1)
    done = torch.zeros(*size, 1, dtype=torch.bool)
    done.reshape(-1)[1] = True
    done[..., -1, :] = True
    following = {
        "count": count + 1, "reward": (count - 3) * 0.5, "done": done, "terminated": done.clone(),
        "truncated": torch.zeros_like(done), "agents": library.TensorDict({"reward": count + torch.zeros(3)}, size),
    }  # fmt: skip
    root = {
        "count": count, "action": torch.nn.functional.one_hot(count.squeeze(-1).long() % 4, 4), "reward": count * 2,
        "done": torch.zeros_like(done), "terminated": torch.zeros_like(done), "flag": count.squeeze(-1) > 2,
        "next": library.TensorDict(following, size),
    }  # fmt: skip
    names = [None] * (len(size) - 1) + ["time"] if named else None
    return library.TensorDict(root, size, names=names)
