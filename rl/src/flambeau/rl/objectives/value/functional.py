"""Returns and advantages of trajectories, as functions of tensors.

Tensors are `(*batch, time, *features)`; `time_dim` says which dimension is time. A step that is `terminated` has
nothing to expect after it, one that is `done` is its trajectory's last. Everything is linear in time and comes from one
recursion (`flambeau.rl.ops.recursion`), so the forms called `vec_` and the plain ones are the same computation, for
any discounts; half precision is computed in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.ops._layout import three_dimensional, transformed
from flambeau.rl.ops.generalized_advantage import generalized_advantage
from flambeau.rl.ops.recursion import discounted_sum

__all__ = [
    "generalized_advantage_estimate",
    "reward2go",
    "td0_advantage_estimate",
    "td0_return_estimate",
    "td1_advantage_estimate",
    "td1_return_estimate",
    "td_lambda_advantage_estimate",
    "td_lambda_return_estimate",
    "vec_generalized_advantage_estimate",
    "vec_td1_advantage_estimate",
    "vec_td1_return_estimate",
    "vec_td_lambda_advantage_estimate",
    "vec_td_lambda_return_estimate",
    "vtrace_advantage_estimate",
]

SHAPE_ERR = "Values, rewards and flags of ends have to be of one shape."
_HALVES = (torch.float16, torch.bfloat16)


# --- what all of them check and compute with ------------------------------------------------------


def _ends(done: Tensor | None, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
    """Both flags; each is the other where that alone is given."""
    done = terminated if done is None else done
    terminated = done if terminated is None else terminated
    if done is None or terminated is None:
        raise TypeError("Neither `done` nor `terminated` is given; pass at least one of them.")
    for name, flag in (("done", done), ("terminated", terminated)):
        if flag.dtype != torch.bool:
            raise TypeError(f"`{name}` has dtype {flag.dtype}, expected torch.bool; convert it by `{name}.bool()`.")
    return done, terminated


def _check(**tensors: Tensor) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise RuntimeError(f"{SHAPE_ERR} Got {listed}; reshape or expand them.")


def _time(tensor: Tensor, time_dim: int) -> int:
    """Which dimension is time, not negative."""
    if not -tensor.dim() <= time_dim < tensor.dim():
        raise RuntimeError(
            f"time_dim={time_dim} is no dimension of tensors of shape {tuple(tensor.shape)}; expected one from "
            f"{-tensor.dim()} to {tensor.dim() - 1}."
        )
    return time_dim % tensor.dim()


def _changes(factor: float | Tensor) -> bool:
    """Whether a discount may differ from step to step."""
    return isinstance(factor, Tensor) and factor.numel() > 1


def _number(factor: float | Tensor) -> float | None:
    """A discount as a plain number where that costs nothing: neither a wait for a device nor a gradient."""
    if not isinstance(factor, Tensor):
        return float(factor)
    free = factor.device.type == "cpu" and factor.numel() == 1 and not factor.requires_grad
    return None if not free or torch.compiler.is_compiling() or transformed() else factor.item()


def _widened(*given: Any) -> tuple[list[Any], torch.dtype]:
    """Tensors in the dtype to compute in, and the dtype of the result."""
    floats = [one for one in given if isinstance(one, Tensor) and one.is_floating_point()]
    shaped = [one for one in floats if one.dim()] or floats
    dtype = shaped[0].dtype if shaped else torch.get_default_dtype()
    for one in shaped[1:]:
        dtype = torch.promote_types(dtype, one.dtype)
    if dtype not in _HALVES:
        return list(given), dtype
    return [one.float() if isinstance(one, Tensor) and one.dtype != torch.bool else one for one in given], dtype


def _last(like: Tensor, time: int) -> Tensor:
    """Whether a step is the last one, broadcasting to `like`."""
    shape = [1] * like.dim()
    shape[time] = like.shape[time]
    steps = torch.arange(like.shape[time], device=like.device)
    return (steps == like.shape[time] - 1).view(shape)


# --- one step -------------------------------------------------------------------------------------


def td0_return_estimate(
    gamma: float | Tensor, next_state_value: Tensor, reward: Tensor, terminated: Tensor | None = None, *,
    done: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """What a step brought, and what the state after it is worth: `reward + gamma * next_state_value`.

    Args:
        gamma: discount, in [0, 1], a number or a tensor that broadcasts.
        next_state_value: any shape.
        reward: the same shape.
        terminated: the same shape, bool: the state after the step is worth nothing.
        done: what takes the place of `terminated` where that is not given.

    Returns:
        The same shape.

    Raises:
        RuntimeError: shapes that differ.
        TypeError: no flag is given, or one that is not bool.

    Example:
        >>> one, no = torch.ones(2, 1), torch.tensor([[False], [True]])
        >>> td0_return_estimate(0.9, one, one, no).flatten()
        tensor([1.9000, 1.0000])
    """
    _, terminated = _ends(done, terminated)
    _check(next_state_value=next_state_value, reward=reward, terminated=terminated)
    return reward + gamma * (~terminated) * next_state_value


def td0_advantage_estimate(
    gamma: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How much more a step brought than the value of its state said, looking one step ahead.

    Args:
        gamma: discount, a number or a tensor that broadcasts.
        state_value: any shape.
        next_state_value: the same shape.
        reward: the same shape.
        done: the same shape, bool.
        terminated: the same; `done` where it is not given.

    Returns:
        The same shape.

    Raises:
        RuntimeError: shapes that differ.
        TypeError: flags that are not bool.
    """
    done, terminated = _ends(done, terminated)
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated)
    return td0_return_estimate(gamma, next_state_value, reward, terminated) - state_value


