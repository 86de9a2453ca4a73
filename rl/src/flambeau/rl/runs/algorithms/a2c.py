"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from flambeau.rl.objectives import A2CLoss
from flambeau.rl.runs.algorithms._parts import Parts, adam, critic, stochastic_policy
from flambeau.rl.trainers.algorithms import A2CTrainer

__all__ = ["PRESETS", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """Steps are collected by `envs` environments, `steps` each, and serve once."""

    frames: int = 1_000_000
    envs: int = 16
    steps: int = 8
    lr: float = 1e-3
    gamma: float = 0.99
    lmbda: float = 0.95
    entropy: float = 0.0
    critic: float = 0.5
    grad_norm: float = 0.5
    cells: tuple[int, ...] = (64, 64)


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"frames": 300_000, "lr": 2e-3},
    "Pendulum-v1": {"frames": 1_000_000, "gamma": 0.9, "lr": 7e-4},
}


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    policy = stochastic_policy(env, settings.cells, nn.Tanh)
    loss = A2CLoss(
        policy,
        critic(env, settings.cells, nn.Tanh),
        entropy_coeff=settings.entropy,
        critic_coeff=settings.critic,
        loss_critic_type="l2",
    )
    whole = settings.envs * settings.steps
    optimizer = adam(loss.parameters(), lr=settings.lr, eps=1e-5)
    batches = max(1, -(-frames // whole))
    return Parts(
        policy,
        policy,
        loss,
        A2CTrainer,
        {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=batches),
            "optim_steps_per_batch": 1,
            "clip_norm": settings.grad_norm,
            "gamma": settings.gamma,
            "lmbda": settings.lmbda,
        },
        frames_per_batch=whole,
    )
