"""Returns and advantages that look one step ahead."""

from __future__ import annotations

from torch import Tensor

from flambeau.rl.objectives.value._arguments import check_shapes, ends_of


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
    _, terminated = ends_of(done, terminated)
    check_shapes(next_state_value=next_state_value, reward=reward, terminated=terminated)
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
    done, terminated = ends_of(done, terminated)
    check_shapes(
        state_value=state_value, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated
    )
    return td0_return_estimate(gamma, next_state_value, reward, terminated) - state_value
