"""Planning by model predictive path integrals (Williams et al. 2015, arXiv:1509.01149; arXiv:2203.04955)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.planners.common import MPCPlannerBase, best_of, check_counts

__all__ = ["MPPIPlanner"]


class MPPIPlanner(MPCPlannerBase):
    """Draw sequences of actions, weight the best of them by their advantage, and draw again around their mean.

    Args:
        env: a model of the environment, see `MPCPlannerBase`.
        advantage_module: writes `advantage` (*batch, time, 1), such as a value estimator.
        temperature: the weight of a sequence is exp(temperature * (advantage - largest advantage)).
        planning_horizon, optim_steps, num_candidates, top_k, reward_key, action_key: see `CEMPlanner`.

    Raises:
        ValueError: a number is not positive, or `top_k` is more than `num_candidates`.
    """

    temperature: Tensor

    def __init__(
        self, env: Any, advantage_module: nn.Module, temperature: float, planning_horizon: int, optim_steps: int,
        num_candidates: int, top_k: int, reward_key: Any = ("next", "reward"), action_key: Any = "action",
    ) -> None:  # fmt: skip
        super().__init__(env, action_key)
        check_counts(
            "MPPIPlanner", planning_horizon=planning_horizon, optim_steps=optim_steps, num_candidates=num_candidates,
            top_k=top_k,
        )  # fmt: skip
        self.advantage_module = advantage_module
        self.planning_horizon, self.optim_steps = planning_horizon, optim_steps
        self.num_candidates, self.top_k, self.reward_key = num_candidates, top_k, reward_key
        self.register_buffer("temperature", torch.tensor(temperature))

    @torch.no_grad()
    def planning(self, tensordict: Any) -> Tensor:
        """The first action of the weighted mean of the best sequences."""
        batch, dims = tensordict.batch_size, tensordict.ndim
        mean, std = self._candidates(batch, self.num_candidates, self.planning_horizon, tensordict)
        for _ in range(self.optim_steps):
            shape = [*batch, self.num_candidates, *mean.shape[dims + 1 :]]
            noise = torch.randn(shape, dtype=mean.dtype, device=mean.device)
            actions = self.action_spec.project(mean + std * noise)
            imagined = self._imagined(tensordict, actions)
            imagined.set(self.reward_key, self._rewards(imagined, self.reward_key))
            self.advantage_module(imagined)
            advantage = imagined.get("advantage").narrow(dims + 1, 0, 1)
            best, values = best_of(advantage, actions, self.top_k, dims)
            weights = (self.temperature * (values - values.amax(dims, keepdim=True))).exp()
            weights = weights / weights.sum(dims, keepdim=True)
            mean = (weights * best).sum(dims, keepdim=True)
            std = (weights * (best - mean).square()).sum(dims, keepdim=True).sqrt()
        action: Tensor = self.action_spec.project(mean.select(dims, 0).select(dims, 0))
        return action
