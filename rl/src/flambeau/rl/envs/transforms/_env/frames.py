"""Several steps of an environment as one, and steps before the first."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.envs._ends import spread
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["FrameSkipTransform", "NoopResetEnv"]


class FrameSkipTransform(Transform):
    """Every action is taken several times, and the rewards are added up; episodes that end in between stay ended.

    Args:
        frame_skip: how many times, > 0.

    Raises:
        ValueError: not even once.
    """

    def __init__(self, frame_skip: int = 1) -> None:
        super().__init__()
        if frame_skip < 1:
            raise ValueError(f"frame_skip is how often an action is taken, at least once; got {frame_skip}.")
        self.frame_skip = frame_skip

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        parent = self.parent
        if parent is None:
            raise self._homeless()
        base_env, before = parent.base_env, self._transforms_before()
        ends = [keys[0] for keys in parent._outer_ends()]
        rewards = {key: next_tensordict.get(key) for key in parent.reward_keys}
        for _ in range(self.frame_skip - 1):
            over = [next_tensordict.get(key) for key in ends]
            if all(bool(end.all()) for end in over):
                break
            tensordict = self._moved_on(base_env, tensordict, next_tensordict)
            following = base_env._followed(tensordict)
            for each in before:
                following = each._step(tensordict, following)
            if len(over) == 1 and bool(over[0].any()):
                following = _kept_where(over[0], next_tensordict, following)
                rewards = {
                    key: torch.where(spread(over[0], sums), sums, sums + following.get(key))
                    for key, sums in rewards.items()
                }
            else:
                rewards = {key: sums + following.get(key) for key, sums in rewards.items()}
            next_tensordict = following
        for key, sums in rewards.items():
            next_tensordict.set(key, sums)
        return next_tensordict

    @staticmethod
    def _moved_on(base_env: Any, tensordict: Any, following: Any) -> Any:
        """What the environment takes for the next frame: the same action, from where it is now."""
        inner = tensordict.copy()
        inner.set("next", following.exclude(*base_env.reward_keys))
        out = base_env.step_mdp(inner)
        actions = base_env.action_keys
        return out.update(tensordict.select(*actions))

    def _homeless(self) -> RuntimeError:
        return RuntimeError("FrameSkipTransform works in environments only, where there are steps to repeat.")

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no steps to repeat.

        Raises:
            RuntimeError: always.
        """
        raise self._homeless()


def _kept_where(over: Any, before: Any, following: Any) -> Any:
    """What was before where an episode is over, and what followed elsewhere."""
    out = following.copy()
    for key, value in following.items(True, True):
        old = before.get(key, None)
        if isinstance(value, torch.Tensor) and old is not None:
            out.set(key, torch.where(spread(over, value), old, value))
    return out


class NoopResetEnv(Transform):
    """Random steps before the first of an episode, so that episodes begin in many places.

    Args:
        noops: how many steps, or with `random` at most so many.
        random: draw their number.

    Raises:
        ValueError: the environment is a batch.
        RuntimeError: no episode is long enough, in 100 tries.
    """

    def __init__(self, noops: int = 30, random: bool = True) -> None:
        super().__init__()
        self.noops = noops
        self.random = random

    @property
    def base_env(self) -> Any:
        """The environment that takes the steps."""
        return self.parent

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        parent = self.parent
        if parent.batch_size:
            raise ValueError(
                "NoopResetEnv is for single environments, whose episodes are reset as a whole; this one has the batch "
                f"size {tuple(parent.batch_size)}. Put it into each environment of the batch."
            )
        noops = self.noops
        if self.random:
            noops = int(torch.randint(noops, (1,)).item()) if noops > 0 else 0
        for _ in range(_TRIES):
            state = tensordict_reset
            for taken in range(noops):
                step = parent.rand_step(state.copy() if taken else state)
                state = parent.step_mdp(step)
                if parent._ended(state):
                    break
            else:
                return state.exclude(*parent.action_keys)
            tensordict_reset = parent.reset()
        raise RuntimeError(f"No episode of {_TRIES} lasted {noops} random steps: choose fewer noops, now {self.noops}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(noops={self.noops}, random={self.random})"


_TRIES = 100