# --- generalized advantages -----------------------------------------------------------------------


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
    done, terminated = _ends(done, terminated)
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated)
    time = _time(reward, time_dim)
    (gamma, lmbda, state_value, next_state_value, reward), dtype = _widened(
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
    discount, decay = _number(gamma), _number(lmbda)
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


# --- returns of several steps ---------------------------------------------------------------------


def _returns(
    gamma: float | Tensor, lmbda: float | Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor,
    time: int,
) -> Tensor:  # fmt: skip
    """TD(lambda), with each step discounted by its own factors.

    `return[t] = reward[t] + gamma * ((1 - carry) * following[t] + carry * return[t + 1])`, where nothing is carried
    over an end.
    """
    carry = lmbda * (~(done | _last(reward, time)))
    expected = torch.where(terminated, 0, gamma * (1 - carry) * following)
    return discounted_sum(reward + expected, gamma * carry, time)


def _monte_carlo(
    gamma: float | Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
) -> Tensor:
    """TD(1): values are read at the ends alone."""
    ends = done | _last(reward, time)
    expected = torch.where(ends & ~terminated, gamma * following, 0)
    return discounted_sum(reward + expected, gamma * (~ends), time)


def _multistep(
    gamma: Any, lmbda: Any, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor | None,
    rolling_gamma: bool | None, time_dim: int, *, strict: bool,
) -> Tensor:  # fmt: skip
    """Returns of TD(lambda), or of TD(1) where `lmbda` is None."""
    done, terminated = _ends(done, terminated)
    _check(next_state_value=following, reward=reward, done=done, terminated=terminated)
    time = _time(reward, time_dim)
    changing = _changes(gamma) or _changes(lmbda)
    (gamma, lmbda, following, reward), dtype = _widened(gamma, lmbda, following, reward)
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
        if not _changes(factor):
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
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = td1_return_estimate(
        gamma, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )  # fmt: skip
    return returns - state_value


def vec_td1_advantage_estimate(
    gamma: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor, done: Tensor,
    terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`vec_td1_return_estimate` less the values of the states, which have the same shape."""
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
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
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


def vec_td_lambda_advantage_estimate(
    gamma: float | Tensor, lmbda: float | Tensor, state_value: Tensor, next_state_value: Tensor, reward: Tensor,
    done: Tensor, terminated: Tensor | None = None, rolling_gamma: bool | None = None, time_dim: int = -2,
) -> Tensor:  # fmt: skip
    """`vec_td_lambda_return_estimate` less the values of the states, which have the same shape."""
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    returns = vec_td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


# --- off the policy; rewards alone ----------------------------------------------------------------


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
    done, terminated = _ends(done, terminated)
    _check(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated)
    time = _time(reward, time_dim)
    (gamma, log_pi, log_mu, state_value, next_state_value, reward), dtype = _widened(
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


def reward2go(reward: Tensor, done: Tensor, gamma: float | Tensor, *, time_dim: int = -2) -> Tensor:
    """The discounted sum of rewards from each step to its trajectory's end.

    Args:
        reward: `(*batch, time, *features)`.
        done: the same shape, bool: the step is its trajectory's last.
        gamma: discount, a number or a tensor that broadcasts.
        time_dim: which dimension is time.

    Returns:
        The same shape.

    Raises:
        ValueError: shapes that differ.
        RuntimeError: a dimension that is none.
        TypeError: flags that are not bool.

    Example:
        >>> reward2go(torch.ones(1, 3, 1), torch.tensor([[[False], [True], [False]]]), 0.9).flatten()
        tensor([1.9000, 1.0000, 1.0000])
    """
    if reward.shape != done.shape:
        raise ValueError(
            f"`reward` and `done` must have one shape, got {tuple(reward.shape)} and {tuple(done.shape)}; expand one."
        )
    done, _ = _ends(done, None)
    (reward, gamma), dtype = _widened(reward, gamma)
    return discounted_sum(reward, gamma * (~done), _time(reward, time_dim)).to(dtype)
