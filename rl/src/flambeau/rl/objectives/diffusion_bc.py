"""Behaviour cloning by an actor that takes noise away from actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._imitation import ImitationLoss
from flambeau.rl.objectives._keys import each_once

__all__ = ["DiffusionBCLoss"]


class DiffusionBCLoss(ImitationLoss):
    """Diffusion policy's loss (Chi et al., 2023, arXiv:2303.04137, equation 5): how well the actor predicts noise.

    Each recorded action is mixed with normal noise, as much as there is at a step of denoising drawn at random.

    Args:
        actor_network: a `DiffusionActor`, or a module whose `module` has `num_steps`, `add_noise(action, step)` and
            `score_network`, which reads the noisy action, the observation and the step in one.
        reduction: "mean", "sum" or "none".

    Returns of `forward`:
        "loss_diffusion_bc", squared errors, of the action's shape with `reduction="none"`.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        observation: Any = "observation"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_diffusion_bc"]

    def __init__(self, actor_network: Any, *, reduction: str = "mean") -> None:
        super().__init__(actor_network, reduction)

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(self._tensor_keys.observation, self._tensor_keys.action)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of steps; see the class."""
        action, observation = self._target_action(tensordict), self._read(tensordict, "observation")
        with self.actor_network_params.to_module(self.actor_network):
            denoiser = self.actor_network.module
            step = torch.randint(0, denoiser.num_steps, action.shape[:-1], device=action.device)
            noisy, noise = denoiser.add_noise(action, step)
            inputs = torch.cat([noisy, observation, step.unsqueeze(-1).to(noisy.dtype)], -1)
            predicted = denoiser.score_network(inputs)
        loss = F.mse_loss(predicted, noise, reduction="none")
        return self._results({"loss_diffusion_bc": self._reduce_loss(loss, tensordict)})
