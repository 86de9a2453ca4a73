"""What the steps of another policy say about this one."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rl.objectives.value._arguments import check_shapes, ends_of, time_of, widened
from flambeau.rl.ops.recursion import discounted_sum


def vtrace_advantage_estimate(
    gamma: float | Tensor, log_pi: Tensor, log_mu: Tensor, state_value: Tensor, next_state_value: Tensor,
    reward: Tensor, done: Tensor, terminated: Tensor | None = None, rho_thresh: float | Tensor = 1.0,
    c_thresh: float | Tensor = 1.0, time_dim: int = -2,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """V-trace (Espeholt et al., 2018, arXiv:1802.01561, section 4.1): what another policy's steps say about this one.

    Args:
        gamma: discount, in [0, 1], a number or a tensor that broadcasts.
        log_pi: log-probabilities of the actions under the policy, broadcasting to the others.
        log_mu: the same under the policy that acted.
        state_value: `(*batch, time, *features)`.
        next_state_value: the same shape.
        reward: the same shape.
        done: the same shape, bool: the step is its trajectory's last.
        terminated: the same: nothing follows; `done` where it is not given.
        rho_thresh: the most that a step's own ratio of probabilities counts.
        c_thresh: the most that it lets through of what follows.
        time_dim: which dimension is time.

    Returns:
        Advantages and returns, both of that shape.

    Raises:
        RuntimeError: shapes that differ, or a dimension that is none.
        TypeError: flags that are not bool.
    """
    done, terminated = ends_of(done, terminated)
    check_shapes(
        state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated
    )
    time = time_of(reward, time_dim)
    (gamma, log_pi, log_mu, state_value, next_state_value, reward), dtype = widened(
        gamma, log_pi, log_mu, state_value, next_state_value, reward
    )
    ratio = (log_pi - log_mu).exp()
    rho, passed = (ratio.clamp(max=_limit(limit, ratio)) for limit in (rho_thresh, c_thresh))
    discount = gamma * (~terminated)
    delta = rho * (reward + discount * next_state_value - state_value)
    target = discounted_sum(delta, discount * (~done) * passed, time) + state_value
    steps = target.shape[time]
    following = torch.cat([target, next_state_value.narrow(time, max(steps - 1, 0), min(steps, 1))], time)
    following = torch.where(done, next_state_value, following.narrow(time, min(steps, 1), steps))
    advantage = rho * (reward + discount * following - state_value)
    return advantage.to(dtype), target.to(dtype)


def _limit(limit: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(limit, device=like.device, dtype=like.dtype)
