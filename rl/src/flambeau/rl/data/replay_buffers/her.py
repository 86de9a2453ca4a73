"""Hindsight experience replay: what was achieved is taken for what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer
from flambeau.rl.data.replay_buffers.samplers._marks import Marks
from flambeau.rl.data.replay_buffers.samplers.base import Sampler

__all__ = ["HERReplayBuffer", "HindsightStrategy"]


class HindsightStrategy(StrEnum):
    """Which achieved goal stands for the wanted one."""

    FUTURE = "future"
    FINAL = "final"
    EPISODE = "episode"
    RANDOM = "random"


class HERReplayBuffer(TensorDictReplayBuffer):
    """Draws steps of which a part has another goal, one that was achieved: some rewards are high from the start.

    The first `int(her_ratio * batch_size)` steps of a batch get the goal that a step of the buffer achieved: of the
    same episode from the step itself on ("future"), its last ("final"), any of the episode ("episode") or of the buffer
    ("random"). Their rewards are computed anew. What is stored does not change.

    Args:
        reward_fn: steps, with the new goal -> rewards, of the shape of the stored ones.
        her_ratio: which part of a batch gets another goal, in [0, 1].
        strategy: see above.
        goal_key: the entry of the wanted goal; where it is under "next" as well, it changes there, too.
        achieved_goal_key: the entry of the achieved goal.
        reward_key: the entry of rewards.
        end_key: the entry that ends episodes.
        sampler: which steps are drawn; uniformly by default.
        kwargs: see `TensorDictReplayBuffer`.

    Raises:
        ValueError: a ratio out of range, or another strategy.

    References:
        Andrychowicz et al., 2017, arXiv:1707.01495.
    """

    def __init__(
        self,
        reward_fn: Callable[[TensorDictBase], Tensor],
        *,
        her_ratio: float = 0.8,
        strategy: HindsightStrategy | Literal["future", "final", "episode", "random"] = "future",
        goal_key: Any = "desired_goal",
        achieved_goal_key: Any = "achieved_goal",
        reward_key: Any = ("next", "reward"),
        end_key: Any = ("next", "done"),
        sampler: Sampler | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= her_ratio <= 1:
            raise ValueError(f"HERReplayBuffer: her_ratio is {her_ratio}, expected 0 to 1.")
        super().__init__(sampler=sampler, **kwargs)
        self.reward_fn = reward_fn
        self.her_ratio = her_ratio
        self.strategy = HindsightStrategy(strategy)
        self.goal_key, self.achieved_goal_key = goal_key, achieved_goal_key
        self.reward_key, self.end_key = reward_key, end_key
        self._marks = Marks([end_key], by_identity=False)

    def _draw(self, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        index, info = super()._draw(batch_size)
        count = int(self.her_ratio * batch_size)
        if count:
            places = index[0] if isinstance(index, tuple) else index
            info["_data"] = self._relabelled(info["_data"], places, min(count, len(places)))
        return index, info

    def _relabelled(self, data: Any, places: Tensor, count: int) -> Any:
        if isinstance(data, list):
            data = torch.stack(data)
        if self._storage.ndim > 1:
            raise RuntimeError("HERReplayBuffer: the storage has several dimensions of places, expected ndim=1.")
        goals = self._goals(places[:count].cpu())
        achieved = self._storage.get(goals)
        if isinstance(achieved, list):
            achieved = torch.stack(achieved)
        goal = achieved.get(self.achieved_goal_key)
        changed = data[:count].clone()
        changed.set(self.goal_key, goal)
        under_next = ("next", *self.goal_key) if isinstance(self.goal_key, tuple) else ("next", self.goal_key)
        if changed.get(under_next, None) is not None:
            changed.set(under_next, goal.clone())
        reward = self.reward_fn(changed)
        former = changed.get(self.reward_key)
        changed.set(self.reward_key, reward.to(former.dtype).reshape(former.shape))
        return torch.cat([changed, data[count:]])

    def _goals(self, places: Tensor) -> Tensor:
        """Places whose achieved goals are taken."""
        if self.strategy is HindsightStrategy.RANDOM:
            return torch.randint(len(self._storage), places.shape, generator=self._rng)
        index = self._marks.index(self._storage)
        column = index.columns[0]
        ends = torch.cat([torch.from_numpy(column.stops.copy()), torch.tensor([index.next_row - 1])])
        begins = torch.cat([torch.from_numpy(column.starts.copy()), torch.tensor([column.open_since])])
        rows = index.next_row - 1 - (index.next_row - 1 - places) % index.size
        episode = torch.searchsorted(ends, rows)
        start, stop = begins[episode], ends[episode]
        if self.strategy is HindsightStrategy.FINAL:
            return stop % index.size
        first = rows if self.strategy is HindsightStrategy.FUTURE else start
        drawn = torch.rand(places.shape, generator=self._rng)
        return (first + (drawn * (stop - first + 1)).to(torch.int64)) % index.size

    def mark_update(self, index: Any) -> None:
        """Tell the sampler that items were changed."""
        self._marks.forget()
        super().mark_update(index)

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all items; the storage keeps its memory."""
        super().empty(empty_write_count)
        self._marks.forget()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another buffer's `state_dict` was made."""
        super().load_state_dict(state_dict)
        self._marks.forget()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_marks"] = Marks([self.end_key], by_identity=False)
        return state
