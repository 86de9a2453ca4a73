"""Episodes that end earlier than the environment says, or begin anew by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple, with_last
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._reset_keys import outer_reset_keys

__all__ = ["AutoResetTransform", "RandomTruncationTransform", "TerminateTransform"]


class TerminateTransform(Transform):
    """An end to episodes where a function of what the environment gave says so.

    Args:
        stop: from a tensordict to a bool, or a mask of the batch.
        write_done: mark "done" as well as "terminated".
    """

    def __init__(self, stop: Callable[[Any], Any], *, write_done: bool = True) -> None:
        super().__init__()
        self.stop = stop
        self.write_done = write_done

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        stop = self.stop(next_tensordict)
        names = ("terminated", "done") if self.write_done else ("terminated",)
        for keys in self.parent._outer_ends():
            for name in names:
                key = with_last(keys[0], name)
                end = next_tensordict.get(key, None)
                if end is not None:
                    mask = torch.as_tensor(stop, dtype=torch.bool, device=end.device)
                    next_tensordict.set(key, end | (mask if not mask.ndim else spread(mask, end)))
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no episodes to end.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("TerminateTransform works in environments only, whose episodes it ends.")


class RandomTruncationTransform(Transform):
    """Episodes that are cut after a random number of steps, so that those of a batch do not end together.

    A `StepCounter` must come before it.

    Args:
        min_horizon: the least number of steps after which episodes are cut, > 0.
        max_horizon: the greatest.
        prob: of an episode to be cut between the two; others are cut at the greatest.
        first_episode_prob: of the second episode of an entry; default: `prob`. The first is cut anywhere up to the
            greatest.
        step_count_key: of the counts.
        truncated_key: of the marks.
        done_key: of the ends.

    Raises:
        ValueError: the numbers of steps, or a probability, are out of their ranges.
        RuntimeError: no `StepCounter` comes before.
    """

    def __init__(
        self,
        min_horizon: int,
        max_horizon: int,
        prob: float = 0.0,
        first_episode_prob: float | None = None,
        *,
        step_count_key: NestedKey = "step_count",
        truncated_key: NestedKey = "truncated",
        done_key: NestedKey = "done",
    ) -> None:
        if not 1 <= min_horizon <= max_horizon:
            raise ValueError(f"Horizons are 1 <= min_horizon <= max_horizon; got {min_horizon} and {max_horizon}.")
        first_episode_prob = prob if first_episode_prob is None else first_episode_prob
        for name, each in (("prob", prob), ("first_episode_prob", first_episode_prob)):
            if not 0.0 <= each <= 1.0:
                raise ValueError(f"{name} is a probability; got {each}.")
        super().__init__()
        self.min_horizon, self.max_horizon = min_horizon, max_horizon
        self.prob, self.first_episode_prob = prob, first_episode_prob
        self.step_count_key, self.truncated_key, self.done_key = step_count_key, truncated_key, done_key
        self._horizon: Tensor | None = None
        self._episode = torch.zeros(0)

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a `TransformedEnv`.

        Raises:
            RuntimeError: no `StepCounter` comes before.
        """
        super().set_container(container)
        parent = self.parent
        if parent is not None and self.step_count_key not in parent.full_observation_spec.keys(True):
            self.reset_parent()
            raise RuntimeError(
                f"RandomTruncationTransform reads the counts of steps at {self.step_count_key!r}: put a StepCounter "
                "before it."
            )

    def _drawn(self, episode: Tensor) -> Tensor:
        """When to cut the episodes that begin, by how many each entry had before."""
        shape, device, most = episode.shape, episode.device, self.max_horizon
        early = torch.randint(1, most + 1, shape, device=device)
        between = torch.randint(self.min_horizon, most + 1, shape, device=device)
        prob = torch.where(episode == 1, self.first_episode_prob, self.prob)
        later = torch.where(torch.rand(shape, device=device) < prob, between, most)
        return torch.where(episode == 0, early, later)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        count = tensordict_reset.get(self.step_count_key)
        mask = tensordict.get(with_last(self.done_key, "_reset"), None)
        if self._horizon is None or self._horizon.shape != count.shape:
            self._episode = torch.zeros_like(count)
            self._horizon = self._drawn(self._episode)
        else:
            begun = torch.ones_like(count, dtype=torch.bool) if mask is None else spread(mask, count)
            self._episode = self._episode + begun
            self._horizon = torch.where(begun, self._drawn(self._episode), self._horizon)
        if tensordict_reset.get(self.truncated_key, None) is None:
            tensordict_reset.set(self.truncated_key, torch.zeros_like(count, dtype=torch.bool))
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        count = next_tensordict.get(self.step_count_key)
        if self._horizon is None:
            self._episode = torch.zeros_like(count)
            self._horizon = self._drawn(self._episode)
        cut = count >= self._horizon
        for key in (self.truncated_key, self.done_key):
            end = next_tensordict.get(key, None)
            next_tensordict.set(key, cut if end is None else end | spread(cut, end))
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no episodes to cut.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("RandomTruncationTransform works in environments only, whose episodes it cuts.")

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The marks are ends.

        Args:
            output_spec: a composite.
        """
        done = output_spec["full_done_spec"]
        if self.truncated_key not in done.keys(True):
            done[self.truncated_key] = done[self.done_key].clone()
        output_spec["full_done_spec"] = done
        return output_spec


class AutoResetTransform(Transform):
    """Sorts out what environments give that begin new episodes by themselves.

    What such an environment gives with the last step of an episode is the first of the next. It is kept for the reset,
    and something else stands in its place.

    Args:
        replace: put fill values in the place of the last observations; default: yes.
        fill_float: for floats; a number or "nan".
        fill_int: for integers.
        fill_bool: for bools.
    """

    def __init__(
        self, *, replace: bool | None = None, fill_float: Any = "nan", fill_int: Any = -1, fill_bool: Any = False
    ) -> None:
        super().__init__()
        self.replace = replace
        self.fill_float = float("nan") if fill_float == "nan" else fill_float
        self.fill_int = fill_int
        self.fill_bool = fill_bool
        self._firsts: Any = None

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        firsts, self._firsts = self._firsts, None
        if firsts is None:
            return tensordict_reset
        for reset_key in outer_reset_keys(self.parent):
            mask = tensordict.get(reset_key, None)
            if mask is None:
                continue
            for key, value in firsts.items(True, True):
                if not _below(key, reset_key) or not isinstance(value, Tensor):
                    continue
                old = tensordict_reset.get(key, None)
                tensordict_reset.set(key, value if old is None else torch.where(spread(mask, value), value, old))
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        parent = self.parent
        ends = [keys[0] for keys in parent._outer_ends()]
        if not any(bool(next_tensordict.get(key).any()) for key in ends):
            return next_tensordict
        self._firsts = next_tensordict.select(*parent.observation_keys).clone()
        if self.replace is False:
            return next_tensordict
        for end in ends:
            done = next_tensordict.get(end)
            for key in parent.observation_keys:
                value = next_tensordict.get(key)
                if _below(key, end) and isinstance(value, Tensor):
                    fill = torch.full_like(value, self._fill(value.dtype))
                    next_tensordict.set(key, torch.where(spread(done, value), fill, value))
        return next_tensordict

    def _fill(self, dtype: torch.dtype) -> Any:
        if dtype.is_floating_point:
            return self.fill_float
        if dtype is torch.bool:
            return self.fill_bool
        return self.fill_int if dtype.is_signed else 0

    def forward(self, tensordict: Any) -> Any:
        """The data as they are.

        Args:
            tensordict: any.
        """
        return tensordict


def _below(key: NestedKey, reset_key: NestedKey) -> bool:
    place = as_tuple(reset_key)[:-1]
    return as_tuple(key)[: len(place)] == place
