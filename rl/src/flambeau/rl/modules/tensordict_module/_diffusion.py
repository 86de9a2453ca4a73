"""A policy that denoises its actions (Chi et al. 2023, arXiv:2303.04137)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn.probabilistic import InteractionType, interaction_type
from flambeau.rl.modules.tensordict_module.common import SafeModule


class _DDPMModule(nn.Module):
    """Denoising diffusion (Ho et al. 2020, arXiv:2006.11239) with variances that grow linearly.

    Args:
        score_network: predicts the noise of (action, observation, step), joined along the last dimension.
        action_dim: size of actions.
        num_steps: how many steps the noise is taken away in.
        beta_start, beta_end: the variances of the first and of the last step.
    """

    betas: Tensor
    alphas: Tensor
    alphas_cumprod: Tensor

    def __init__(
        self, score_network: nn.Module, action_dim: int, num_steps: int = 100, beta_start: float = 1e-4,
        beta_end: float = 0.02,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("num_steps", num_steps), ("action_dim", action_dim)):
            if value < 1:
                raise ValueError(f"DiffusionActor: {name} is {value}, expected a positive number.")
        if not 0 < beta_start <= beta_end < 1:
            raise ValueError(
                f"DiffusionActor: beta_start is {beta_start} and beta_end {beta_end}, expected 0 < start <= end < 1."
            )
        self.score_network, self.action_dim, self.num_steps = score_network, action_dim, num_steps
        betas = torch.linspace(beta_start, beta_end, num_steps)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", 1 - betas)
        self.register_buffer("alphas_cumprod", (1 - betas).cumprod(0))

    def add_noise(self, clean_action: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Noisy actions, and the noise, for training.

        Args:
            clean_action: (*batch, action_dim).
            t: int64 (*batch,), steps in [0, num_steps).
        """
        noise = torch.randn_like(clean_action)
        kept = self.alphas_cumprod.to(clean_action)[t].unsqueeze(-1)
        return kept.sqrt() * clean_action + (1 - kept).sqrt() * noise, noise

    def forward(self, observation: Tensor) -> Tensor:
        """Actions (*batch, action_dim) of observations (*batch, ...): from noise, or from 0 without any."""
        exact = interaction_type() is InteractionType.DETERMINISTIC
        shape = (*observation.shape[:-1], self.action_dim)
        action = observation.new_zeros(shape) if exact else torch.randn(
            shape, dtype=observation.dtype, device=observation.device
        )  # fmt: skip
        for step in range(self.num_steps - 1, -1, -1):
            beta, alpha, kept = (
                each[step].to(observation) for each in (self.betas, self.alphas, self.alphas_cumprod)
            )  # fmt: skip
            at = observation.new_full((*observation.shape[:-1], 1), step)
            noise = self.score_network(torch.cat([action, observation, at], -1))
            action = (action - beta / (1 - kept).sqrt() * noise) / alpha.sqrt()
            if step and not exact:
                action = action + beta.sqrt() * torch.randn_like(action)
        return action


class DiffusionActor(SafeModule):
    """A policy whose actions come from noise that a network takes away, step by step.

    With exploration type DETERMINISTIC it starts from 0 and adds no noise.

    Args:
        action_dim: size of actions.
        obs_dim: size of observations; from the first call unless given.
        score_network: predicts the noise of (action, observation, step), joined along the last dimension; an MLP unless
            given.
        num_steps, beta_start, beta_end: number of steps, and the variances of the first and of the last.
        in_keys: ["observation"] unless given.
        out_keys: ["action"] unless given.
        spec: of the action.
        kwargs: of `SafeModule`.

    Raises:
        ValueError: a number is out of its range.
    """

    def __init__(
        self,
        action_dim: int,
        obs_dim: int | None = None,
        score_network: nn.Module | None = None,
        num_steps: int = 100,
        beta_start: float = 1e-4,
        beta_end: float = 0.02,
        in_keys: Sequence[Any] | None = None,
        out_keys: Sequence[Any] | None = None,
        *,
        spec: Any = None,
        **kwargs: Any,
    ) -> None:
        if score_network is None:
            first = nn.LazyLinear(256) if obs_dim is None else nn.Linear(obs_dim + action_dim + 1, 256)
            score_network = nn.Sequential(
                first, nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, max(action_dim, 1))
            )
        super().__init__(
            _DDPMModule(score_network, action_dim, num_steps, beta_start, beta_end),
            ["observation"] if in_keys is None else in_keys,
            ["action"] if out_keys is None else out_keys,
            spec=spec,
            **kwargs,
        )
