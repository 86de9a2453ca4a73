"""What an evaluation's actor does once torch may be imported."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.weight_update._weights import load_weights


class RayEvalRuntime:
    """Follows episodes of one environment and policy.

    Args:
        env: the environment.
        policy: the policy.
    """

    def __init__(self, env: Any, policy: Any) -> None:
        self.env, self.policy = env, policy

    def eval(
        self, weights: Any, max_steps: int, reward_keys: Any, deterministic: bool, break_when_any_done: bool
    ) -> dict[str, Any]:
        """Follow an episode with new weights.

        Args:
            weights: of the policy; None for those it has.
            max_steps: steps at most.
            reward_keys: the key of rewards.
            deterministic: act without drawing.
            break_when_any_done: end with the first environment of a batch.

        Returns:
            "reward", the mean of the episodes' sums of rewards, and "frames", (time, height, width, 3), uint8; None
            where the environment draws nothing.
        """
        if weights is not None:
            load_weights(self.policy, weights)
        frames: list[Any] = []

        def draw(env: Any, _: Any) -> None:
            frame = _drawn(env)
            if frame is not None:
                frames.append(frame)

        kind = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        with torch.no_grad(), set_exploration_type(kind):
            rollout = self.env.rollout(
                max_steps, self.policy, callback=draw, auto_cast_to_device=True, break_when_any_done=break_when_any_done
            )
        rewards = rollout.get(tuple(reward_keys) if not isinstance(reward_keys, str) else reward_keys)
        total = rewards.sum(dim=len(self.env.batch_size)).float().mean()
        return {"reward": float(total), "frames": torch.stack(frames) if frames else None}

    def shutdown(self) -> None:
        """Close the environment."""
        self.env.close(raise_if_closed=False)


def _drawn(env: Any) -> torch.Tensor | None:
    """A picture of the environment; None where it draws none."""
    found = None
    with suppress(AttributeError, NotImplementedError, TypeError):
        found = env.render()
    if found is None or (isinstance(found, (list, tuple)) and not found):
        return None
    return torch.as_tensor(found[0] if isinstance(found, (list, tuple)) else found).to(torch.uint8).cpu()
