"""What a policy gets: the sums of rewards of whole episodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.runs.environments import make_env

__all__ = ["episode_returns"]

_LONGEST = 100_000


@torch.no_grad()
def episode_returns(env_id: str, policy: Any, *, episodes: int, seed: int, most_at_once: int = 100) -> Tensor:
    """The sums of rewards of episodes, the policy acting without exploring.

    The first episodes of so many environments count: those that end soon count as much as the long ones.

    Args:
        env_id: the environment's name.
        policy: writes actions into tensordicts.
        episodes: how many.
        seed: of the episodes.
        most_at_once: environments at once.

    Returns:
        (episodes,), float64.
    """
    found: list[Tensor] = []
    was_training = getattr(policy, "training", False)
    if isinstance(policy, torch.nn.Module):
        policy.eval()
    try:
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            while sum(map(len, found)) < episodes:
                count = min(most_at_once, episodes - sum(map(len, found)))
                found.append(_first_episodes(make_env(env_id, count, seed + len(found)), policy, count))
    finally:
        if isinstance(policy, torch.nn.Module):
            policy.train(was_training)
    return torch.cat(found)


def _first_episodes(env: Any, policy: Any, count: int) -> Tensor:
    returns = torch.zeros(count, dtype=torch.float64)
    running = torch.ones(count, dtype=torch.bool)
    root = env.reset()
    for _ in range(_LONGEST):
        step, root = env.step_and_maybe_reset(policy(root))
        following = step.get("next")
        returns += following.get("reward").reshape(count).double() * running
        running &= ~following.get("done").reshape(count)
        if not running.any():
            break
    if not env.is_closed:
        env.close(raise_if_closed=False)
    return returns
