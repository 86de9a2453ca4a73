"""Advantages of answers within their group, when they are written to a replay buffer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.objectives.llm.mc_selection import Bounds, MCAdvantageSelector

__all__ = ["MCAdvantage"]

_RETURNS = ("sum", "max", "mean", None)
_LEAST_SCALE = 1e-6
_COUNTS: dict[str, float] = {
    "completed_trajectories": 0, "completed_decisions": 0, "trajectory_return_sum": 0.0,
    "trajectory_return_max": -float("inf"), "successful_trajectories": 0, "completed_groups": 0, "written_groups": 0,
    "dropped_groups": 0, "rescued_groups": 0, "selected_trajectories": 0, "unselected_trajectories": 0,
}  # fmt: skip
QUEUED = ("queued_groups", "queued_trajectories", "max_queued_trajectories_per_group")
_LOCAL = "MC_ADVANTAGE_LOCAL_QUEUES"


class MCAdvantage(Transform):
    """Compare the returns of trajectories that began alike, and write a group when it is complete (Shao et al., 2024).

    Of a replay buffer: `extend` keeps trajectories back until `grpo_size` of one group are there; then all of them are
    written, with their advantages. Nothing changes where data are read.

    Args:
        grpo_size: how many trajectories make a group.
        prompt_key: what tells groups apart: text, or tensors, by their values.
        rewards_key: of the rewards, (steps, 1).
        advantage_key: where the advantages are written, of the rewards' shape.
        done_key: of the ends, (steps, 1).
        verbose: log what becomes of groups.
        trajectory_return: "sum", "max" or "mean" of a trajectory's rewards is compared, and all of its steps have the
            same advantage. By default rewards are, of all steps of the group.
        keep_return_bounds: drop groups whose mean return is not between these two (Yu et al., 2025, arXiv:2503.14476,
            section 3.2).
        candidate_group_size: wait for up to so many trajectories while no choice of `grpo_size` lies within the bounds.
        candidate_selection_min_size: from how many on a choice is tried; `grpo_size` by default.
        candidate_selector: how it is made.

    The advantage of x is (x - mean) / std, with the unbiased standard deviation, at least 1e-6.

    Writers in several processes complete one another's groups after `share_memory_`. The environment variable
    FLAMBEAU_MC_ADVANTAGE_LOCAL_QUEUES=1 (or TORCHRL_...) keeps queues in each process: only where each group comes from
    one writer.

    Raises:
        ValueError: a number or name is out of range, or needs `trajectory_return`.
        RuntimeError: of `inv`: a trajectory has no end.

    Example:
        >>> def trajectory(group, reward):
        ...     next_td = TensorDict(reward=torch.tensor([[reward]]), done=torch.ones(1, 1, dtype=torch.bool))
        ...     next_td.batch_size = [1]
        ...     return TensorDict(group=torch.tensor([group]), next=next_td, batch_size=[1])
        >>> transform = MCAdvantage(grpo_size=2, prompt_key="group", trajectory_return="sum")
        >>> transform.inv(trajectory(7, 0.0)) is None
        True
        >>> transform.inv(trajectory(7, 1.0))["advantage"].flatten()
        tensor([-0.7071,  0.7071])
    """

    requires_shared_write_state = True

    def __init__(
        self, grpo_size: int, prompt_key: Any = "query", rewards_key: Any = ("next", "reward"),
        advantage_key: Any = "advantage", done_key: Any = ("next", "done"), verbose: bool = False, *,
        trajectory_return: Literal["sum", "max", "mean"] | None = None, keep_return_bounds: Bounds | None = None,
        candidate_group_size: int | None = None, candidate_selection_min_size: int | None = None,
        candidate_selector: MCAdvantageSelector | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        most = grpo_size if candidate_group_size is None else candidate_group_size
        least = grpo_size if candidate_selection_min_size is None else candidate_selection_min_size
        _check(grpo_size, trajectory_return, keep_return_bounds, most, least)
        self.in_keys, self.out_keys = [prompt_key, rewards_key, done_key], [advantage_key]
        self.prompt_key, self.rewards_key = prompt_key, rewards_key
        self.advantage_key, self.done_key = advantage_key, done_key
        self.grpo_size, self.verbose = grpo_size, verbose
        self.candidate_group_size, self.candidate_selection_min_size = most, least
        self.candidate_selector = candidate_selector or MCAdvantageSelector()
        self.trajectory_return, self.keep_return_bounds = trajectory_return, keep_return_bounds
        self.queues: Any = {}
        self._counts: Any = dict(_COUNTS)
        self._lock: Any = threading.RLock()
        self._manager: Any = None

    # --- State, here or shared by processes

    @property
    def is_shared(self) -> bool:
        """Whether writers in other processes complete the same groups."""
        return not isinstance(self.queues, dict)

    def share_memory_(self) -> MCAdvantage:
        """Move queues and counts to a process of their own, which writers in all processes reach."""
        if self.is_shared or any(os.environ.get(f"{root}_{_LOCAL}") == "1" for root in ("FLAMBEAU", "TORCHRL")):
            return self
        import multiprocessing

        self._manager = multiprocessing.get_context("spawn").Manager()
        self.queues = self._manager.dict(self.queues)
        self._counts = self._manager.dict(self._counts)
        self._lock = self._manager.RLock()
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__() | {"_manager": None}  # the process that started it ends it
        return state if self.is_shared else state | {"_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self._lock is None:
            self._lock = threading.RLock()

    def _count(self, **amounts: float) -> None:
        for name, amount in amounts.items():
            self._counts[name] = self._counts[name] + amount

    def reset_stats(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._counts.update(_COUNTS)

    def clear_queues(self) -> None:
        """Forget the trajectories that wait for others."""
        with self._lock:
            self.queues.clear()

    def get_stats(self) -> dict[str, float | int]:
        """All counts, by the names of the properties."""
        with self._lock:
            return {**{name: self._counts[name] for name in _COUNTS}, **{name: getattr(self, name) for name in QUEUED}}

    @property
    def queued_groups(self) -> int:
        """How many groups wait for more trajectories."""
        return len(self.queues)

    @property
    def queued_trajectories(self) -> int:
        """How many trajectories wait."""
        return sum(map(len, self.queues.values()))

    @property
    def max_queued_trajectories_per_group(self) -> int:
        """How many wait in the largest group."""
        return max(map(len, self.queues.values()), default=0)

    # --- Data

    def forward(self, tensordict: TensorDictBase) -> Any:
        """Data that are read stay as they are."""
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> Any:
        """The groups that these trajectories complete, one behind the other, or None.

        Args:
            tensordict: one trajectory or more, (..., steps): all have their end.
        """
        if not tensordict.ndim:
            tensordict = tensordict.unsqueeze(0)
        written = []
        for trajectory in self._trajectories(tensordict):
            group = self._queued(trajectory)
            if group is not None:
                written.append(self._with_advantages(group))
        if not written:
            return None
        return written[0] if len(written) == 1 else _joined(written)

    def _trajectories(self, tensordict: TensorDictBase) -> list[Any]:
        """A batch, cut behind its ends."""
        if tensordict.ndim > 1:
            return [one for part in tensordict.unbind(0) for one in self._trajectories(part)]
        steps = _rows(tensordict, self.done_key)
        ends = [at for at, done in enumerate(steps) if bool(done.any())]
        if not ends or ends[-1] != len(steps) - 1:
            raise RuntimeError(
                f"the trajectory does not end: {self.done_key!r} is False at its last step. Write whole trajectories, "
                "as collectors do with yield_completed_trajectories=True."
            )
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [tensordict[start : end + 1] for start, end in zip(starts, ends, strict=True)]

    def _queued(self, trajectory: TensorDictBase) -> list[Any] | None:
        """Put a trajectory into its group; the group's trajectories where it is complete."""
        name = _group_name(_rows(trajectory[:1], self.prompt_key)[0])
        with self._lock:
            self._count(completed_trajectories=1, completed_decisions=len(trajectory))
            self._count_return(trajectory)
            waiting = [*self.queues.get(name, ()), trajectory]
            if len(waiting) < self.candidate_selection_min_size:
                self.queues[name] = deque(waiting)
                return None
            chosen = self._chosen(waiting)
            if chosen is None and len(waiting) < self.candidate_group_size:
                self.queues[name] = deque(waiting)
                return None
            self.queues.pop(name, None)
            self._count(completed_groups=1)
            if chosen is None:
                self._count(dropped_groups=1)
                self._log("dropped", name)
                return None
            self._count(written_groups=1)
            self._count_selected(waiting, chosen)
            self._log("written", name)
            return [waiting[at] for at in chosen]

    def _log(self, fate: str, name: Any) -> None:
        if self.verbose:
            from flambeau.rl._utils import logger

            logger.info("group %r of %d trajectories was %s", name, self.grpo_size, fate)

    def _count_return(self, trajectory: TensorDictBase) -> None:
        if self.trajectory_return is not None:
            gained = float(torch.stack(_rows(trajectory, self.rewards_key)).float().sum())
            self._count(trajectory_return_sum=gained, successful_trajectories=int(gained > 0))
            self._counts["trajectory_return_max"] = max(self._counts["trajectory_return_max"], gained)

    def _count_selected(self, waiting: list[Any], chosen: list[int]) -> None:
        if self.trajectory_return is None:
            return
        self._count(selected_trajectories=len(chosen), unselected_trajectories=len(waiting) - len(chosen))
        bounds = self.keep_return_bounds
        if bounds is not None:
            first = torch.stack([self._return_of(one) for one in waiting[: self.grpo_size]]).mean()
            self._count(rescued_groups=int(not bounds[0] < float(first) < bounds[1]))

    def _return_of(self, trajectory: TensorDictBase) -> Tensor:
        rewards = torch.stack(_rows(trajectory, self.rewards_key)).float()
        if self.trajectory_return == "max":
            return rewards.max()
        return rewards.mean() if self.trajectory_return == "mean" else rewards.sum()

    def _chosen(self, waiting: list[Any]) -> list[int] | None:
        if self.trajectory_return is None:
            return list(range(len(waiting)))
        returns = torch.stack([self._return_of(one) for one in waiting])
        if self.candidate_group_size == self.grpo_size:
            bounds = self.keep_return_bounds
            kept = bounds is None or bounds[0] < float(returns.mean()) < bounds[1]
            return list(range(len(waiting))) if kept else None
        candidates = TensorDict({"return": returns, "trajectories": lazy_stack(waiting)}, [len(waiting)])
        return self.candidate_selector.select(
            candidates, group_size=self.grpo_size, keep_return_bounds=self.keep_return_bounds
        )

    def _with_advantages(self, group: list[Any]) -> Any:
        """The group, one trajectory behind the other."""
        rewards = [_rows(one, self.rewards_key) for one in group]
        if self.trajectory_return is None:
            advantages = iter(_normalized(torch.stack([reward for rows in rewards for reward in rows])))
            each = [[next(advantages) for _ in rows] for rows in rewards]
        else:
            of_each = _normalized(torch.stack([self._return_of(one) for one in group]))
            each = [[value.expand_as(row) for row in rows] for value, rows in zip(of_each, rewards, strict=True)]
        made = []
        for trajectory, values in zip(group, each, strict=True):
            steps = [step.copy() for step in trajectory.unbind(0)]
            for step, value in zip(steps, values, strict=True):
                step.set(self.advantage_key, value.clone())
            made.extend(steps)
        return _dense_if_possible(lazy_stack(made))


