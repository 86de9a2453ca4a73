"""Checkpoints of agents' memories as one storage, whose next observations are those of the following steps."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.replay_buffers.storages.base import Storage, as_places
from flambeau.rl.data.replay_buffers.writers.base import ImmutableDatasetWriter

__all__ = ["RunStorage"]


class RunStorage(Storage):
    """Steps of several checkpoints, one behind the other; read only.

    Args:
        runs: of each, "observation" (steps, or one more), "action", ("next", "reward") and ("next", "terminated").
    """

    def __init__(self, runs: list[Any]) -> None:
        self._runs = runs
        lengths = torch.tensor([len(run["action"]) for run in runs])
        self._stops = lengths.cumsum(0)
        self._starts = self._stops - lengths
        super().__init__(int(self._stops[-1]))

    def __len__(self) -> int:
        return self.max_size

    def episodes(self) -> Tensor:
        """(steps,), the number of each step's episode; a checkpoint's end ends one."""
        before = torch.zeros(len(self), dtype=torch.int64)
        for run, start in zip(self._runs, self._starts.tolist(), strict=True):
            ended = run["next", "terminated"].reshape(-1)
            before[start + 1 : start + len(ended)] = ended[:-1].long()
            before[start] = 1 if start else 0
        return before.cumsum(0)

    def get(self, index: Any) -> Any:
        """Steps at places.

        Raises:
            IndexError: there is no such step.
        """
        if isinstance(index, tuple):
            index = index[0]
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"index {index} is out of bounds: there are {len(self)} steps.")
            return self._at(torch.tensor([index % len(self)]))[0]
        places = as_places(index, len(self))
        if places is None:
            places = torch.arange(len(self))
        places = torch.where(places < 0, places + len(self), places)
        if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < len(self):
            raise IndexError(f"indices from {int(places.min())} to {int(places.max())}: there are {len(self)} steps.")
        return self._at(places)

    def _at(self, places: Tensor) -> TensorDict:
        owners = torch.searchsorted(self._stops, places, right=True)
        made: dict[str, Tensor] = {}
        for owner in owners.unique().tolist():
            chosen = (owners == owner).nonzero().flatten()
            for key, value in self._of(self._runs[owner], places[chosen] - self._starts[owner]).items():
                if key not in made:
                    made[key] = value.new_zeros(len(places), *value.shape[1:])
                made[key][chosen] = value
        count = len(places)
        if not made:
            made = {key: value[:0] for key, value in self._of(self._runs[0], torch.zeros(1, dtype=torch.int64)).items()}
        none = torch.zeros(count, 1, dtype=torch.bool)
        follows = {
            "observation": made["following"],
            "reward": made["reward"],
            "done": made["terminated"].clone(),
            "terminated": made["terminated"],
            "truncated": none.clone(),
        }
        flags = {name: none.clone() for name in ("done", "terminated", "truncated")}
        content = {"observation": made["observation"], "action": made["action"], "next": follows, **flags}
        return TensorDict(content, [count])

    def _of(self, run: Any, rows: Tensor) -> dict[str, Tensor]:
        seen, terminated = run["observation"], run["next", "terminated"][rows].reshape(-1, 1)
        following = seen[(rows + 1).clamp(max=len(seen) - 1)]
        lost = terminated.flatten() | (rows + 1 >= len(seen))
        plain = {
            "observation": seen[rows],
            "following": following.masked_fill(lost.reshape(-1, *[1] * (following.ndim - 1)), 0),
            "action": run["action"][rows],
            "reward": run["next", "reward"][rows].reshape(-1, 1),
            "terminated": terminated,
        }
        return {key: value.as_subclass(Tensor) for key, value in plain.items()}

    def contains(self, item: Any) -> Any:
        """Whether there is a step at a place."""
        if isinstance(item, Tensor):
            return (item >= -len(self)) & (item < len(self))
        return -len(self) <= int(item) < len(self)

    def _refuse(self) -> NoReturn:
        raise RuntimeError(ImmutableDatasetWriter.WRITING_ERR)

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def _empty(self) -> None:
        self._refuse()

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the steps are on the disk."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is taken over."""
        return

    def __repr__(self) -> str:
        return f"RunStorage({len(self._runs)} checkpoints, {len(self):,} steps)"
