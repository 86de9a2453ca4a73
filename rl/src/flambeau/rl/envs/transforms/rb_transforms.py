"""Transforms of data of replay buffers alone: returns of several steps, next states, and age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.transform import Transform, key_list

__all__ = ["MultiStepTransform", "NextStateReconstructor", "PolicyAgeFilter"]


class MultiStepTransform(Transform):
    """Returns of n steps, and what follows the last of them, for data that go into a buffer.

    The reward of a step becomes the discounted sum of its own and the next n - 1, or as many as there are to the end of
    the episode, and what is below "next" that after the last of them. "steps_to_next_obs" is their number k, "gamma"
    the discount gamma^k of what follows, "nonterminal" whether it goes on from there, and ("next", "original_reward")
    the reward itself. The last n steps are kept back until others follow: what is added first is that much shorter,
    and nothing where there are not more.

    Args:
        n_steps: number of steps, > 0.
        gamma: the discount.
        reward_keys: of rewards, below "next"; default: "reward".
        done_key: of the ends, below "next"; default: "done", and "truncated" where it is.
        done_keys: several of them.
        mask_key: of a mask that is True at steps that are no padding.

    Raises:
        ValueError: `n_steps` is not positive, or the transform is put into an environment.

    References:
        R. S. Sutton, Learning to Predict by the Methods of Temporal Differences, Machine Learning 3, 1988.
    """

    ENV_ERR = "MultiStepTransform needs the steps that follow: it is for data that go into a replay buffer."

    reward_keys: Any
    done_key: NestedKey
    done_keys: Any
    mask_key: NestedKey | None

    def __init__(
        self,
        n_steps: int,
        gamma: float,
        *,
        reward_keys: list[NestedKey] | None = None,
        done_key: NestedKey | None = None,
        done_keys: list[NestedKey] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        if n_steps <= 0:
            raise ValueError(f"n_steps is the number of steps of a return, at least 1; got {n_steps}.")
        if done_key is not None and done_keys is not None:
            raise ValueError("Give either done_key or done_keys.")
        self._n_steps = n_steps
        self.gamma = gamma
        self.reward_keys = key_list(["reward"] if reward_keys is None else reward_keys)
        self.done_key = "done" if done_key is None else done_key
        self.done_keys = key_list(done_keys) if done_keys is not None else [self.done_key]
        self.mask_key = mask_key
        self._held: Any = None

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self._n_steps

    @n_steps.setter
    def n_steps(self, value: int) -> None:
        self._n_steps = value

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a replay buffer.

        Raises:
            ValueError: an environment.
        """
        from flambeau.rl.envs.common import EnvBase

        owner = container.container if isinstance(container, Transform) else container
        if isinstance(owner, EnvBase):
            raise ValueError(self.ENV_ERR)
        super().set_container(container)

    def forward(self, tensordict: Any) -> Any:
        """The data as they are: they were transformed on their way in.

        Args:
            tensordict: any.
        """
        return tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        dim = len(tensordict.batch_size) - 1
        steps = tensordict if self._held is None else torch.cat([self._held, tensordict], dim)
        length = steps.batch_size[dim]  # type: ignore[union-attr]
        if length <= self.n_steps:
            self._held = steps
            return None
        self._held = steps[..., length - self.n_steps :].clone()
        return self._over_steps(steps.copy(), dim)[..., : length - self.n_steps]  # type: ignore[union-attr]

    def _over_steps(self, steps: Any, dim: int) -> Any:
        """Returns of n steps for all steps there are."""
        following = steps.get("next").copy()
        size = steps.batch_size
        ends = self._ends(following, size)
        stop = ends
        if self.mask_key is not None:
            # The last step that is no padding is as good as an end.
            mask = steps.get(self.mask_key).reshape(size)
            stop = ends | ~torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], dim)
        length = size[dim]
        count = torch.ones(size, dtype=torch.int64, device=ends.device)
        goes_on = ~stop
        sums = {key: following.get(key).clone() for key in self.reward_keys}
        for step in range(1, min(self.n_steps, length)):
            # Whether step t + step belongs to the return of step t.
            goes_on = goes_on & (torch.arange(length, device=ends.device) + step < length)
            count = count + goes_on
            for key, total in sums.items():
                ahead = following.get(key).roll(-step, dim)
                sums[key] = total + torch.where(spread(goes_on, ahead), self.gamma**step * ahead, 0)
            goes_on = goes_on & ~stop.roll(-step, dim)
        at = torch.arange(length, device=ends.device) + count - 1
        for key in self.reward_keys:
            original = following.get(key)
            following.del_(key)
            steps.set(("next", *as_tuple(key)[:-1], f"original_{as_tuple(key)[-1]}"), original)
        last = following.gather(dim, at)
        originals = {key: steps.get(("next", *as_tuple(key)[:-1], f"original_{as_tuple(key)[-1]}")) for key in sums}
        steps.set("next", last)
        for key, total in sums.items():
            steps.set(("next", *as_tuple(key)[:-1], f"original_{as_tuple(key)[-1]}"), originals[key])
            steps.set(("next", *as_tuple(key)), total)
        steps.set("steps_to_next_obs", count)
        steps.set("gamma", self.gamma ** count.to(torch.get_default_dtype()))
        steps.set("nonterminal", ~ends.gather(dim, at))
        return steps

    def _ends(self, following: Any, size: torch.Size) -> Tensor:
        ends: Any = None
        for key in dict.fromkeys([*self.done_keys, "truncated"]):
            end = following.get(key, None)
            if end is not None:
                end = end.reshape(size)
                ends = end if ends is None else ends | end
        if ends is None:
            raise KeyError(f"MultiStepTransform reads the ends at {self.done_keys} below 'next', which are not there.")
        return ends  # type: ignore[no-any-return]


