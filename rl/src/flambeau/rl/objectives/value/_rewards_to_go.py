"""Sums of rewards alone."""

from __future__ import annotations

from torch import Tensor

from flambeau.rl.objectives.value._arguments import ends_of, time_of, widened
from flambeau.rl.ops.recursion import discounted_sum


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
    done, _ = ends_of(done, None)
    (reward, gamma), dtype = widened(reward, gamma)
    return discounted_sum(reward, gamma * (~done), time_of(reward, time_dim)).to(dtype)
