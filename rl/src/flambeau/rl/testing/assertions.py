"""What must hold of rollouts."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.envs._keys import NestedKey

__all__ = ["rand_reset", "rollout_consistency_assertion"]


def rand_reset(env: Any) -> TensorDictBase:
    """A tensordict with random masks of what to reset, at every reset key of an environment.

    Args:
        env: the environment.
    """
    data = TensorDict({}, env.batch_size, device=env.device)
    for key, ends in zip(env.reset_keys, env.done_keys_groups, strict=True):
        data.set(key, torch.rand(env.full_done_spec[ends[0]].shape) > 0.5)
    return data


def rollout_consistency_assertion(
    rollout: Any, *, done_key: NestedKey = "done", observation_key: NestedKey = "observation",
    done_strict: bool = False,
) -> None:  # fmt: skip
    """Assert that observations of a step are those that the step before gave, except across ends.

    Args:
        rollout: with time as its last dimension.
        done_key: of ends.
        observation_key: of observations.
        done_strict: an episode must end, and the observations of the next one differ.

    Raises:
        AssertionError: they are not.
    """
    done = rollout[..., :-1].get(("next", *([done_key] if isinstance(done_key, str) else done_key))).squeeze(-1)
    before = rollout[..., :-1].get("next").get(observation_key)
    after = rollout[..., 1:].get(observation_key)
    torch.testing.assert_close(before[~done], after[~done])
    if done_strict and not done.any():
        raise AssertionError("No episode ended in the rollout.")
    if done.any() and torch.equal(before[done], after[done]):
        raise AssertionError("Observations go on across the end of an episode.")
