"""What actors are trained on in world models: steps that are imagined, and their returns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import InteractionType, set_interaction_type
from flambeau.rl.objectives.utils import hold_out_net

__all__ = ["imagined", "over_time", "returns_of"]


def imagined(env: Any, actor: Any, start: TensorDictBase, steps: int) -> TensorDictBase:
    """What an actor does, drawn at random, in an environment that is held constant; gradients pass through its steps.

    Args:
        env: a world model's.
        actor: a policy.
        start: states, `batch`.
        steps: how many.

    Returns:
        (*batch, steps).
    """
    known = start.copy().update(env.full_done_spec.zero(start.shape[: start.ndim - len(env.batch_size)]))
    with hold_out_net(env), set_interaction_type(InteractionType.RANDOM):
        rollout: TensorDictBase = env.rollout(
            max_steps=steps, policy=actor, auto_reset=False, tensordict=known, break_when_any_done=False,
            return_contiguous=True,
        )  # fmt: skip
    return rollout


def over_time(gamma: Tensor, like: Tensor) -> Tensor:
    """How much each step counts, 1, gamma, gamma^2, ..., without gradients: (time, 1)."""
    steps = torch.arange(like.shape[-2], dtype=like.dtype, device=like.device)
    return gamma.detach().to(like) ** steps.unsqueeze(-1)


def returns_of(estimator: Any, reward: Tensor, value: Tensor, terminated: Tensor | None = None) -> Tensor:
    """Returns of steps that do not end, given the values of the states after them; all (*batch, time, 1)."""
    keys = estimator.tensor_keys
    going = torch.zeros_like(reward, dtype=torch.bool) if terminated is None else terminated
    following = {keys.reward: reward, keys.value: value, keys.done: going, keys.terminated: going}
    data = TensorDict({"next": TensorDict(following, reward.shape[:-1])}, reward.shape[:-1])
    return estimator.value_estimate(data)  # type: ignore[no-any-return]