def _mc_property(name: str, text: str) -> property:
    def read(self: MCAdvantage) -> float:
        return self._counts[name]  # type: ignore[no-any-return]

    read.__doc__ = text
    return property(read)


for _name, _text in {
    "completed_trajectories": "How many trajectories came.", "completed_decisions": "How many steps they had.",
    "trajectory_return_sum": "The sum of all their rewards, with `trajectory_return`.",
    "trajectory_return_max": "The largest sum of rewards of one, with `trajectory_return`.",
    "successful_trajectories": "How many had rewards whose sum is above 0, with `trajectory_return`.",
    "completed_groups": "How many groups were complete.", "written_groups": "How many of them were written.",
    "dropped_groups": "How many of them were not, by their returns.",
    "rescued_groups": "How many were written because others than the first trajectories were chosen.",
    "selected_trajectories": "How many trajectories were written, with `trajectory_return`.",
    "unselected_trajectories": "How many of complete groups were not, with `trajectory_return`.",
}.items():  # fmt: skip
    setattr(MCAdvantage, _name, _mc_property(_name, _text))
del _name, _text


def _check(size: int, returns: str | None, bounds: Bounds | None, most: int, least: int) -> None:
    if size < 1:
        raise ValueError(f"grpo_size is {size}, expected 1 or more trajectories.")
    if returns not in _RETURNS:
        raise ValueError(f"trajectory_return is {returns!r}, expected one of {_RETURNS}.")
    if returns is not None and size < 2:
        raise ValueError("grpo_size is 1, with trajectory_return expected 2 or more: one return has no deviation.")
    if bounds is not None:
        if returns is None:
            raise ValueError("keep_return_bounds looks at the returns of trajectories; set trajectory_return.")
        if not bounds[0] < bounds[1]:
            raise ValueError(f"keep_return_bounds is {bounds}, expected two numbers, the lower one first.")
    if most < size:
        raise ValueError(f"candidate_group_size is {most}, expected grpo_size, {size}, or more.")
    if most > size and returns is None:
        raise ValueError("candidate_group_size chooses trajectories by their returns; set trajectory_return.")
    if not size <= least <= most:
        raise ValueError(
            f"candidate_selection_min_size is {least}, expected {size} (grpo_size) to {most} (candidate_group_size)."
        )


def _rows(tensordict: TensorDictBase, key: Any) -> list[Any]:
    """An entry, step by step."""
    rows = []
    for step in tensordict.unbind(0):
        value = step.get(key, None)
        if value is None:
            raise KeyError(f"the trajectory has no {key!r}; there are {sorted(map(str, step.keys(True, True)))}.")
        rows.append(value)
    return rows


def _group_name(value: Any) -> Any:
    """What tells a group apart: text as it is, tensors by their values."""
    if isinstance(value, Tensor):
        return value.item() if value.numel() == 1 else (tuple(value.shape), tuple(value.flatten().tolist()))
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value if isinstance(value, str | int | float | bool) else repr(value)


def _normalized(values: Tensor) -> Tensor:
    return (values - values.mean()) / values.std().clamp_min(_LEAST_SCALE)


def _joined(groups: Iterable[Any]) -> Any:
    return _dense_if_possible(lazy_stack([step for group in groups for step in group.unbind(0)]))


def _dense_if_possible(stack: Any) -> Any:
    """A dense tensordict, unless its entries have different shapes."""
    if not isinstance(stack, LazyStackedTensorDict):
        return stack
    try:
        return stack.contiguous()
    except RuntimeError:  # answers of different lengths stay apart
        return stack
