"""Generalized advantages of trajectories."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rl.objectives.value._arguments import check_shapes, ends_of, number_of, time_of, widened
from flambeau.rl.ops._layout import three_dimensional
from flambeau.rl.ops.generalized_advantage import generalized_advantage
from flambeau.rl.ops.recursion import discounted_sum


def generalized_advantage_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor,
    done: Tensor, terminated: Tensor | None = None, *, time_dim: int = -2,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Generalized advantages (Schulman et al., 2016, arXiv:1506.02438), and the returns that belong to them.

    With `delta[t] = reward[t] + gamma * next_state_value[t] * (1 - terminated[t]) - state_value[t]`, advantages are
    `delta[t] + gamma * lmbda * (1 - done[t]) * advantage[t + 1]`, and returns are advantages plus values.

    Args:
        gamma: discount, in [0, 1], a number or a tensor that broadcasts to the others' shape.
        lmbda: how much of later steps counts, alike.
        state_value: `(*batch, time, *features)`, what is expected from the state before each step.
        next_state_value: the same shape, from the state after it; it is not read where the step is terminated.
        reward: the same shape.
        done: the same shape, bool: the step is its trajectory's last.
        terminated: the same; `done` where it is not given.
        time_dim: which dimension is time.

    Returns:
        Advantages and returns, both of that shape.

    Raises:
        RuntimeError: shapes that differ, or a dimension that is none.
        TypeError: flags that are not bool.

    Example:
        >>> one, no = torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.bool)
        >>> generalized_advantage_estimate(0.5, 1.0, one, one, one, no)[0].flatten()
        tensor([0.7500, 0.5000])
    """
    done, terminated = ends_of(done, terminated)
    check_shapes(
        state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated
    )
    time = time_of(reward, time_dim)
    (gamma, lmbda, state_value, next_state_value, reward), dtype = widened(
        gamma, lmbda, state_value, next_state_value, reward
    )
    fused = _fused(gamma, lmbda, (reward, state_value, next_state_value, done, terminated), time)
    if fused is not None:
        advantage, target = fused
    else:
        delta = reward + torch.where(terminated, 0, gamma * next_state_value) - state_value
        advantage = discounted_sum(delta, gamma * lmbda * (~done), time)
        target = advantage + state_value
    return advantage.to(dtype), target.to(dtype)


def _fused(
    gamma: float | Tensor, lmbda: float | Tensor, given: tuple[Tensor, ...], time: int
) -> tuple[Tensor, Tensor] | None:
    """Advantages and returns in one pass over memory; None where the kernel does not take this."""
    dtypes = {tensor.dtype for tensor in given[:3]}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
        return None
    discount, decay = number_of(gamma), number_of(lmbda)
    if discount is None or decay is None:
        return None
    reward, value, following, done, terminated = (three_dimensional(one, time) for one in given)
    results = generalized_advantage(reward, value, following, done, terminated, discount, decay)
    return results[0].view(given[0].shape), results[1].view(given[0].shape)


def vec_generalized_advantage_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor,
    done: Tensor, terminated: Tensor | None = None, *, time_dim: int = -2,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same as `generalized_advantage_estimate`, which needs no other form to be fast."""
    return generalized_advantage_estimate(
        gamma, lmbda, state_value, next_state_value, reward, done, terminated, time_dim=time_dim
    )