class NextStateReconstructor(Transform):
    """What stood below "next", from the row behind, for data that were stored without it.

    A row is followed by the next one where both are of one trajectory and it was no end; elsewhere, and in the last
    row, the value is not known.

    Args:
        keys: of what is put below "next" again.
        traj_key: of the number of the trajectory; None if rows are of one.
        done_key: of the ends; None if there are none.
        step_count_key: of the number of steps, which must go up by one; default: rows stand in order.
        fill_value: stands for what is not known.
        strict: raise where a key is missing; else leave it out.

    Raises:
        ValueError: the data have not one dimension.
        KeyError: a key is missing.
    """

    def __init__(
        self,
        keys: Sequence[NestedKey] = ("observation",),
        *,
        traj_key: NestedKey | None = ("collector", "traj_ids"),
        done_key: NestedKey | None = ("next", "done"),
        step_count_key: NestedKey | None = None,
        fill_value: float = float("nan"),
        strict: bool = True,
    ) -> None:
        super().__init__()
        self.keys: Any = key_list(list(keys))
        self.traj_key, self.done_key, self.step_count_key = traj_key, done_key, step_count_key
        self.fill_value = fill_value
        self.strict = strict

    def _read(self, tensordict: Any, key: NestedKey | None) -> Any:
        if key is None:
            return None
        value = tensordict.get(key, None)
        if value is None and self.strict:
            raise self._missing(key, tensordict)
        return None if value is None else value.reshape(tensordict.batch_size[0], -1)[:, 0]

    def forward(self, tensordict: Any) -> Any:
        """Put what followed below "next".

        Args:
            tensordict: (rows,), changed in place.
        """
        if len(tensordict.batch_size) != 1:
            raise ValueError(
                f"NextStateReconstructor takes rows, one behind the other; got the batch size "
                f"{tuple(tensordict.batch_size)}: reshape(-1) gives such."
            )
        rows = tensordict.batch_size[0]
        follows = torch.ones(rows, dtype=torch.bool, device=tensordict.device)
        follows[-1:] = False
        trajectory, done = self._read(tensordict, self.traj_key), self._read(tensordict, self.done_key)
        count = self._read(tensordict, self.step_count_key)
        if trajectory is not None:
            follows = follows.to(trajectory.device) & (trajectory == trajectory.roll(-1))
        if done is not None:
            follows = follows.to(done.device) & ~done.bool()
        if count is not None:
            follows = follows.to(count.device) & (count.roll(-1) == count + 1)
        for key in self.keys:
            value = tensordict.get(key, None)
            if value is None:
                if self.strict:
                    raise self._missing(key, tensordict)
                continue
            fill = self.fill_value if value.dtype.is_floating_point or self.fill_value == self.fill_value else 0
            unknown = torch.full_like(value, fill)
            ahead = torch.where(spread(follows, value), value.roll(-1, 0), unknown)
            tensordict.set(("next", *as_tuple(key)), ahead)
        return tensordict


class PolicyAgeFilter(Transform):
    """Only data of policies that are not too old.

    Args:
        current_version: of the policy; a number, or a function that returns it.
        max_policy_lag: how many versions older a policy may be, >= 0.
        policy_version_key: of the version of the policy that each row comes from.
        strict: raise where that is missing; else everything passes.

    Raises:
        ValueError: `max_policy_lag` is negative.
        KeyError: the version is missing.
    """

    def __init__(
        self,
        current_version: int | Callable[[], int],
        max_policy_lag: int,
        *,
        policy_version_key: NestedKey = "policy_version",
        strict: bool = False,
    ) -> None:
        super().__init__()
        if max_policy_lag < 0:
            raise ValueError(f"max_policy_lag is a number of versions, at least 0; got {max_policy_lag}.")
        self.current_version = current_version
        self.max_policy_lag = max_policy_lag
        self.policy_version_key = policy_version_key
        self.strict = strict

    def _inv_call(self, tensordict: Any) -> Any:
        young = self.forward(tensordict)
        return young if young.batch_size.numel() else None

    def forward(self, tensordict: Any) -> Any:
        """The rows that are young enough; only these are added to a buffer, and drawn from it.

        Args:
            tensordict: (rows, ...); a row of several steps is as old as its oldest.
        """
        version = tensordict.get(self.policy_version_key, None)
        if version is None or not isinstance(version, Tensor):
            if self.strict:
                raise self._missing(self.policy_version_key, tensordict)
            return tensordict
        now = self.current_version() if callable(self.current_version) else self.current_version
        young = (now - version) <= self.max_policy_lag
        young = young.reshape(tensordict.batch_size[0], -1).all(-1)
        return tensordict if bool(young.all()) else tensordict[young]
