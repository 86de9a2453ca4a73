"""Planning by the cross-entropy method (Botev et al. 2013)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.planners.common import MPCPlannerBase, best_of, check_counts

__all__ = ["CEMPlanner"]


class CEMPlanner(MPCPlannerBase):
    """Draw sequences of actions, keep those of highest return, and draw again from what they have in common.

    Args:
        env: a model of the environment, see `MPCPlannerBase`.
        planning_horizon: length of the sequences.
        optim_steps: how often it draws.
        num_candidates: how many it draws.
        top_k: how many it keeps.
        reward_key: of the rewards.
        action_key: where actions go.

    Raises:
        ValueError: a number is not positive, or `top_k` is more than `num_candidates`.
    """

    def __init__(
        self, env: Any, planning_horizon: int, optim_steps: int, num_candidates: int, top_k: int,
        reward_key: Any = ("next", "reward"), action_key: Any = "action",
    ) -> None:  # fmt: skip
        super().__init__(env, action_key)
        check_counts(
            "CEMPlanner", planning_horizon=planning_horizon, optim_steps=optim_steps, num_candidates=num_candidates,
            top_k=top_k,
        )  # fmt: skip
        self.planning_horizon, self.optim_steps = planning_horizon, optim_steps
        self.num_candidates, self.top_k, self.reward_key = num_candidates, top_k, reward_key

    @torch.no_grad()
    def planning(self, tensordict: Any) -> Tensor:
        """The first action of the mean of the best sequences."""
        batch, dims = tensordict.batch_size, tensordict.ndim
        mean, std = self._candidates(batch, self.num_candidates, self.planning_horizon, tensordict)
        for _ in range(self.optim_steps):
            shape = [*batch, self.num_candidates, *mean.shape[dims + 1 :]]
            noise = torch.randn(shape, dtype=mean.dtype, device=mean.device)
            actions = self.action_spec.project(mean + std * noise)
            rewards = self._rewards(self._imagined(tensordict, actions), self.reward_key)
            best, _ = best_of(rewards.sum(dims + 1, keepdim=True), actions, self.top_k, dims)
            mean, std = best.mean(dims, keepdim=True), best.std(dims, keepdim=True)
        action: Tensor = self.action_spec.project(mean.select(dims, 0).select(dims, 0))
        return action
