"""Returns of several steps, and the advantages that they give."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.objectives.value._arguments import changes, check_shapes, ends_of, last_step, time_of, widened
from flambeau.rl.ops.recursion import discounted_sum


def _returns(
    gamma: float | Tensor, lmbda: float | Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor,
    time: int,
) -> Tensor:  # fmt: skip
    """TD(lambda), with each step discounted by its own factors.

    `return[t] = reward[t] + gamma * ((1 - carry) * following[t] + carry * return[t + 1])`, where nothing is carried
    over an end.
    """
    carry = lmbda * (~(done | last_step(reward, time)))
    expected = torch.where(terminated, 0, gamma * (1 - carry) * following)
    return discounted_sum(reward + expected, gamma * carry, time)


def _monte_carlo(
    gamma: float | Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
) -> Tensor:
    """TD(1): values are read at the ends alone."""
    ends = done | last_step(reward, time)
    expected = torch.where(ends & ~terminated, gamma * following, 0)
    return discounted_sum(reward + expected, gamma * (~ends), time)


def _multistep(
    gamma: Any, lmbda: Any, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor | None,
    rolling_gamma: bool | None, time_dim: int, *, strict: bool,
) -> Tensor:  # fmt: skip
    """Returns of TD(lambda), or of TD(1) where `lmbda` is None."""
    done, terminated = ends_of(done, terminated)
    check_shapes(next_state_value=following, reward=reward, done=done, terminated=terminated)
    time = time_of(reward, time_dim)
    changing = changes(gamma) or changes(lmbda)
    (gamma, lmbda, following, reward), dtype = widened(gamma, lmbda, following, reward)
    if rolling_gamma is not False or not (changing or strict):
        result = _from_each_on(gamma, lmbda, following, reward, done, terminated, time)
    elif not changing:
        which = "gamma" if lmbda is None else "gamma or lambda"
        raise RuntimeError(
            f"rolling_gamma=False means something only where {which} differs from step to step; leave it out."
        )
    elif not strict:
        raise NotImplementedError(
            "The vectorized form takes discounts that change with time only with rolling_gamma=True; use the form "
            "without `vec_`, which has both."
        )
    else:
        result = _constant_from_each_on(gamma, lmbda, following, reward, done, terminated, time)
    return result.to(dtype)


def _from_each_on(
    gamma: Any, lmbda: Any, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
) -> Tensor:
    if lmbda is None:
        return _monte_carlo(gamma, following, reward, done, terminated, time)
    return _returns(gamma, lmbda, following, reward, done, terminated, time)


def _constant_from_each_on(gamma: Any, lmbda: Any, *given: Any) -> Tensor:
    """Each step's return with that step's factors for all that follows: as many recursions as steps."""
    time = given[-1]
    reward: Tensor = given[1]

    def at(factor: Any, step: int) -> Any:
        if not changes(factor):
            return factor
        return factor.expand(reward.shape).narrow(time, step, 1)

    if lmbda is None:  # Upstream: in this form the state after the last step counts only where the step is done.
        following, _, done, *_ = given
        given = (torch.where(done, following, 0), *given[1:])
    steps = reward.shape[time]
    found = []
    for step in range(steps):
        a, b, c, d = (one.narrow(time, step, steps - step) for one in given[:-1])
        found.append(_from_each_on(at(gamma, step), at(lmbda, step), a, b, c, d, time).narrow(time, 0, 1))
    return torch.cat(found, time) if found else reward.clone()


def td1_return_estimate(
    gamma: float | Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor, terminated: Tensor | None = None,
    rolling_gamma: bool | None = None, *, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """The discounted sum of rewards to the trajectory's end, and what its last state is worth.

    Args:
        gamma: discount, in [0, 1], a number or a tensor that broadcasts.
        next_state_value: `(*batch, time, *features)`; it is read at the ends of trajectories alone.
        reward: the same shape.
        done: the same shape, bool: the step is its trajectory's last.
        terminated: the same: nothing follows; `done` where it is not given.
        rolling_gamma: with a discount for each step, True (the default) lets every step be discounted by its own,
            False all that follows a step by that step's. That takes time quadratic in the number of steps.
        time_dim: which dimension is time.

    Returns:
        The same shape.

    Raises:
        RuntimeError: shapes that differ, a dimension that is none, or rolling_gamma=False with one discount.
        TypeError: flags that are not bool.

    Example:
        >>> one, no = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.bool)
        >>> td1_return_estimate(0.5, one, one, no).flatten()
        tensor([1.8750, 1.7500, 1.5000])
    """
    return _multistep(
        gamma, None, next_state_value, reward, done, terminated, rolling_gamma, time_dim, strict=True
    )  # fmt: skip


def vec_td1_return_estimate(
    gamma: float | Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor, terminated: Tensor | None = None,
    rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """The same as `td1_return_estimate`, but for discounts of each step without `rolling_gamma`.

    Raises:
        NotImplementedError: those, as upstream.
    """
    return _multistep(
        gamma, None, next_state_value, reward, done, terminated, rolling_gamma, time_dim, strict=False
    )  # fmt: skip


def td1_advantage_estimate(
    gamma: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`td1_return_estimate` less the values of the states, which have the same shape."""
    check_shapes(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = td1_return_estimate(
        gamma, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )  # fmt: skip
    return returns - state_value


def vec_td1_advantage_estimate(
    gamma: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`vec_td1_return_estimate` less the values of the states, which have the same shape."""
    check_shapes(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = vec_td1_return_estimate(
        gamma, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )  # fmt: skip
    return returns - state_value


def td_lambda_return_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None, rolling_gamma: bool | None = None, *, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """The mean of returns of all lengths, weighed by powers of lambda (Sutton, 1988).

    `return[t] = reward[t] + gamma * ((1 - lmbda) * next_state_value[t] + lmbda * return[t + 1])`, and
    `reward[t] + gamma * next_state_value[t]` at the end of a trajectory.

    Args:
        gamma: discount, in [0, 1], a number or a tensor that broadcasts.
        lmbda: how much of later steps counts, alike.
        next_state_value: `(*batch, time, *features)`.
        reward: the same shape.
        done: the same shape, bool: the step is its trajectory's last.
        terminated: the same: nothing follows; `done` where it is not given.
        rolling_gamma: with factors for each step, True (the default) lets every step be discounted by its own, False
            all that follows a step by that step's. That takes time quadratic in the number of steps.
        time_dim: which dimension is time.

    Returns:
        The same shape.

    Raises:
        RuntimeError: shapes that differ, a dimension that is none, or rolling_gamma=False with factors that are the
            same at all steps.
        TypeError: flags that are not bool.

    Example:
        >>> one, no = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.bool)
        >>> td_lambda_return_estimate(0.5, 0.0, one, one, no).flatten()
        tensor([1.5000, 1.5000, 1.5000])
    """
    return _multistep(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim, strict=True
    )  # fmt: skip


def vec_td_lambda_return_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None, rolling_gamma: bool | None = None, *, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """The same as `td_lambda_return_estimate`, but for factors of each step without `rolling_gamma`.

    Raises:
        NotImplementedError: those, as upstream.
    """
    return _multistep(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim, strict=False
    )  # fmt: skip


def td_lambda_advantage_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor,
    done: Tensor, terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`td_lambda_return_estimate` less the values of the states, which have the same shape."""
    check_shapes(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


def vec_td_lambda_advantage_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor,
    done: Tensor, terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`vec_td_lambda_return_estimate` less the values of the states, which have the same shape."""
    check_shapes(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = vec_td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value
