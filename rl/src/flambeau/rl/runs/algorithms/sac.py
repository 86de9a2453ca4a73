"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from flambeau.rl.objectives import SACLoss, SoftUpdate
from flambeau.rl.runs.algorithms._parts import Parts, adam, continuous, q_network, replay, stochastic_policy
from flambeau.rl.trainers.algorithms import SACTrainer

__all__ = ["PRESETS", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """After each `batch_frames` steps of `envs` environments, `updates` batches of the buffer are trained with."""

    frames: int = 1_000_000
    envs: int = 1
    batch_frames: int = 1
    updates: int = 1
    batch_size: int = 256
    buffer: int = 1_000_000
    start: int = 1_000
    lr: float = 1e-3
    gamma: float = 0.99
    tau: float = 0.005
    cells: tuple[int, ...] = (256, 256)


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "frames": 20_000,
        "envs": 4,
        "batch_frames": 16,
        "updates": 8,
        "batch_size": 128,
        "buffer": 20_000,
        "cells": (64, 64),
    },
}


def build(env: Any, settings: Settings, frames: int) -> Parts:
    """The parts for an environment, and a run of so many frames."""
    continuous(env, "sac")
    policy = stochastic_policy(env, settings.cells, nn.ReLU)
    loss = SACLoss(
        policy,
        q_network(env, settings.cells),
        num_qvalue_nets=2,
        loss_function="l2",
        action_spec=env.action_spec_unbatched,
    )
    loss.make_value_estimator(gamma=settings.gamma)
    return Parts(
        policy,
        policy,
        loss,
        SACTrainer,
        {
            "optimizer": adam(loss.parameters(), lr=settings.lr),
            "replay_buffer": replay(settings.buffer, settings.batch_size, loss.in_keys),
            "target_net_updater": SoftUpdate(loss, tau=settings.tau),
            "optim_steps_per_batch": settings.updates,
        },
        frames_per_batch=settings.batch_frames,
        init_random_frames=settings.start,
    )
